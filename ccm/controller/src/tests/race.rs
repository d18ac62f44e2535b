//! Two controllers at once, and an API server that is slow, refuses and loses answers.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use windlass_ccm::testing::faults::{FaultRates, Random};

use super::rig::{Rig, pool};

const NAMES: [&str; 8] = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"];

/// Services come, change and go at random for a while.
async fn live(rig: &mut Rig, dice: &mut Random) {
    for _ in 0..40 {
        let name = NAMES[usize::try_from(dice.below(8)).expect("small")];
        match (rig.exists(name), dice.below(3)) {
            (false, _) => rig.create(name, &shape(dice)),
            (true, 0) => rig.delete(name),
            (true, 1) => {
                // Made anew before anybody saw to it.
                rig.edit(name, &json!({ "metadata": { "finalizers": null } }));
                rig.delete(name);
                rig.create(name, &shape(dice));
            }
            (true, _) => {
                let port = 80 + dice.below(3);
                rig.edit(
                    name,
                    &json!({ "spec": { "ports": [{ "port": port, "protocol": "TCP", "nodePort": 30080 }] } }),
                );
            }
        }
        sleep(Duration::from_millis(dice.below(300))).await;
    }
}

fn shape(dice: &mut Random) -> Value {
    let port = 80 + dice.below(3);
    let mut service =
        json!({ "spec": { "ports": [{ "port": port, "protocol": "TCP", "nodePort": 30080 }] } });
    if dice.below(2) == 0 {
        service["metadata"]["annotations"]["windlass.dev/sharing-key"] = json!("k");
    }
    if dice.below(4) == 0 {
        service["metadata"]["annotations"]["windlass.dev/address-count"] = json!("2");
    }
    service
}

async fn goes_well(seed: u64, controllers: usize, weather: FaultRates) {
    let what = format!("seed {seed}, {controllers} controllers, {weather:?}");
    let mut rig = Rig::new(&[pool("p", &["192.0.2.64/26"], &json!({ "quarantineSeconds": 2 }))]);
    let mut running: Vec<_> = (0..controllers).map(|_| rig.controller()).collect();
    rig.api.set_fault_rates(weather, seed);
    live(&mut rig, &mut Random::new(seed ^ 0xabcd)).await;
    rig.api.set_fault_rates(FaultRates { refused: 0, lost: 0, ..weather }, seed);
    rig.settle().await;
    rig.check(&expected(&rig), &what);
    for controller in running.drain(..) {
        controller.kill().await;
    }
    rig.check_that_a_restart_writes_nothing(&what).await;
}

/// As many addresses as each of the Services that are left asks for.
fn expected(rig: &Rig) -> BTreeMap<&'static str, usize> {
    let count = |name: &str| {
        let service = rig.api.get(&super::rig::key(name))?;
        let asked = service["metadata"]["annotations"]["windlass.dev/address-count"].as_str().unwrap_or("1");
        Some(asked.parse().expect("a number"))
    };
    NAMES.into_iter().filter_map(|name| Some((name, count(name)?))).collect()
}

#[tokio::test(start_paused = true)]
async fn two_controllers_at_once_double_and_leak_nothing() {
    for seed in 0..12 {
        goes_well(seed, 2, FaultRates { delay_ms: 60, ..FaultRates::default() }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_slow_refuses_and_loses_answers_costs_time_only() {
    for seed in 100..112 {
        goes_well(seed, 1, FaultRates { delay_ms: 60, refused: 10, lost: 10 }).await;
    }
}

// shows: allocation 111; field-reports F-04, F-74
#[tokio::test(start_paused = true)]
async fn two_controllers_and_a_failing_api_server_double_and_leak_nothing() {
    for seed in 200..212 {
        goes_well(seed, 2, FaultRates { delay_ms: 60, refused: 10, lost: 10 }).await;
    }
}

//! Controllers that start again, and two at once. Numbers at the end of names are those of `docs/allocation.md`.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;
use windlass_ccm::testing::faults::{Dice, Weather};

use super::rig::{Rig, key, pool};
use super::scenarios::annotated;

#[tokio::test(start_paused = true)]
async fn a_controller_started_five_times_changes_no_address_and_serves_nobody_else_78() {
    let mut rig = Rig::new(&[pool("p", &["192.0.2.100/32", "192.0.2.200/32"], &json!({}))]);
    for name in ["a", "b", "c", "d"] {
        rig.create(name, &json!({}));
    }
    let first = rig.controller();
    rig.settle().await;
    first.kill().await;
    for start in 1..=5 {
        let what = format!("start {start}");
        rig.check_that_a_restart_writes_nothing(&what).await;
        rig.check(&[("a", 1), ("b", 1), ("c", 0), ("d", 0)].into(), &what);
        assert_eq!(
            (rig.shown("a").concat(), rig.shown("b").concat()),
            ("192.0.2.100".into(), "192.0.2.200".into())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_status_shows_is_kept_for_it_by_a_controller_that_knows_nothing_else_79() {
    let mut rig = Rig::new(&[pool("p", &["192.0.2.16/31"], &json!({}))]);
    // The older ones have none, and would take the lowest: it is the youngest's.
    rig.create("a", &json!({}));
    rig.create("b", &json!({}));
    let shown = json!([{ "ip": "192.0.2.16", "ipMode": "VIP" }]);
    rig.create("c", &json!({ "status": { "loadBalancer": { "ingress": shown } } }));
    let controller = rig.controller();
    rig.settle().await;
    rig.check(&[("a", 1), ("b", 0), ("c", 1)].into(), "all are served that can be");
    assert_eq!(
        (rig.shown("c").concat(), rig.shown("a").concat()),
        ("192.0.2.16".into(), "192.0.2.17".into())
    );
    controller.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_that_meets_a_conflict_is_written_again_and_loses_no_address_80() {
    for code in [409, 429, 500] {
        let mut rig = Rig::new(&[pool("p", &["192.0.2.16/30"], &json!({}))]);
        let controller = rig.controller();
        rig.api.fail("patch", "services/ns/a/status", code);
        rig.api.fail("create", "virtualips", code);
        rig.create("a", &json!({}));
        rig.settle().await;
        rig.check(&[("a", 1)].into(), &code.to_string());
        assert_eq!(rig.shown("a"), ["192.0.2.16"], "{code}");
        controller.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_deleted_while_no_controller_runs_leaves_nothing_81() {
    for (how, strip) in [("with its finalizer", false), ("by force", true)] {
        let mut rig = Rig::new(&[pool("p", &["192.0.2.16/32"], &json!({}))]);
        rig.create("a", &json!({}));
        rig.create("b", &json!({}));
        let first = rig.controller();
        rig.settle().await;
        first.kill().await;
        if strip {
            rig.edit("a", &json!({ "metadata": { "finalizers": null } }));
        }
        rig.delete("a");
        assert_eq!(rig.exists("a"), !strip, "{how}");
        let second = rig.controller();
        rig.settle().await;
        rig.check(&[("b", 1)].into(), how);
        second.kill().await;
    }
}

/// What users do, one step at a time.
fn something(rig: &mut Rig, dice: &mut Dice, names: &[&'static str]) {
    let name = names[usize::try_from(dice.below(6)).expect("small")];
    let asks = |dice: &mut Dice| match dice.below(4) {
        0 => json!({ "windlass.dev/addresses": format!("192.0.2.{}", 16 + dice.below(8)) }),
        1 => json!({ "windlass.dev/address-count": "2" }),
        2 => json!({ "windlass.dev/sharing-key": "k" }),
        _ => json!({}),
    };
    let wish = asks(dice);
    if !rig.exists(name) {
        let port = 1000 + dice.below(1000);
        let ports = json!([{ "name": "p", "port": port, "protocol": "TCP", "nodePort": 30000 + port }]);
        rig.create(name, &json!({ "metadata": { "annotations": wish }, "spec": { "ports": ports } }));
    } else if dice.below(3) == 0 {
        rig.delete(name);
    } else {
        let none = json!({ "windlass.dev/addresses": null, "windlass.dev/address-count": null,
                           "windlass.dev/sharing-key": null });
        rig.edit(name, &annotated(&windlass_ccm::testing::with(none, &wish)));
    }
}

async fn two_at_once(seed: u64) {
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut dice = Dice::new(seed);
    let mut rig = Rig::new(&[pool("p", &["192.0.2.16/29"], &json!({ "quarantineSeconds": 30 }))]);
    let mut both = vec![rig.controller(), rig.controller()];
    rig.api.set_weather(Weather { refused: 10, lost: 10, delay_ms: 2000 }, seed);
    for _ in 0..30 {
        something(&mut rig, &mut dice, &names);
        sleep(Duration::from_millis(dice.below(20_000))).await;
        if dice.below(5) == 0 {
            let which = usize::try_from(dice.below(2)).expect("small");
            both.swap_remove(which).kill().await;
            both.push(rig.controller());
        }
    }
    rig.api.set_weather(Weather::default(), seed);
    rig.settle().await;
    let what = format!("seed {seed}");
    let shown: Vec<(&str, usize)> =
        names.into_iter().filter(|name| rig.exists(name)).map(|name| (name, rig.shown(name).len())).collect();
    rig.check(&shown.iter().copied().collect(), &what);
    for (name, count) in shown {
        let service = rig.api.get(&key(name)).expect("a Service");
        let served = rig.reason(name) == "True Allocated";
        let expected =
            if service["metadata"]["annotations"]["windlass.dev/address-count"] == "2" { 2 } else { 1 };
        assert!(!served || count == expected, "{what}: {name} has {count}\n{}", rig.objects());
        assert!(served || rig.reason(name).starts_with("False "), "{what}: {name}: {}", rig.reason(name));
    }
    for controller in both {
        controller.kill().await;
    }
    rig.check_that_a_restart_writes_nothing(&what).await;
}

#[tokio::test(start_paused = true)]
async fn two_controllers_at_once_on_a_failing_api_server_double_and_leak_nothing_111() {
    for seed in 0..20 {
        two_at_once(seed).await;
    }
}

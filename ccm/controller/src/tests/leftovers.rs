//! Entries of a status that nobody serves any more, and such as somebody does.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use windlass_ccm::testing::apiserver::ApiServer;
use windlass_ccm::testing::faults::FaultRates;

use super::rig::{Rig, Running, key, pool, text};

const OURS: &str = "192.0.2.16";

fn one_pool() -> Vec<Value> {
    vec![pool("p", &["192.0.2.16/29"], &json!({}))]
}

fn entries() -> Value {
    json!([{ "ip": "203.0.113.9", "ipMode": "VIP" }, { "hostname": "lb.example" }])
}

/// A status with these entries, as the API server has it when another controller wrote it at that time.
fn written(entries: &Value, time: &str) -> Value {
    let fields = json!({ "f:status": { "f:loadBalancer": { "f:ingress": {} } } });
    let wrote = json!({ "manager": "old-balancer", "operation": "Update", "apiVersion": "v1", "time": time,
                        "subresource": "status", "fieldsType": "FieldsV1", "fieldsV1": fields });
    json!({
        "metadata": { "managedFields": [wrote] },
        "status": { "loadBalancer": { "ingress": entries } },
    })
}

/// Written before the test began.
fn left_behind() -> Value {
    written(&entries(), "2025-12-01T00:00:00Z")
}

fn shown(api: &ApiServer) -> Vec<String> {
    let service = api.get(&key("a")).expect("a Service");
    let all = service["status"]["loadBalancer"]["ingress"].as_array().cloned().unwrap_or_default();
    all.iter().map(|entry| text(&entry["ip"]) + &text(&entry["hostname"])).collect()
}

/// The messages of the events that tell of removals, and how often each was counted.
fn told(rig: &Rig) -> Vec<String> {
    let events =
        rig.api.list("events").into_iter().filter(|event| event["reason"] == "ForeignIngressRemoved");
    events.map(|event| format!("{} {}", event["count"], text(&event["message"]))).collect()
}

/// A controller that serves the Service, too, and puts its entries back behind ours whenever they are gone. It may live in
/// year 2030: all that it writes is younger than what the test made.
fn renews(api: ApiServer) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            let is = shown(&api);
            if !is.iter().any(|entry| entry == "203.0.113.9") {
                let all = [&json!([{ "ip": OURS, "ipMode": "VIP" }]), &entries()];
                let all: Vec<Value> =
                    all.into_iter().filter_map(Value::as_array).flatten().cloned().collect();
                api.edit(&key("a"), &written(&json!(all), "2030-01-01T00:00:00Z"));
            }
            tokio::select! {
                () = api.changed() => {}
                () = sleep(Duration::from_secs(7)) => {}
            }
        }
    })
}

async fn restarted(rig: &mut Rig, controller: Running) -> Running {
    controller.kill().await;
    rig.controller()
}

// shows: allocation 114
#[tokio::test(start_paused = true)]
async fn what_a_predecessor_left_goes_when_our_own_address_works_and_is_told_once() {
    let mut rig = Rig::new(&one_pool());
    rig.stop_agent();
    rig.create("a", &left_behind());
    let mut controller = rig.controller();
    rig.settle().await;
    assert_eq!(shown(&rig.api), ["203.0.113.9", "lb.example"], "it may still work, and ours does not yet");
    assert_eq!(rig.reason("a"), "False NotAnnounced");
    controller = restarted(&mut rig, controller).await;
    rig.settle().await;
    assert_eq!(shown(&rig.api), ["203.0.113.9", "lb.example"]);
    rig.start_agent();
    rig.settle().await;
    assert_eq!((shown(&rig.api), rig.reason("a")), (vec![OURS.to_owned()], "True Allocated".into()));
    let told = told(&rig);
    assert_eq!(told.len(), 1, "{told:#?}");
    for word in ["1 removed 203.0.113.9, lb.example", "old-balancer"] {
        assert!(told[0].contains(word), "{word}: {told:#?}");
    }
    controller.kill().await;
    rig.check_that_a_restart_writes_nothing("after all").await;
}

#[tokio::test(start_paused = true)]
async fn one_write_shows_our_own_address_and_what_was_left_no_more() {
    let mut rig = Rig::new(&one_pool());
    let controller = rig.controller();
    rig.create("a", &left_behind());
    rig.settle_keeping_writes().await;
    let writes: Vec<_> =
        rig.writes().into_iter().filter(|write| write.path.starts_with("services/")).collect();
    assert_eq!(writes.len(), 2, "finalizer and status: {writes:#?}");
    assert_eq!(shown(&rig.api), [OURS]);
    controller.kill().await;
}

// shows: allocation 114
#[tokio::test(start_paused = true)]
async fn what_another_controller_puts_back_stays_whatever_happens_then() {
    let mut rig = Rig::new(&one_pool());
    rig.create("a", &left_behind());
    let mut controller = rig.controller();
    let rival = renews(rig.api.clone());
    let all = [OURS, "203.0.113.9", "lb.example"];
    rig.settle().await;
    assert_eq!(shown(&rig.api), all, "put back");
    // Neither a new controller nor an address that is silent for a while begins it anew.
    for what in ["a restart", "another"] {
        controller = restarted(&mut rig, controller).await;
        rig.settle().await;
        assert_eq!(shown(&rig.api), all, "{what}");
        rig.stop_agent();
        rig.settle().await;
        assert_eq!(
            (shown(&rig.api).join(" "), rig.reason("a")),
            (all.join(" "), "False NotAnnounced".into())
        );
        controller = restarted(&mut rig, controller).await;
        rig.start_agent();
        rig.settle().await;
        assert_eq!((shown(&rig.api).join(" "), rig.reason("a")), (all.join(" "), "True Allocated".into()));
    }
    assert_eq!(told(&rig).len(), 1, "{:#?}", told(&rig));
    rival.abort();
    controller.kill().await;
    rig.check_that_a_restart_writes_nothing("after all").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_added_to_a_service_that_is_served_stays_with_a_classless_one_and_goes_with_one_of_our_class()
{
    for class in [Value::Null, json!("windlass.dev/windlass")] {
        let mut rig = Rig::new(&one_pool());
        let controller = rig.controller();
        rig.create("a", &json!({ "spec": { "loadBalancerClass": class } }));
        rig.settle().await;
        let all = json!([{ "ip": OURS, "ipMode": "VIP" }, { "ip": "203.0.113.9", "ipMode": "VIP" }]);
        rig.api.edit(&key("a"), &written(&all, "2030-01-01T00:00:00Z"));
        rig.settle().await;
        let expected: &[&str] = if class.is_null() { &[OURS, "203.0.113.9"] } else { &[OURS] };
        assert_eq!(shown(&rig.api), expected, "class {class}");
        assert_eq!(told(&rig).len(), usize::from(!class.is_null()), "class {class}");
        controller.kill().await;
        rig.check_that_a_restart_writes_nothing(&class.to_string()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_adds_to_a_service_of_our_class_again_and_again_is_answered_calmly() {
    let mut rig = Rig::new(&one_pool());
    let controller = rig.controller();
    rig.create("a", &json!({ "spec": { "loadBalancerClass": "windlass.dev/windlass" } }));
    rig.settle().await;
    rig.api.take_writes();
    let rival = renews(rig.api.clone());
    sleep(Duration::from_hours(1)).await;
    let writes = rig.writes();
    assert!((5..25).contains(&writes.len()), "{} writes in an hour: {writes:#?}", writes.len());
    let contested = rig.api.list("events").into_iter().filter(|event| event["reason"] == "StatusContested");
    assert!(contested.count() > 0, "it is told of");
    rival.abort();
    sleep(Duration::from_mins(6)).await;
    assert_eq!(shown(&rig.api), [OURS], "without the other only its own is shown");
    controller.kill().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_left_goes_also_where_the_api_server_fails_to_say_who_wrote_it() {
    for seed in 1..=12 {
        let mut rig = Rig::new(&one_pool());
        let controller = rig.controller();
        // Reads are refused, too, and that of the writer is one of few.
        rig.api.set_fault_rates(FaultRates { refused: 50, ..FaultRates::default() }, seed);
        rig.create("a", &left_behind());
        sleep(Duration::from_mins(3)).await;
        rig.api.set_fault_rates(FaultRates::default(), seed);
        rig.settle().await;
        assert_eq!(shown(&rig.api), [OURS], "seed {seed}: {}", rig.objects());
        controller.kill().await;
    }
}

//! The condition that users wait for: it holds while clients reach the Service, and no longer.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::rig::{Rig, custom, pool, text};

const ADDRESS: &str = "192.0.2.16";

fn one_pool() -> Vec<Value> {
    vec![pool("p", &["192.0.2.16/29"], &json!({ "quarantineSeconds": 0 }))]
}

fn set(rig: &Rig, change: &Value) {
    rig.api.edit("virtualippools//p", &json!({ "spec": change }));
}

/// Every address is announced on this interface, in its subnet or not.
fn announce_on(rig: &Rig, interface: &str) {
    rig.api.put(custom("Announcement", "everywhere", &json!({ "interfaces": [interface] })));
}

/// The writes to Services since the last call of `take_writes`.
fn written(rig: &Rig) -> Vec<String> {
    let writes = rig.writes().into_iter().filter(|write| write.path.starts_with("services/"));
    writes.map(|write| format!("{} {}", write.path, write.body)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_service_of_a_pool_that_no_node_can_announce_says_so_until_one_can() {
    type Remedy = fn(&Rig);
    let remedies: [(&str, Remedy); 2] = [
        ("an Announcement names the interface", |rig| announce_on(rig, "eth0")),
        ("the pool gets addresses of the nodes' subnet", |rig| {
            set(rig, &json!({ "addresses": ["192.0.2.16/29"] }));
        }),
    ];
    for (what, remedy) in remedies {
        let mut rig = Rig::new(&[pool("p", &["10.0.0.0/29"], &json!({ "onRemoval": "Move" }))]);
        let controller = rig.controller();
        rig.create("a", &json!({}));
        for _ in 0..3 {
            rig.settle_keeping_writes().await;
            assert_eq!((rig.shown("a"), rig.reason("a")), (vec![], "False NotAnnounced".into()), "{what}");
        }
        assert_eq!(written(&rig).len(), 2, "{what}: the finalizer, and why: {:#?}", written(&rig));
        rig.api.take_writes();
        remedy(&rig);
        rig.settle_keeping_writes().await;
        assert_eq!((rig.shown("a").len(), rig.reason("a")), (1, "True Allocated".into()), "{what}");
        assert_eq!(written(&rig).len(), 1, "{what}: address and condition: {:#?}", written(&rig));
        controller.kill().await;
        rig.check_that_a_restart_writes_nothing(what).await;
    }
}

// shows: field-reports F-25
#[tokio::test(start_paused = true)]
async fn an_address_in_service_that_nobody_can_announce_any_more_stays_and_is_said_not_to_work_until_it_does()
{
    type Change = fn(&Rig);
    let cases: [(&str, Change, Change); 5] = [
        (
            "its virtual router is deleted, and no node could carry another",
            |rig| {
                announce_on(rig, "nope0");
                for router in rig.api.list("virtualrouters") {
                    rig.api.delete(&format!("virtualrouters//{}", text(&router["metadata"]["name"])));
                }
            },
            |rig| rig.api.delete("announcements//everywhere"),
        ),
        ("another host has it", |rig| rig.take(ADDRESS), |rig| rig.let_go(ADDRESS)),
        (
            "nobody can guard it",
            |rig| {
                rig.stop_agent();
                rig.announced(ADDRESS, "False", "Unguarded", "no guard");
            },
            |rig| rig.announced(ADDRESS, "True", "Active", "guarded"),
        ),
        (
            "a node's kernel answers for it",
            |rig| {
                rig.stop_agent();
                rig.announced(ADDRESS, "False", "AddressRefused", "the kernel has it");
            },
            |rig| rig.announced(ADDRESS, "True", "Active", "taken off there"),
        ),
        ("the only agent is stopped for good", Rig::stop_agent, |rig| {
            rig.announced(ADDRESS, "True", "Active", "started");
        }),
    ];
    for (what, breaks, mends) in cases {
        let mut rig = Rig::new(&one_pool());
        let controller = rig.controller();
        rig.create("a", &json!({}));
        rig.settle().await;
        rig.api.take_writes();
        for (change, expected) in [(breaks, "False NotAnnounced"), (mends, "True Allocated")] {
            change(&rig);
            rig.settle_keeping_writes().await;
            let is = (rig.shown("a").concat(), rig.reason("a"));
            assert_eq!(is, (ADDRESS.into(), expected.into()), "{what}: {}", rig.objects());
        }
        assert_eq!(written(&rig).len(), 2, "{what}: {:#?}", written(&rig));
        controller.kill().await;
    }
}

// shows: field-reports F-51
/// The provider rotates the IPv6 prefix. Link-local addresses stay, and so does the election.
#[tokio::test(start_paused = true)]
async fn a_service_of_a_prefix_that_no_node_has_any_more_says_so_and_moves_to_the_new_one_where_its_pool_lets_it()
 {
    for (on_removal, expected) in
        [("Move", ("2001:db8:5::8", "True Allocated")), ("Keep", ("2001:db8::8", "True SubnetGone"))]
    {
        let mut rig = Rig::new(&[pool("p", &["2001:db8::8/125"], &json!({ "quarantineSeconds": 0 }))]);
        let controller = rig.controller();
        rig.create("a", &json!({ "spec": { "ipFamilies": ["IPv6"], "clusterIPs": ["fd00::1"] } }));
        rig.settle().await;
        let is = |rig: &Rig| (rig.shown("a").concat(), rig.reason("a"));
        assert_eq!(is(&rig), ("2001:db8::8".into(), "True Allocated".into()));
        // Its agent goes on: what is announced by nobody, or by a node that is gone, would be said to be not announced.
        rig.api.edit("virtualips//2001-db8--8", &json!({ "status": { "activeNode": "n1" } }));
        rig.api.take_writes();
        for (number, node) in ["n1", "n2"].iter().enumerate() {
            let interface = json!({
                "name": "eth0", "mac": format!("02:00:00:00:00:0{number}"), "linkLocal": format!("fe80::{}", number + 1),
                "addresses": [format!("192.0.2.{}/24", 251 + number), format!("2001:db8:5::ff:{}/64", 1 + number)],
            });
            rig.api.edit(&format!("nodenetworks//{node}"), &json!({ "spec": { "interfaces": [interface] } }));
            rig.settle_keeping_writes().await;
            let expected = if number == 0 { "True Allocated" } else { "True SubnetGone" };
            assert_eq!(is(&rig), ("2001:db8::8".into(), expected.into()), "{node} has the new prefix");
        }
        assert!(rig.message("a").contains("onRemoval: Move"), "{}", rig.message("a"));
        assert_eq!(written(&rig).len(), 1, "{:#?}", written(&rig));
        set(&rig, &json!({ "addresses": ["2001:db8:5::8/125"], "onRemoval": on_removal }));
        rig.settle().await;
        assert_eq!(is(&rig), (expected.0.into(), expected.1.into()), "{on_removal}: {}", rig.objects());
        controller.kill().await;
        rig.check_that_a_restart_writes_nothing(on_removal).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_in_service_that_another_host_takes_is_told_of_once_each_time_and_not_by_a_restart() {
    let mut rig = Rig::new(&one_pool());
    let controller = rig.controller();
    rig.create("a", &json!({}));
    rig.settle().await;
    let told = |rig: &Rig| told(rig, "AddressTaken");
    assert_eq!(told(&rig), Vec::<String>::new());
    rig.take(ADDRESS);
    rig.settle().await;
    assert_eq!(told(&rig), [format!("Warning 1 {ADDRESS} AddressTaken")]);
    controller.kill().await;
    rig.check_that_a_restart_writes_nothing("it is taken").await;
    let _controller = rig.controller();
    rig.let_go(ADDRESS);
    rig.settle().await;
    assert_eq!((rig.shown("a").concat(), rig.reason("a")), (ADDRESS.into(), "True Allocated".into()));
    rig.take(ADDRESS);
    rig.settle().await;
    assert_eq!(told(&rig).len(), 2, "{:?}", told(&rig));
}

/// The events of this reason.
fn told(rig: &Rig, reason: &str) -> Vec<String> {
    let events = rig.api.list("events").into_iter().filter(|event| event["reason"] == reason);
    events
        .map(|event| format!("{} {} {}", text(&event["type"]), event["count"], text(&event["message"])))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn that_another_host_uses_an_address_in_service_too_is_told_once_each_time_and_breaks_nothing() {
    let mut rig = Rig::new(&one_pool());
    let controller = rig.controller();
    rig.create("a", &json!({}));
    rig.settle().await;
    rig.stop_agent();
    rig.api.take_writes();
    for (times, host) in [(1, "02:00:00:00:00:99"), (2, "02:00:00:00:00:aa")] {
        rig.contested(ADDRESS, host);
        rig.settle_keeping_writes().await;
        let is = (rig.shown("a").concat(), rig.reason("a"));
        assert_eq!(is, (ADDRESS.into(), "True AddressConflict".into()), "{}", rig.objects());
        let events = told(&rig, "AddressConflict");
        assert_eq!(events.len(), times, "{events:?}");
        assert_eq!(
            events.iter().filter(|event| event.starts_with("Warning 1 ") && event.contains(host)).count(),
            1
        );
        // Another node announces it: the conflict is the same.
        rig.contested_at(ADDRESS, host, "n2");
        rig.settle_keeping_writes().await;
        assert_eq!(written(&rig).len(), 1, "{:#?}", written(&rig));
        rig.announced(ADDRESS, "True", "Active", "Node n1 answers for it");
        rig.settle_keeping_writes().await;
        assert_eq!(rig.reason("a"), "True Allocated");
        rig.api.take_writes();
    }
    rig.contested(ADDRESS, "02:00:00:00:00:99");
    rig.settle().await;
    controller.kill().await;
    rig.check_that_a_restart_writes_nothing("it is contested").await;
}

#[tokio::test(start_paused = true)]
async fn an_adopted_address_that_no_node_can_announce_stays_and_is_said_not_to_work() {
    let mut rig = Rig::new(&[pool("p", &["10.0.0.0/29"], &json!({}))]);
    let shown = json!([{ "ip": "10.0.0.3", "ipMode": "VIP" }]);
    rig.create("a", &json!({ "status": { "loadBalancer": { "ingress": shown } } }));
    let controller = rig.controller();
    rig.settle().await;
    assert_eq!((rig.shown("a").concat(), rig.reason("a")), ("10.0.0.3".into(), "False NotAnnounced".into()));
    announce_on(&rig, "eth0");
    rig.settle().await;
    assert_eq!((rig.shown("a").concat(), rig.reason("a")), ("10.0.0.3".into(), "True Allocated".into()));
    controller.kill().await;
}

#[tokio::test(start_paused = true)]
async fn neither_a_failover_nor_an_agent_that_is_updated_writes_the_service() {
    let mut rig = Rig::new(&one_pool());
    let controller = rig.controller();
    rig.create("a", &json!({}));
    rig.settle_keeping_writes().await;
    assert_eq!(written(&rig).len(), 2, "an ordinary start is finalizer and status: {:#?}", written(&rig));
    rig.api.take_writes();
    rig.announced(ADDRESS, "True", "Announced", "Node n2 answers for it");
    rig.settle_keeping_writes().await;
    assert_eq!(written(&rig), [""; 0], "a failover");
    rig.stop_agent();
    sleep(Duration::from_secs(20)).await;
    rig.start_agent();
    rig.settle_keeping_writes().await;
    assert_eq!(written(&rig), [""; 0], "an update of the only agent");
    assert_eq!((rig.shown("a").concat(), rig.reason("a")), (ADDRESS.into(), "True Allocated".into()));
    controller.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_says_that_clients_reach_it_until_the_address_it_changes_to_works() {
    let mut rig = Rig::new(&one_pool());
    let controller = rig.controller();
    rig.create("a", &json!({}));
    rig.settle().await;
    // From now on nothing new is announced.
    rig.stop_agent();
    rig.announced(ADDRESS, "True", "Announced", "Node n1 answers for it");
    rig.settle().await;
    let wish = json!({ "metadata": { "annotations": { "windlass.dev/addresses": "192.0.2.20" } } });
    rig.edit("a", &wish);
    rig.settle().await;
    assert_eq!((rig.shown("a").concat(), rig.reason("a")), (ADDRESS.into(), "True NotAnnounced".into()));
    rig.start_agent();
    rig.settle().await;
    assert_eq!((rig.shown("a").concat(), rig.reason("a")), ("192.0.2.20".into(), "True Allocated".into()));
    controller.kill().await;
}

#[tokio::test(start_paused = true)]
async fn an_adopted_address_is_said_to_work_once_it_is_announced_here() {
    let mut rig = Rig::new(&one_pool());
    rig.stop_agent();
    let shown = json!([{ "ip": "192.0.2.18", "ipMode": "VIP" }]);
    rig.create("a", &json!({ "status": { "loadBalancer": { "ingress": shown } } }));
    let controller = rig.controller();
    rig.settle().await;
    assert_eq!(
        (rig.shown("a").concat(), rig.reason("a")),
        ("192.0.2.18".into(), "False NotAnnounced".into())
    );
    rig.start_agent();
    rig.settle().await;
    assert_eq!((rig.shown("a").concat(), rig.reason("a")), ("192.0.2.18".into(), "True Allocated".into()));
    controller.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_is_told_which_node_announces_its_address_when_that_is_another_one_and_only_then() {
    let mut rig = Rig::new(&one_pool());
    let controller = rig.controller();
    rig.create("a", &json!({}));
    rig.settle().await;
    let vip = text(&rig.api.list("virtualips")[0]["metadata"]["name"]);
    let told = |rig: &Rig| -> Vec<String> {
        let events = rig.api.list("events");
        let of_moves = events.iter().filter(|event| event["reason"] == "AnnouncingNodeChanged");
        of_moves.map(|event| text(&event["message"])).collect()
    };
    let active = |rig: &Rig, node: &str| {
        rig.api.edit(&format!("virtualips//{vip}"), &json!({ "status": { "activeNode": node } }));
    };
    active(&rig, "n1");
    rig.settle().await;
    assert_eq!(told(&rig), Vec::<String>::new(), "it is the first node that is told to announce it");
    active(&rig, "n2");
    rig.settle().await;
    let events = told(&rig);
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(
        events[0].starts_with(&format!("{ADDRESS} is announced by node n2, before by node n1: ")),
        "{events:?}"
    );
    controller.kill().await;
    let restarted = rig.controller();
    rig.settle().await;
    assert_eq!(told(&rig).len(), 1, "a restart tells nothing");
    restarted.kill().await;
}

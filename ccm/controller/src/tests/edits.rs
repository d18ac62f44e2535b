//! What becomes of addresses when the admin edits pools. Numbers at the end of names are those of `docs/dev/allocation.md`.

use serde_json::{Value, json};

use super::rig::{Rig, pool, text};
use super::scenarios::{annotated, dual};

fn set(rig: &Rig, name: &str, addresses: &[&str]) {
    rig.api.edit(&format!("virtualippools//{name}"), &json!({ "spec": { "addresses": addresses } }));
}

/// The pool that the object of an address names.
fn pool_of(rig: &Rig, address: &str) -> String {
    let vips = rig.api.list("virtualips");
    let vip = vips.iter().find(|vip| vip["spec"]["address"] == address);
    vip.map(|vip| text(&vip["spec"]["pool"])).unwrap_or_default()
}

/// Waits until the counts of pool `p` are as expected.
async fn counted(rig: &Rig, what: &str, expected: [&str; 2]) {
    rig.settle().await;
    assert_eq!(counts(rig, "p"), expected, "{what}");
}

/// `total/assigned/available` of both families, as the pool's status says.
fn counts(rig: &Rig, name: &str) -> [String; 2] {
    let pool = rig.api.get(&format!("virtualippools//{name}")).expect("a pool");
    ["ipv4", "ipv6"].map(|family| {
        let counts = &pool["status"][family];
        format!("{}/{}/{}", counts["total"], counts["assigned"], counts["available"])
    })
}

// shows: allocation 49, 64
#[tokio::test(start_paused = true)]
async fn a_pool_of_both_families_that_appears_changes_no_address_49_64_73() {
    let mut rig = Rig::new(&[pool("p", &["192.0.2.16/30"], &json!({}))]);
    let controller = rig.controller();
    rig.create("single", &json!({}));
    rig.create("dual", &dual("PreferDualStack"));
    rig.settle().await;
    assert_eq!(
        (rig.shown("single"), rig.shown("dual")),
        (vec!["192.0.2.16".into()], vec!["192.0.2.17".into()])
    );
    rig.api.put(pool("a", &["192.0.2.24/30", "2001:db8::8/125"], &json!({ "priority": 1 })));
    rig.settle().await;
    rig.check(&[("single", 1), ("dual", 2)].into(), "a second pool, searched first");
    assert_eq!(rig.shown("single"), ["192.0.2.16"]);
    assert_eq!(rig.shown("dual"), ["192.0.2.17", "2001:db8::8"]);
    rig.create("next", &json!({}));
    rig.settle().await;
    assert_eq!(rig.shown("next"), ["192.0.2.24"]);
    controller.kill().await;
}

// shows: allocation 50
#[tokio::test(start_paused = true)]
async fn a_pool_that_loses_a_family_takes_no_address_away_50() {
    let mut rig = Rig::new(&[
        pool("p", &["192.0.2.16/30", "2001:db8::8/125"], &json!({})),
        pool("q", &["192.0.2.24/30", "2001:db8::10/125"], &json!({})),
    ]);
    let controller = rig.controller();
    rig.create("a", &dual("RequireDualStack"));
    rig.settle().await;
    set(&rig, "p", &["2001:db8::8/125"]);
    rig.settle().await;
    rig.check(&[("a", 2)].into(), "the pool has IPv6 alone");
    assert_eq!(rig.shown("a"), ["192.0.2.16", "2001:db8::8"]);
    assert_eq!(rig.reason("a"), "True AddressOutsidePools");
    controller.kill().await;
}

// shows: allocation 68 to 70; field-reports F-02
#[tokio::test(start_paused = true)]
async fn growing_shrinking_renaming_splitting_and_deleting_pools_moves_nobody_68_69_70_72() {
    let mut rig = Rig::new(&[pool("p", &["192.0.2.16/29"], &json!({}))]);
    let controller = rig.controller();
    for (name, address) in [("a", "192.0.2.16"), ("b", "192.0.2.20")] {
        rig.create(name, &annotated(&json!({ "windlass.dev/addresses": address })));
    }
    rig.settle().await;
    for name in ["a", "b"] {
        rig.edit(name, &annotated(&json!({ "windlass.dev/addresses": null })));
    }
    let kept = async |what: &str, pools: [&str; 2], reasons: [&str; 2]| {
        rig.settle().await;
        rig.check(&[("a", 1), ("b", 1)].into(), what);
        assert_eq!(["a", "b"].map(|name| rig.shown(name).concat()), ["192.0.2.16", "192.0.2.20"], "{what}");
        assert_eq!(["192.0.2.16", "192.0.2.20"].map(|address| pool_of(&rig, address)), pools, "{what}");
        let expected = reasons.map(|reason| format!("True {reason}"));
        assert_eq!(["a", "b"].map(|name| rig.reason(name)), expected, "{what}: {}", rig.objects());
    };
    let (inside, outside) = ("Allocated", "AddressOutsidePools");
    kept("as made", ["p", "p"], [inside, inside]).await;
    set(&rig, "p", &["192.0.2.16/28"]);
    kept("grown", ["p", "p"], [inside, inside]).await;
    set(&rig, "p", &["192.0.2.16-192.0.2.20"]);
    kept("shrunk to what is in use", ["p", "p"], [inside, inside]).await;
    rig.api.edit(
        "virtualippools//p",
        &json!({ "spec": { "avoidReserved": "Subnet", "addresses": ["192.0.2.16/28"] } }),
    );
    kept("one is the network's address and avoided", ["p", "p"], [inside, inside]).await;
    set(&rig, "p", &["192.0.2.16/30"]);
    kept("shrunk below what is in use", ["p", "p"], [inside, outside]).await;
    rig.api.put(pool("q", &["192.0.2.20/30"], &json!({})));
    kept("split", ["p", "q"], [inside, inside]).await;
    rig.api.delete("virtualippools//p");
    rig.api.put(pool("r", &["192.0.2.16/30"], &json!({})));
    kept("one half renamed", ["r", "q"], [inside, inside]).await;
    rig.api.edit("virtualippools//q", &json!({ "spec": { "disabled": true } }));
    rig.api.edit("virtualippools//r", &json!({ "spec": { "namespaces": ["elsewhere"] } }));
    kept("disabled, and for others", ["r", "q"], [inside, inside]).await;
    rig.api.delete("virtualippools//q");
    rig.api.delete("virtualippools//r");
    kept("all deleted", ["r", "q"], [outside, outside]).await;
    rig.api.put(pool("s", &["192.0.2.0/25"], &json!({})));
    kept("another that has them", ["s", "s"], [inside, inside]).await;
    controller.kill().await;
    rig.check_that_a_restart_writes_nothing("after all edits").await;
}

// shows: allocation 71, 72, 86
#[tokio::test(start_paused = true)]
async fn without_a_pool_services_wait_quietly_and_the_first_pool_serves_them_71_72_86() {
    let mut rig = Rig::new(&[]);
    let controller = rig.controller();
    rig.create("any", &json!({}));
    rig.create("named", &annotated(&json!({ "windlass.dev/pool": "p" })));
    rig.settle().await;
    rig.check(&[("any", 0), ("named", 0)].into(), "no pool");
    assert_eq!(
        (rig.reason("any"), rig.reason("named")),
        ("False NoFreeAddress".into(), "False NoSuchPool".into())
    );
    rig.api.put(pool("p", &["192.0.2.16/30"], &json!({ "autoAssign": false })));
    rig.settle().await;
    rig.check(&[("any", 0), ("named", 1)].into(), "a pool for those that name it");
    rig.api.edit("virtualippools//p", &json!({ "spec": { "autoAssign": true } }));
    rig.settle().await;
    rig.check(&[("any", 1), ("named", 1)].into(), "a pool for all");
    rig.api.delete("virtualippools//p");
    rig.settle().await;
    rig.create("late", &json!({}));
    rig.settle().await;
    rig.check(&[("any", 1), ("named", 1), ("late", 0)].into(), "the pool is gone");
    controller.kill().await;
}

// shows: allocation 75, 77
#[tokio::test(start_paused = true)]
async fn the_status_of_a_pool_counts_what_is_given_and_is_put_right_when_edited_75_77() {
    let mut rig =
        Rig::new(&[pool("p", &["192.0.2.16/30", "2001:db8::10/126"], &json!({ "quarantineSeconds": 0 }))]);
    let controller = rig.controller();
    counted(&rig, "nothing given", ["4/0/4", "4/0/4"]).await;
    rig.create("a", &dual("RequireDualStack"));
    counted(&rig, "one of each given", ["4/1/3", "4/1/3"]).await;
    set(&rig, "p", &["192.0.2.16/29", "2001:db8::10/125"]);
    counted(&rig, "grown", ["8/1/7", "8/1/7"]).await;
    rig.delete("a");
    counted(&rig, "given back", ["8/0/8", "8/0/8"]).await;
    let nonsense = json!({ "total": 1, "assigned": 7, "available": 9, "quarantined": 3 });
    rig.api.edit("virtualippools//p", &json!({ "status": { "ipv4": nonsense } }));
    counted(&rig, "edited by hand", ["8/0/8", "8/0/8"]).await;
    controller.kill().await;
}

// shows: allocation 36
#[tokio::test(start_paused = true)]
async fn a_label_of_a_namespace_opens_a_pool_for_what_comes_and_moves_nobody_36() {
    let chosen = json!({ "priority": 1, "namespaceSelectors": [{ "matchLabels": { "team": "red" } }] });
    let mut rig =
        Rig::new(&[pool("open", &["192.0.2.16/32"], &json!({})), pool("red", &["192.0.2.24/30"], &chosen)]);
    let namespace = |labels: Value| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "ns", "uid": "ns", "labels": labels } });
    rig.api.put(namespace(json!({})));
    let controller = rig.controller();
    rig.create("a", &json!({}));
    rig.create("b", &json!({}));
    rig.settle().await;
    rig.check(&[("a", 1), ("b", 0)].into(), "the open pool has one address");
    rig.api.put(namespace(json!({ "team": "red" })));
    rig.settle().await;
    assert_eq!(
        (rig.shown("a").concat(), rig.shown("b").concat()),
        ("192.0.2.16".into(), "192.0.2.24".into())
    );
    rig.api.put(namespace(json!({})));
    rig.settle().await;
    rig.check(&[("a", 1), ("b", 1)].into(), "the label is gone");
    assert_eq!(
        (rig.shown("a").concat(), rig.shown("b").concat()),
        ("192.0.2.16".into(), "192.0.2.24".into())
    );
    controller.kill().await;
}

// shows: allocation 77, 122
#[tokio::test(start_paused = true)]
async fn one_bad_pool_stops_no_other_and_recovers_77_122() {
    let mut rig = Rig::new(&[
        pool("bad", &["192.0.2.99-192.0.2.1", "nonsense"], &json!({ "priority": 1 })),
        pool("good", &["192.0.2.16/30"], &json!({})),
    ]);
    let controller = rig.controller();
    rig.create("a", &json!({}));
    rig.settle().await;
    assert_eq!(rig.shown("a"), ["192.0.2.16"]);
    set(&rig, "good", &["192.0.2.16/32", "192.0.2.28/32"]);
    rig.create("b", &json!({}));
    rig.settle().await;
    assert_eq!(rig.shown("b"), ["192.0.2.28"], "edits of the good one take effect");
    rig.create("c", &json!({}));
    rig.settle().await;
    assert_eq!(rig.reason("c"), "False NoFreeAddress");
    set(&rig, "bad", &["192.0.2.40/32"]);
    rig.settle().await;
    assert_eq!(rig.shown("c"), ["192.0.2.40"]);
    controller.kill().await;
}

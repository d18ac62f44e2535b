//! Controllers that start again. Numbers at the end of names are those of `docs/dev/allocation.md`.

use serde_json::json;

use super::rig::{Rig, pool};

// shows: allocation 78
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

// shows: allocation 79
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

// shows: allocation 80
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

// shows: allocation 81
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

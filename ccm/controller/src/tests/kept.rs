//! What the controller does not keep of an object stays on it: it never writes an object back.

use serde_json::json;

use super::rig::{Rig, key, pool};

// shows: threats T-10
#[tokio::test(start_paused = true)]
async fn what_is_not_kept_of_an_object_is_neither_written_nor_removed_nor_a_reason_to_write() {
    let mut rig = Rig::new(&[pool("p", &["192.0.2.16/29"], &json!({}))]);
    let note = "x".repeat(256 * 1024);
    let foreign = json!({ "metadata": {
        "annotations": { "example.com/note": note, "windlass.dev/addresses": "192.0.2.17" },
        "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y" }],
    } });
    let mut parts = vec!["nodes//n1".to_owned(), key("web")];
    rig.api.edit(&parts[0], &foreign);
    rig.api.take_writes();
    let controller = rig.controller();
    rig.create("web", &foreign);
    rig.settle_keeping_writes().await;
    assert_eq!(rig.shown("web"), ["192.0.2.17"], "what it asks for is read");
    parts.extend(
        rig.api
            .list("virtualips")
            .iter()
            .map(|vip| format!("virtualips//{}", vip["metadata"]["name"].as_str().expect("a name"))),
    );
    for vip in &parts[2..] {
        rig.api.edit(vip, &foreign);
    }
    rig.edit("web", &json!({ "spec": { "loadBalancerSourceRanges": ["10.0.0.0/8"] } }));
    rig.settle_keeping_writes().await;
    let writes = rig.writes();
    assert!(writes.iter().any(|write| write.path.starts_with("services/")), "{writes:?}");
    for write in &writes {
        let is_lease = write.path.starts_with("leases/");
        assert!(write.verb != "update" || is_lease, "an object is written back whole: {write:?}");
        let body = write.body.to_string();
        assert!(!body.contains("example.com/note") && !body.contains("ownerReferences"), "{write:?}");
        assert!(body.len() < 10_000, "{write:?}");
    }
    for part in &parts {
        let metadata = rig.api.get(part).expect("it is there")["metadata"].clone();
        for field in ["annotations", "ownerReferences"] {
            assert_eq!(metadata[field], foreign["metadata"][field], "{part}");
        }
    }
    rig.api.take_writes();
    for part in &parts {
        rig.api.edit(part, &json!({ "metadata": { "annotations": { "example.com/note": "another" } } }));
    }
    rig.settle_keeping_writes().await;
    assert_eq!(rig.api.writes(), [], "nobody here reads it");
    controller.kill().await;
}

use serde_json::json;

use super::*;
use crate::inspect::scene::{ago, healthy, network, object, router, vip};

#[test]
fn the_next_good_node_has_the_addresses_of_one_that_is_drained() {
    let to = |snapshot: &Snapshot, node: &str| -> Vec<(String, usize, Option<String>)> {
        goings(snapshot, node).into_iter().map(|one| (one.router, one.addresses, one.to)).collect()
    };
    let mut snapshot = healthy();
    assert_eq!(to(&snapshot, "n1"), [("r1".to_owned(), 1, Some("n2".to_owned()))]);
    assert_eq!(to(&snapshot, "n2"), [], "it announces nothing");

    let mut failing = network("n2");
    failing["spec"]["failedChecks"] = json!(["kube-proxy: no answer"]);
    snapshot.networks.objects[1] = object(failing);
    assert_eq!(to(&snapshot, "n1")[0].2, Some("n3".to_owned()), "something fails on n2");

    let mut drained = router("r1");
    for node in drained["spec"]["nodes"].as_array_mut().unwrap().iter_mut().skip(1) {
        node["priority"] = json!(60);
    }
    snapshot.routers.objects[0] = object(drained);
    assert_eq!(to(&snapshot, "n1")[0].2, None);
    let words = told(&goings(&snapshot, "n1"));
    assert!(words.contains("r1   1 addresses   stay"), "{words}");
}

#[test]
fn only_what_is_kept_back_is_released() {
    let mut snapshot = healthy();
    let mut kept = vip("192.0.2.11", "gone", "r1");
    kept["spec"]["quarantine"] = json!({ "reason": "Released", "until": ago(-60) });
    snapshot.vips.objects.push(object(kept));
    let of = |address: &str| kept_back(&snapshot, address.parse().unwrap());
    assert_eq!(of("192.0.2.11").unwrap().name_any(), "192.0.2.11");
    assert_eq!(of("192.0.2.12"), Err(NotReleased::Nothing("192.0.2.12".parse().unwrap())));
    let in_use = of("192.0.2.10").unwrap_err().to_string();
    assert!(in_use.contains("in use by default/web"), "{in_use}");
}

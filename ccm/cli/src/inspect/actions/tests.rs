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
fn an_address_is_moved_only_to_a_node_that_can_announce_it_and_is_well() {
    let address = "192.0.2.10".parse().unwrap();
    let hindrance = |snapshot: &Snapshot, node: &str| {
        let carried = moving::carried(snapshot, address).unwrap();
        moving::hindrance(snapshot, &crate::inspect::details::Details::default(), carried, node)
    };
    let says = |snapshot: &Snapshot, node: &str, part: &str| {
        let told = hindrance(snapshot, node).unwrap_or_default();
        assert!(told.contains(part), "{told:?} does not say {part:?}");
    };
    let healthy = healthy();
    assert_eq!(hindrance(&healthy, "n2"), None);
    says(&healthy, "n9", "there is no Node of that name");
    assert_eq!(
        moving::carried(&healthy, "192.0.2.77".parse().unwrap()).unwrap_err().to_string(),
        "no Service has 192.0.2.77: `windlass vips` lists the addresses in use"
    );

    let mut snapshot = healthy.clone();
    let mut drained = crate::inspect::scene::node("n2");
    drained["metadata"]["labels"] = json!({ LABEL_EXCLUDE: "" });
    snapshot.nodes.objects[1] = object(drained);
    says(&snapshot, "n2", "windlass undrain n2");

    let mut snapshot = healthy.clone();
    let mut failing = network("n2");
    failing["spec"]["failedChecks"] = json!(["kube-proxy: no answer"]);
    snapshot.networks.objects[1] = object(failing);
    says(&snapshot, "n2", "kube-proxy: no answer");
    snapshot.networks.objects.remove(1);
    says(&snapshot, "n2", "no agent reports");

    let mut snapshot = healthy.clone();
    let mut local = router("r1");
    local["spec"]["externalTrafficPolicy"] = json!("Local");
    snapshot.routers.objects[0] = object(local);
    says(&snapshot, "n2", "no ready pod");

    let mut snapshot = healthy.clone();
    snapshot.nodes.objects.push(object(crate::inspect::scene::node("n4")));
    snapshot.networks.objects.push(object(network("n4")));
    says(&snapshot, "n4", "no address of 192.0.2.0/24");
}

#[test]
fn an_address_counts_as_moved_when_the_node_announces_it_and_is_preferred() {
    let address = "192.0.2.10".parse().unwrap();
    let mut snapshot = healthy();
    assert!(moving::is_at(&snapshot, address, "n1"));
    assert!(!moving::is_at(&snapshot, address, "n2"));
    let mut moving_away = router("r1");
    moving_away["spec"]["nodes"][1]["priority"] = json!(255 - 2);
    moving_away["spec"]["nodes"][0]["priority"] = json!(238);
    snapshot.routers.objects[0] = object(moving_away);
    assert!(!moving::is_at(&snapshot, address, "n1"), "not for long");
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

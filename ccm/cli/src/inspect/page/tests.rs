use serde_json::{Value, json};

use super::*;
use crate::inspect::OwnController;
use crate::inspect::scene::{healthy, now, object, service, vip};

fn own(mut snapshot: Snapshot) -> Snapshot {
    let election = Some(("kube-system/cloud-controller-manager".to_owned(), "n2_0123".to_owned()));
    snapshot.own =
        Some(OwnController { settings: windlass_controller::Settings::default(), election, since: now() });
    snapshot.leases = Vec::new().into();
    snapshot
}

fn told(snapshot: &Snapshot) -> Value {
    serde_json::from_slice(&data(snapshot).unwrap()).unwrap()
}

#[test]
fn the_data_is_that_of_windlass_status_with_addresses_and_nodes() {
    let mut snapshot = own(healthy());
    let calm = told(&snapshot);
    assert_eq!(
        calm["problems"],
        json!([]),
        "the controller that looks is the leader, whatever leases it can read"
    );
    assert_eq!(calm["controller"]["leader"], "n2_0123");
    assert_eq!(calm["vips"][0]["services"], json!(["default/web"]));
    assert_eq!(calm["nodes"][0]["addresses"], 1);
    let hostile = "</script><img src=x onerror=alert(1)>";
    snapshot.services.objects.push(object(service("b", "", "False", "NoFreeAddress", hostile)));
    snapshot.vips.objects.push(object(vip("192.0.2.11", "b", "r1")));
    let told = told(&snapshot);
    let status: Value = serde_json::to_value(Overview::of(&snapshot)).unwrap();
    for (key, value) in status.as_object().unwrap() {
        assert_eq!(told[key], *value, "{key}");
    }
    assert_eq!(told["problems"][0]["message"], hostile);
    assert_eq!(told["vips"].as_array().unwrap().len(), 2);
}

#[test]
fn nothing_runs_in_the_page_but_its_own_script_and_no_text_is_read_as_html() {
    let between = |begin: &str, end: &str| {
        let (_, rest) = HTML.split_once(begin).unwrap();
        rest.split_once(end).unwrap().0
    };
    let policy = POLICY.as_ref().unwrap().to_str().unwrap();
    assert!(policy.contains(&format!("script-src '{}'", source(between("<script>", "</script>")))));
    assert!(policy.contains(&format!("style-src '{}'", source(between("<style>", "</style>")))));
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
    assert_eq!((HTML.matches("<script").count(), HTML.matches("<style").count()), (1, 1));
    // As a browser would refuse at run time, and what would load something or take text for HTML.
    for word in [
        "http:",
        "https:",
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "eval(",
        " style=",
        " onclick",
        "src=",
    ] {
        assert!(!HTML.contains(word), "{word}");
    }
    // RFC 4648's example, in SHA-256 (FIPS 180-4): the digest of the empty text.
    assert_eq!(source(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
}

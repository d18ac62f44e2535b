use serde_json::json;
use windlass_api::VirtualIP;

use super::*;

fn service(name: &str, version: u64, ips: &[&str], key: Option<&str>) -> Service {
    let ingress: Vec<_> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    let port = name.bytes().last().unwrap_or(0);
    let annotations = key.map_or_else(|| json!({}), |key| json!({"windlass.dev/sharing-key": key}));
    serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": name, "uid": name, "resourceVersion": version.to_string(),
                     "annotations": annotations},
        "spec": {"type": "LoadBalancer", "ports": [{"port": port}]},
        "status": {"loadBalancer": {"ingress": ingress}},
    }))
    .unwrap()
}

fn addresses(texts: &[&str]) -> BTreeSet<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn steady() -> Oracle {
    Oracle::new([(Key::new("default", "a"), addresses(&["192.0.2.1"]))].into())
}

fn counts(shows: &[&[&str]]) -> (usize, usize, usize) {
    let mut oracle = steady();
    for (version, ips) in (1..).zip(shows) {
        oracle.look(&[service("a", version, ips, None)]);
    }
    oracle.counts()
}

#[test]
fn another_address_is_a_move_none_is_a_loss_and_each_is_told_once() {
    assert_eq!(counts(&[&["192.0.2.1"]]), (0, 0, 0));
    assert_eq!(counts(&[&["192.0.2.1"], &[], &[]]), (0, 0, 1));
    assert_eq!(counts(&[&["192.0.2.1", "192.0.2.2"], &["192.0.2.1", "192.0.2.2"]]), (1, 0, 0));
    let mut oracle = steady();
    assert_eq!(oracle.look(&[]).len(), 1, "it is gone");
    assert!(oracle.verdict().is_err());
}

#[test]
fn what_a_hand_wrote_is_no_move_until_it_was_put_right_and_what_else_is_shown_is_one() {
    let key = Key::new("default", "a");
    let forged = |oracle: &mut Oracle| {
        oracle.hand_comes(&key, addresses(&["192.0.2.9"]));
        // It is on its way still.
        oracle.look(&[service("a", 1, &["192.0.2.1"], None)]);
        oracle.hand_came(&service("a", 2, &["192.0.2.9"], None));
        oracle.look(&[service("a", 2, &["192.0.2.9"], None)]);
        oracle.look(&[service("a", 3, &[], None)]);
        assert_eq!(oracle.counts(), (0, 0, 0));
    };
    let mut oracle = steady();
    forged(&mut oracle);
    oracle.look(&[service("a", 4, &["192.0.2.7"], None)]);
    assert_eq!(oracle.counts(), (1, 0, 0), "it settled on something else");
    let mut oracle = steady();
    forged(&mut oracle);
    oracle.look(&[service("a", 4, &["192.0.2.1"], None)]);
    oracle.look(&[service("a", 5, &["192.0.2.9"], None)]);
    assert_eq!(oracle.counts(), (0, 0, 1), "it was put right, and then what it had was gone");
    let mut oracle = steady();
    forged(&mut oracle);
    oracle.calm(&[service("a", 3, &["192.0.2.9"], None)]);
    assert_eq!(oracle.counts(), (0, 0, 1), "it was never put right");
    let mut oracle = steady();
    forged(&mut oracle);
    oracle.calm(&[service("a", 3, &["192.0.2.1", "192.0.2.9"], None)]);
    assert_eq!(oracle.counts(), (0, 0, 0), "a stranger's entry may stay beside what it had");
}

#[test]
fn two_that_show_one_address_share_it_or_did_so_until_an_edit_since_the_last_calm() {
    let both =
        |first, second| [service("x", 1, &["192.0.2.5"], first), service("y", 1, &["192.0.2.5"], second)];
    for (first, second, doubled) in
        [(None, None, 1), (Some("k"), None, 1), (Some("k"), Some("l"), 1), (Some("k"), Some("k"), 0)]
    {
        let mut oracle = Oracle::default();
        oracle.look(&both(first, second));
        assert_eq!(oracle.counts().1, doubled, "{first:?} {second:?}");
    }
    let mut oracle = Oracle::default();
    oracle.look(&both(Some("k"), Some("k")));
    oracle.look(&both(Some("k"), None));
    assert_eq!(oracle.counts().1, 0, "the controller did not see it yet");
    oracle.calm(&both(Some("k"), None));
    assert_eq!(oracle.counts().1, 1, "it had the time to");
}

fn claim(address: &str, owner: &str, quarantined: bool) -> VirtualIP {
    let mut spec = json!({"address": address, "pool": "p",
                          "owners": [{"namespace": "default", "name": owner, "uid": owner}]});
    if quarantined {
        spec["quarantine"] = json!({"reason": "Released", "until": "2026-01-01T00:00:00Z"});
    }
    serde_json::from_value(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIP", "metadata": {"name": address}, "spec": spec,
    }))
    .unwrap()
}

#[test]
fn an_address_is_intact_while_its_service_alone_shows_it_and_owns_its_claim() {
    let shows = |ips: &[&str]| service("a", 1, ips, None);
    let ours = || vec![claim("192.0.2.1", "a", false)];
    let thief = service("b", 1, &["192.0.2.1"], None);
    let mut with_another = claim("192.0.2.1", "a", false);
    with_another.spec.owners.extend(claim("192.0.2.1", "b", false).spec.owners);
    let address = "192.0.2.1".parse().unwrap();
    for (what, services, virtual_ips, intact) in [
        ("whole", vec![shows(&["192.0.2.1"])], ours(), true),
        ("no status", vec![shows(&[])], ours(), false),
        ("no claim", vec![shows(&["192.0.2.1"])], vec![], false),
        ("another's claim", vec![shows(&["192.0.2.1"])], vec![claim("192.0.2.1", "b", false)], false),
        ("another's claim too", vec![shows(&["192.0.2.1"])], vec![with_another], false),
        ("kept back", vec![shows(&["192.0.2.1"])], vec![claim("192.0.2.1", "a", true)], false),
        ("shown by another too", vec![shows(&["192.0.2.1"]), thief], ours(), false),
    ] {
        let picture = Picture { services, virtual_ips, pools: Vec::new() };
        assert_eq!(steady().is_intact(&picture, address), intact, "{what}");
        let owned = |claim: &VirtualIP| claim.spec.quarantine.is_none() && claim.spec.owners[0].uid == "a";
        let is_claimed = picture.virtual_ips.iter().any(owned);
        assert_eq!(steady().is_claimed(&picture), is_claimed, "{what}");
        let mut oracle = steady();
        oracle.hand_comes(&Key::new("default", "a"), BTreeSet::new());
        assert!(!oracle.is_intact(&picture, address), "{what}, with a hand in the status");
    }
}

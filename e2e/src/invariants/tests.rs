use serde_json::{Value, json};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn service(uid: &str, ingress: &[&str]) -> Service {
    let ingress: Vec<_> = ingress.iter().map(|ip| json!({"ip": ip})).collect();
    serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": uid, "uid": uid},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
        "status": {"loadBalancer": {"ingress": ingress}, "conditions": [{
            "type": CONDITION_ADDRESS_ALLOCATED, "status": "True", "reason": "Allocated", "message": "It has all.",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]},
    }))
    .unwrap()
}

fn claim(address: &str, owners: &[&str], further: &Value) -> VirtualIP {
    let owners: Vec<_> =
        owners.iter().map(|uid| json!({"namespace": "default", "name": uid, "uid": uid})).collect();
    let mut spec = json!({"address": address, "pool": "p", "owners": owners});
    for (field, value) in further.as_object().unwrap() {
        spec[field] = value.clone();
    }
    serde_json::from_value(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIP", "metadata": {"name": address}, "spec": spec,
    }))
    .unwrap()
}

fn pool(assigned: i64, quarantined: i64) -> VirtualIPPool {
    serde_json::from_value(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIPPool", "metadata": {"name": "p"},
        "spec": {"addresses": ["192.0.2.0/28"], "exclude": ["192.0.2.9"]},
        "status": {"ipv4": {"total": 15, "assigned": assigned, "available": 1, "quarantined": quarantined}},
    }))
    .unwrap()
}

fn resting(until: &str) -> Value {
    json!({"quarantine": {"reason": "Released", "until": until}})
}

#[test]
fn cluster_in_order_has_nothing_wrong() {
    let picture = Picture {
        services: vec![service("a", &["192.0.2.1"]), service("b", &["192.0.2.9"])],
        virtual_ips: vec![
            claim("192.0.2.1", &["a"], &json!({})),
            claim("192.0.2.9", &["b"], &json!({})),
            claim("192.0.2.2", &["gone"], &resting("1970-01-01T00:02:00Z")),
        ],
        pools: vec![pool(1, 1)],
    };
    assert_eq!(picture.wrong(at(121)), Vec::<String>::new());
}

#[test]
fn each_thing_that_is_wrong_is_told() {
    let one = || claim("192.0.2.1", &["a"], &json!({}));
    let cases: [(Vec<Service>, Vec<VirtualIP>, &str); 7] = [
        (vec![service("a", &["192.0.2.1"])], vec![one(), one()], "192.0.2.1 is claimed twice"),
        (vec![], vec![one()], "192.0.2.1 is leaked"),
        (vec![service("a", &[])], vec![one()], "default/a owns 192.0.2.1 and does not show it"),
        (
            vec![service("a", &["192.0.2.1"]), service("b", &["192.0.2.1"])],
            vec![one()],
            "default/a shows 192.0.2.1 as default/b does: this Service has no sharing key",
        ),
        (
            vec![service("a", &["192.0.2.1"]), service("b", &["192.0.2.1"])],
            vec![claim("192.0.2.1", &["a", "b"], &json!({}))],
            "have port 80 of 192.0.2.1",
        ),
        (
            vec![],
            vec![claim("192.0.2.1", &["a"], &resting("1970-01-01T00:00:09Z"))],
            "ended at 1970-01-01T00:00:09Z",
        ),
        (vec![service("a", &[])], vec![], "default/a shows no address, and Allocated"),
    ];
    for (services, virtual_ips, said) in cases {
        let picture = Picture { services, virtual_ips, pools: Vec::new() };
        let wrong = picture.wrong(at(20));
        assert!(wrong.iter().any(|sentence| sentence.contains(said)), "{said:?} is not in {wrong:?}");
    }
    let picture = Picture { pools: vec![pool(1, 0)], ..Picture::default() };
    assert_eq!(picture.wrong(at(0)), ["pool p counts 1 IPv4 addresses assigned, and there are 0"]);
}

/// 192.0.2.9 is excluded from the pool: a stranger may have written it.
#[test]
fn an_address_of_a_pool_is_shown_by_its_owner_alone_and_another_may_be_a_strangers() {
    for (address, wrong) in
        [("192.0.2.1", vec!["default/a shows 192.0.2.1, not its own"]), ("192.0.2.9", vec![])]
    {
        let services = vec![service("a", &[address])];
        let picture = Picture { services, pools: vec![pool(0, 0)], ..Picture::default() };
        assert_eq!(picture.wrong(at(0)), wrong, "{address}");
    }
}

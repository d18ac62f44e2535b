use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

fn service(name: &str, spec: &Value, shown: &[&str]) -> Arc<Service> {
    let ingress: Vec<Value> = shown.iter().map(|address| json!({ "ip": address })).collect();
    let object = json!({
        "metadata": { "namespace": "ns", "name": name, "uid": name },
        "spec": spec,
        "status": { "loadBalancer": { "ingress": ingress } },
    });
    Arc::new(serde_json::from_value(object).expect("a Service"))
}

fn of_another(name: &str, shown: &[&str]) -> Arc<Service> {
    service(name, &json!({ "type": "LoadBalancer", "loadBalancerClass": "example.com/other" }), shown)
}

fn listed(services: &ForeignServices) -> Vec<String> {
    services.by_address().into_iter().map(|(address, service)| format!("{address} {service}")).collect()
}

#[test]
fn only_load_balancers_of_others_count() {
    for (spec, classless_services, counts) in [
        (json!({ "type": "LoadBalancer", "loadBalancerClass": "example.com/other" }), true, true),
        (
            json!({ "type": "LoadBalancer", "loadBalancerClass": windlass_api::LOAD_BALANCER_CLASS }),
            false,
            false,
        ),
        (json!({ "type": "LoadBalancer" }), true, false),
        (json!({ "type": "LoadBalancer" }), false, true),
        (json!({ "type": "ClusterIP" }), false, false),
    ] {
        let settings = Settings { classless_services, ..Settings::default() };
        let mut services = ForeignServices::default();
        let change = Change { old: None, new: Some(service("a", &spec, &["192.0.2.7"])) };
        assert_eq!(services.follow(&change, settings), counts, "{spec} {classless_services}");
        assert_eq!(services.by_address().len(), usize::from(counts), "{spec} {classless_services}");
    }
}

#[test]
fn addresses_come_and_go_with_the_services_that_show_them() {
    let settings = Settings::default();
    let mut services = ForeignServices::default();
    let mut follow = |old: Option<Arc<Service>>, new: Option<Arc<Service>>| {
        let before = services.revision();
        let changed = services.follow(&Change { old, new }, settings);
        assert_eq!(services.revision() != before, changed);
        (changed, listed(&services))
    };
    let one = || of_another("a", &["192.0.2.7"]);
    let other = || of_another("b", &["2001:db8::7", "192.0.2.7"]);
    assert_eq!(follow(None, Some(of_another("a", &[]))), (false, vec![]));
    assert_eq!(follow(None, Some(one())), (true, vec!["192.0.2.7 ns/a".to_owned()]));
    assert_eq!(follow(Some(one()), Some(one())), (false, vec!["192.0.2.7 ns/a".to_owned()]));
    let both = vec!["192.0.2.7 ns/a".to_owned(), "2001:db8::7 ns/b".to_owned()];
    assert_eq!(follow(None, Some(other())), (true, both));
    let left = vec!["192.0.2.7 ns/b".to_owned(), "2001:db8::7 ns/b".to_owned()];
    assert_eq!(follow(Some(one()), None), (true, left));
    assert_eq!(follow(Some(other()), Some(of_another("b", &[]))), (true, vec![]));
    assert_eq!(follow(Some(other()), None), (false, vec![]));
}

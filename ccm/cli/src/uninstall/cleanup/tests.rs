use super::*;

const COMMON: &str = "service.kubernetes.io/load-balancer-cleanup";

fn vip(address: &str, owner: &str, in_quarantine: bool) -> VirtualIP {
    let quarantine = json!({ "until": "2026-01-01T00:00:00Z", "reason": "Released" });
    let mut spec = json!({
        "address": address, "pool": "p", "owners": [{ "namespace": "ns", "name": owner, "uid": owner }],
    });
    if in_quarantine {
        spec["quarantine"] = quarantine;
    }
    let object = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIP", "metadata": { "name": "v" }, "spec": spec,
    });
    serde_json::from_value(object).expect("a VirtualIP")
}

/// Service `web`, whose UID is its name.
fn service(finalizers: &[&str], ips: &[&str], conditions: &[&str], class: Option<&str>) -> Service {
    let ingress: Vec<Value> = ips.iter().map(|ip| json!({ "ip": ip })).collect();
    let condition = |type_: &&str| json!({ "type": type_, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    let object = json!({
        "metadata": { "name": "web", "namespace": "ns", "uid": "web", "resourceVersion": "7", "finalizers": finalizers },
        "spec": { "type": "LoadBalancer", "loadBalancerClass": class },
        "status": { "loadBalancer": { "ingress": ingress }, "conditions": conditions },
    });
    serde_json::from_value(object).expect("a Service")
}

fn found(service: &Service, given: &Given) -> (Vec<String>, Value, Value, Value) {
    let Some(Cleanup { what, patch }) = cleanup(service, given) else {
        return (vec![], Value::Null, Value::Null, Value::Null);
    };
    assert_eq!(patch["metadata"]["uid"], "web", "only to the Service that was looked at");
    assert_eq!(patch["metadata"]["resourceVersion"], "7", "only to the version that was looked at");
    let status = &patch["status"];
    let ingress = &status["loadBalancer"]["ingress"];
    (what, patch["metadata"]["finalizers"].clone(), ingress.clone(), status["conditions"].clone())
}

#[test]
fn finalizer_addresses_and_condition_go_and_what_others_have_written_stays() {
    let given = Given::of(Some(&[vip("192.0.2.200", "web", false)]));
    let service = service(
        &["a.example/b", COMMON],
        &["192.0.2.200", "203.0.113.9"],
        &["Theirs", CONDITION_ADDRESS_ALLOCATED],
        None,
    );
    let (what, finalizers, ingress, conditions) = found(&service, &given);
    let expected = ["finalizer ", "address ", "condition "];
    let expected: Vec<String> = expected
        .iter()
        .zip([COMMON, "192.0.2.200", CONDITION_ADDRESS_ALLOCATED])
        .map(|(what, name)| format!("{what}{name}"))
        .collect();
    assert_eq!(what, expected);
    assert_eq!(finalizers, json!(["a.example/b"]));
    assert_eq!(ingress, json!([{ "ip": "203.0.113.9" }]));
    assert_eq!(conditions[0]["type"], "Theirs");
    assert_eq!(conditions.as_array().map(Vec::len), Some(1));
}

#[test]
fn of_a_service_of_which_nothing_else_is_left_the_fields_go() {
    let given = Given::of(Some(&[vip("192.0.2.200", "web", false)]));
    let service = service(&[COMMON], &["192.0.2.200"], &[], None);
    let (what, finalizers, ingress, conditions) = found(&service, &given);
    assert_eq!(what.len(), 2);
    assert_eq!((finalizers, ingress, conditions), (Value::Null, Value::Null, Value::Null));
}

#[test]
fn a_service_of_another_controller_is_left_alone() {
    let given = Given::of(Some(&[vip("192.0.2.200", "other", false), vip("192.0.2.201", "web", true)]));
    for (what, class) in [("without a class", None), ("of another class", Some("example.org/other"))] {
        let service = service(&[COMMON], &["192.0.2.200"], &["Theirs"], class);
        assert_eq!(cleanup(&service, &given), None, "{what}");
    }
}

#[test]
fn our_finalizer_goes_in_any_case_and_the_common_one_from_services_of_our_class() {
    let none = Given::of(Some(&[]));
    let (what, finalizers, ..) = found(&service(&[CLASS_FINALIZER, COMMON], &[], &[], None), &none);
    assert_eq!((what.len(), finalizers), (1, json!([COMMON])));
    let service = service(&[CLASS_FINALIZER, COMMON], &[], &[], Some(LOAD_BALANCER_CLASS));
    assert_eq!(found(&service, &none).0.len(), 2);
}

#[test]
fn once_the_definitions_are_gone_services_are_known_by_what_they_were_told() {
    let unknown = Given::of(None);
    let told = service(&[COMMON], &["192.0.2.200"], &[CONDITION_ADDRESS_ALLOCATED], None);
    let (what, finalizers, ingress, _) = found(&told, &unknown);
    assert_eq!((what.len(), finalizers, ingress), (3, Value::Null, Value::Null));
    assert_eq!(cleanup(&service(&[COMMON], &["192.0.2.200"], &[], None), &unknown), None);
}

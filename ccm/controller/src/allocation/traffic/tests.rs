use windlass_ccm::watch::Event;

use super::*;
use crate::state::watched_kinds::WatchedKind as _;
use crate::stores::ObjectStore as _;

const ADDRESS: &str = "192.0.2.1";

fn service(name: &str, change: &Value) -> Service {
    let service = json!({
        "metadata": { "namespace": "ns", "name": name, "uid": name, "resourceVersion": "1" },
        "spec": { "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30000 },
    });
    serde_json::from_value(windlass_ccm::testing::with(service, change)).expect("a Service")
}

fn owners(names: &[&str]) -> Vec<ServiceRef> {
    let owner =
        |name: &&str| ServiceRef { namespace: "ns".into(), name: (*name).into(), uid: (*name).into() };
    names.iter().map(owner).collect()
}

/// A cluster with these Services, and an object that says this of its traffic.
fn state(services: Vec<Service>, known: Option<VipTraffic>) -> (AllocationState, Stores) {
    let mut stores = Stores::default();
    for service in services {
        Service::store(&mut stores).handle(Event::Apply(service));
    }
    if let Some(traffic) = known {
        let body = json!({
            "metadata": { "name": ADDRESS, "uid": "v", "resourceVersion": "2" },
            "spec": { "address": ADDRESS, "pool": "p", "owners": owners(&["web"]) },
        });
        let mut vip: windlass_api::VirtualIP = serde_json::from_value(body).expect("a VirtualIP");
        traffic.set(&mut vip.spec);
        stores.vips.learn(std::sync::Arc::new(vip));
    }
    (AllocationState::default(), stores)
}

fn local(ports: &[u16]) -> VipTraffic {
    VipTraffic {
        external_traffic_policy: ExternalTrafficPolicy::Local,
        health_check_node_ports: ports.to_vec(),
        ..VipTraffic::default()
    }
}

#[test]
fn what_becomes_of_an_address_in_use_says_the_pool_that_holds_it_and_the_object_while_none_does() {
    use OnAddressInUse::{Claim, Refuse};
    let rows = [
        ("no pool, and nothing known", None, Refuse, Refuse),
        ("a pool that says nothing", Some(json!({})), Refuse, Refuse),
        ("a pool that claims", Some(json!({ "onAddressInUse": "Claim" })), Refuse, Claim),
        ("a pool that does so no more", Some(json!({ "onAddressInUse": "Refuse" })), Claim, Refuse),
        ("a value of a newer version", Some(json!({ "onAddressInUse": "Ask" })), Claim, Refuse),
        ("a pool that is gone", None, Claim, Claim),
    ];
    for (what, pool, known, expected) in rows {
        let known = VipTraffic { on_address_in_use: known, ..VipTraffic::default() };
        let (mut state, mut stores) = state(vec![service("web", &json!({}))], Some(known));
        if let Some(change) = pool {
            let body = json!({
                "metadata": { "name": "p", "uid": "p", "resourceVersion": "3" }, "spec": { "addresses": ["192.0.2.0/24"] },
            });
            let body = windlass_ccm::testing::with(body, &json!({ "spec": change }));
            let pool: windlass_api::VirtualIPPool = serde_json::from_value(body).expect("a pool");
            windlass_api::VirtualIPPool::store(&mut stores).handle(Event::Apply(pool));
            state.ready = true;
            state.review_pools(&stores);
        }
        let address = ADDRESS.parse().expect("an address");
        let traffic = state.traffic_of(&stores, address, &owners(&["web"]));
        assert_eq!(traffic.on_address_in_use, expected, "{what}");
    }
}

#[test]
fn the_policy_of_an_address_is_that_of_its_services_as_far_as_they_are_known() {
    let cluster = json!({ "spec": { "externalTrafficPolicy": "Cluster", "healthCheckNodePort": 0 } });
    let none = json!({});
    let no_port = json!({ "spec": { "healthCheckNodePort": null } });
    let other_port = json!({ "spec": { "healthCheckNodePort": 30001 } });
    let no_balancer = json!({ "spec": { "type": "ClusterIP", "externalTrafficPolicy": null, "healthCheckNodePort": null } });
    let external =
        json!({ "spec": { "type": "NodePort", "externalIPs": [ADDRESS], "healthCheckNodePort": null } });
    let (web, api) = (|change| service("web", change), |change| service("api", change));
    let rows = [
        ("Cluster", vec![web(&cluster)], None, VipTraffic::default()),
        ("Local", vec![web(&none)], None, local(&[30000])),
        ("Local without a port", vec![web(&no_port)], None, local(&[])),
        ("two that share", vec![web(&none), api(&other_port)], None, local(&[30000, 30001])),
        ("two that differ", vec![web(&none), api(&cluster)], None, VipTraffic::default()),
        ("an external IP", vec![web(&external)], None, local(&[])),
        ("it was Local", vec![web(&cluster)], Some(local(&[30000])), VipTraffic::default()),
        ("another port", vec![web(&other_port)], Some(local(&[30000])), local(&[30001])),
        ("no load balancer any more", vec![web(&no_balancer)], Some(local(&[30000])), local(&[30000])),
        ("a Service that is gone", vec![], Some(local(&[30000])), local(&[30000])),
        (
            "one that is gone beside another",
            vec![api(&other_port)],
            Some(local(&[30000])),
            local(&[30000, 30001]),
        ),
    ];
    for (what, services, known, expected) in rows {
        let names: Vec<String> =
            services.iter().map(|service| service.metadata.name.clone().expect("a name")).collect();
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        if what.contains("gone") {
            names.push("web");
        }
        let (state, stores) = state(services, known);
        let found = state.traffic_of(&stores, ADDRESS.parse().expect("an address"), &owners(&names));
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn a_patch_holds_what_differs_and_makes_the_object_so() {
    let all = [VipTraffic::default(), local(&[]), local(&[30000]), local(&[1, 2])];
    for before in &all {
        for after in &all {
            let (_, stores) = state(vec![], Some(before.clone()));
            let known = stores.vip(ADDRESS.parse().expect("an address")).expect("an object");
            let mut patch = Map::new();
            after.patch(Some(&known.spec), &mut patch);
            assert_eq!(patch.is_empty(), before == after);
            let patched = windlass_ccm::testing::with(json!(known.spec), &Value::Object(patch));
            let mut expected = known.spec.clone();
            after.clone().set(&mut expected);
            assert_eq!(patched, json!(expected));
        }
    }
    let mut patch = Map::new();
    local(&[7]).patch(None, &mut patch);
    assert_eq!(
        Value::Object(patch),
        json!({ "externalTrafficPolicy": "Local", "healthCheckNodePorts": [7] })
    );
}

/// What it is, the Services, the owners, what the object said, and what it is to say.
type Row<'a> = (&'a str, Vec<Service>, &'a [&'a str], Option<VipTraffic>, &'a [RestrictedPort]);

#[test]
fn the_ports_of_an_address_are_those_of_all_its_services_as_far_as_they_are_known() {
    let port = |protocol, port| RestrictedPort { protocol, port };
    let [http, https] = [80, 443].map(|number| port(windlass_api::PortProtocol::Tcp, number));
    let dns = port(windlass_api::PortProtocol::Udp, 53);
    let with_ports = |name: &str, ports: Value| service(name, &json!({ "spec": { "ports": ports } }));
    let web = || with_ports("web", json!([{ "port": 80 }, { "port": 443, "protocol": "TCP" }]));
    let api = || {
        with_ports(
            "api",
            json!([{ "port": 53, "protocol": "UDP" }, { "port": 0 }, { "port": 1, "protocol": "X" }]),
        )
    };
    let external = service(
        "web",
        &json!({ "spec": { "type": "ClusterIP", "externalIPs": [ADDRESS], "ports": [{ "port": 80 }] } }),
    );
    let many: Vec<Value> = (1..=4097).map(|port| json!({ "port": port })).collect();
    let said = |ports: &[RestrictedPort]| Some(VipTraffic { ports: ports.to_vec(), ..local(&[]) });
    let rows: [Row<'_>; 9] = [
        ("one", vec![web()], &["web"], None, &[http, https]),
        ("of two that share", vec![web(), api()], &["web", "api"], None, &[http, https, dns]),
        ("an external IP", vec![external], &["web"], None, &[http]),
        ("one that has gone", vec![web()], &["web"], said(&[http, dns]), &[http, https]),
        ("a Service that is not known", vec![], &["web"], said(&[http]), &[http]),
        ("beside one that is not known", vec![api()], &["web", "api"], said(&[http]), &[http, dns]),
        ("of an older object beside one that is not known", vec![api()], &["web", "api"], said(&[]), &[]),
        ("of no object beside one that is not known", vec![api()], &["web", "api"], None, &[]),
        ("more than an object may say", vec![with_ports("web", json!(&many))], &["web"], said(&[http]), &[]),
    ];
    for (what, services, names, known, expected) in rows {
        let (state, stores) = state(services, known);
        let found = state.traffic_of(&stores, ADDRESS.parse().expect("an address"), &owners(names));
        assert_eq!(found.ports, expected, "{what}");
    }
    // Those that are left out are refused: they would be open to everybody.
    let ranges = json!({ "spec": { "ports": many, "loadBalancerSourceRanges": ["10.0.0.0/8"] } });
    let (state, stores) = state(vec![service("web", &ranges)], None);
    let found = state.traffic_of(&stores, ADDRESS.parse().expect("an address"), &owners(&["web"]));
    assert_eq!((found.ports.len(), found.sources[0].ports.len()), (4096, 4096));
    assert_eq!(found.sources[0].allowed, ["10.0.0.0/8"; 1]);
}

#[test]
fn agents_are_to_hear_soon_of_another_policy_or_port() {
    let none = json!({});
    let rows = [
        (json!({ "metadata": { "labels": { "a": "b" } } }), false),
        (json!({ "spec": { "externalTrafficPolicy": "Cluster" } }), true),
        (json!({ "spec": { "healthCheckNodePort": 1 } }), true),
    ];
    for (change, expected) in rows {
        let [old, new] = [&none, &change].map(|change| Some(std::sync::Arc::new(service("web", change))));
        assert_eq!(may_differ(&Change { old, new }), expected, "{change}");
    }
}

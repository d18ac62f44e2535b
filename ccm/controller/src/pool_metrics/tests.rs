use k8s_openapi::api::discovery::v1::EndpointSlice;
use prometheus::TextEncoder;
use serde_json::{Value, json};
use windlass_api::{Announcement, NodeNetwork, VirtualIP, VirtualIPPool, VirtualRouter};

use super::*;

fn object<K: serde::de::DeserializeOwned>(body: Value) -> K {
    serde_json::from_value(body).expect("an object")
}

fn pool(name: &str, addresses: &[&str], exclude: &[&str]) -> VirtualIPPool {
    object(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIPPool",
        "metadata": { "name": name, "uid": name, "resourceVersion": "1" },
        "spec": { "addresses": addresses, "exclude": exclude, "avoidReserved": "Subnet" },
    }))
}

fn shown(registry: &Registry) -> Vec<String> {
    let body = TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
    body.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn pools_are_shown_by_state_while_they_are_there_and_this_process_leads() {
    let metrics = PoolMetrics::default();
    let registry = Registry::new();
    metrics.register(&registry).expect("metrics");
    assert_eq!(shown(&registry), Vec::<String>::new(), "a standby has nothing to show");
    let shared = Arc::new(SharedState::default());
    metrics.show(&shared);
    assert_eq!(shown(&registry), Vec::<String>::new(), "nothing is known yet");

    let owner = json!({ "namespace": "ns", "name": "s", "uid": "s" });
    let condition = |type_: &str, status: &str, reason: &str| {
        json!({
            "type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-06-01T12:00:00Z",
        })
    };
    let conditions =
        [condition("Announced", "True", "Active"), condition("LoadShared", "False", "SourcesFiltered")];
    let vip: VirtualIP = object(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIP",
        "metadata": { "name": "192.0.2.1", "uid": "v", "resourceVersion": "2" },
        "spec": { "address": "192.0.2.1", "pool": "p", "owners": [owner], "virtualRouter": "r" },
        "status": { "conditions": conditions },
    }));
    let network: NodeNetwork = object(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "NodeNetwork",
        "metadata": { "name": "n1", "uid": "n1", "resourceVersion": "3" },
        "spec": { "agentVersion": "0.1.0", "duplicates": [{ "interface": "eth0", "address": "192.0.2.1", "mac": "02:00:00:00:00:99" }] },
    }));
    let p = pool("p", &["192.0.2.0/29", "2001:db8::1"], &["192.0.2.2"]);
    shared.list(vec![p.clone()]);
    shared.list(vec![vip]);
    shared.list::<VirtualRouter>(vec![]);
    shared.list(vec![network]);
    shared.list::<k8s_openapi::api::core::v1::Service>(vec![]);
    let node = json!({ "metadata": { "name": "n1", "uid": "n1", "resourceVersion": "4" } });
    shared.list::<k8s_openapi::api::core::v1::Node>(vec![object(node)]);
    shared.list::<k8s_openapi::api::core::v1::Namespace>(vec![]);
    shared.list::<EndpointSlice>(vec![]);
    shared.list::<Announcement>(vec![]);
    let expected = [
        r#"windlass_agents{version="0.1.0"} 1"#,
        r#"windlass_pool_addresses{pool="p",family="ipv4",state="assigned"} 1"#,
        r#"windlass_pool_addresses{pool="p",family="ipv4",state="available"} 4"#,
        r#"windlass_pool_addresses{pool="p",family="ipv4",state="quarantined"} 0"#,
        r#"windlass_pool_addresses{pool="p",family="ipv4",state="total"} 5"#,
        r#"windlass_pool_addresses{pool="p",family="ipv6",state="assigned"} 0"#,
        r#"windlass_pool_addresses{pool="p",family="ipv6",state="available"} 1"#,
        r#"windlass_pool_addresses{pool="p",family="ipv6",state="quarantined"} 0"#,
        r#"windlass_pool_addresses{pool="p",family="ipv6",state="total"} 1"#,
        r#"windlass_pool_conflicts{pool="p"} 1"#,
        r#"windlass_pool_contested_external_ips{pool="p"} 0"#,
        r#"windlass_pool_foreign_external_ips{pool="p"} 0"#,
        "windlass_services_waiting 0",
        "windlass_unshared_addresses 1",
    ];
    assert_eq!(shown(&registry), expected);
    shared.forget(&p);
    let expected = [
        r#"windlass_agents{version="0.1.0"} 1"#,
        "windlass_services_waiting 0",
        "windlass_unshared_addresses 1",
    ];
    assert_eq!(shown(&registry), expected);
    drop(shared);
    assert_eq!(shown(&registry), Vec::<String>::new(), "it does not lead any more");
}

#[test]
fn versions_of_agents_are_counted_whatever_a_node_writes() {
    let shared = SharedState::default();
    let (mut nodes, mut networks) = (Vec::new(), Vec::new());
    let mut add = |number: usize, version: &str| {
        let name = format!("n{number:02}");
        let metadata = json!({ "name": name, "uid": name, "resourceVersion": "1" });
        nodes.push(object::<k8s_openapi::api::core::v1::Node>(json!({ "metadata": metadata })));
        networks.push(object::<NodeNetwork>(json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "NodeNetwork",
            "metadata": metadata,
            "spec": { "agentVersion": version },
        })));
    };
    let long = "1".repeat(65);
    for (number, version) in
        ["0.1.0", "0.2.0-rc.1+a", "0.1.0", "", "a\nb 1", "x\"} 1", &long].into_iter().enumerate()
    {
        add(number, version);
    }
    // A node without a Node, and one version more than are shown.
    (7..40).for_each(|number| add(number, &format!("9.{number}")));
    nodes.pop();
    shared.list(nodes);
    shared.list(networks);
    let counts: BTreeMap<String, i64> =
        versions(&shared.state()).into_iter().map(|([version], count)| (version, count)).collect();
    assert!(counts.len() <= VERSIONS + 1, "{counts:?}");
    assert_eq!((counts["0.1.0"], counts["0.2.0-rc.1+a"]), (2, 1));
    assert_eq!(counts.values().sum::<i64>(), 39, "{counts:?}");
}

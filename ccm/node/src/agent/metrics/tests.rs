use std::time::Duration;

use prometheus::TextEncoder;
use serde_json::json;

use super::*;
use crate::agent::health::FailedNodeCheck;
use crate::agent::sharing::{Conversion, SharedAddress};

/// The page with the families that the real types give, through the real registry.
fn page(families: impl Fn() -> Vec<MetricFamily> + Send + Sync + 'static) -> String {
    let registry = Registry::new();
    samples::register(&registry, families).unwrap();
    TextEncoder::new().encode_to_string(&registry.gather()).unwrap()
}

// shows: allocation 104
#[test]
fn refused_packets_are_counted_by_interface_and_reason_and_empty_families_are_left_out() {
    let mut link = LinkStatus::default();
    link.interface = "eth0".to_owned();
    link.rejected = BTreeMap::from([("ttl", 3), ("checksum", 1)]);
    link.foreign_adverts = 5;
    let body = page(move || [routers(&[]), links(std::slice::from_ref(&link))].concat());
    for line in [
        "# TYPE windlass_vrrp_rejected_total counter",
        r#"windlass_vrrp_rejected_total{interface="eth0",reason="ttl"} 3"#,
        r#"windlass_vrrp_rejected_total{interface="eth0",reason="checksum"} 1"#,
        r#"windlass_vrrp_strangers_total{interface="eth0"} 5"#,
    ] {
        assert!(body.lines().any(|got| got == line), "{line}\n{body}");
    }
    assert!(!body.contains("windlass_vrrp_state"), "{body}");
}

#[test]
fn conflicts_of_an_interface_are_counted_from_0_so_that_prometheus_sees_the_first() {
    let links = ["eth0", "eth1"].map(|interface| {
        let mut link = LinkStatus::default();
        link.interface = interface.to_owned();
        link
    });
    let body = page(move || vec![conflicts(&links, BTreeMap::from([("eth1".to_owned(), 2)]))]);
    let told: Vec<&str> = body.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        told,
        [
            r#"windlass_address_conflicts_total{interface="eth0"} 0"#,
            r#"windlass_address_conflicts_total{interface="eth1"} 2"#,
        ]
    );
}

#[test]
fn a_check_that_fails_is_told_once_by_what_it_asks() {
    let of = |threshold: u32| {
        let check = json!({ "httpGet": { "port": 8080, "path": "/healthz" }, "failureThreshold": threshold });
        let failed = FailedNodeCheck { reason: "503".to_owned(), spares_active: threshold == 1 };
        (serde_json::from_value(check).unwrap(), failed)
    };
    let failed = FailedChecks {
        forwarding: [((Family::V4, "eth0".to_owned()), "0".to_owned())].into(),
        late: [(100, of(3).1)].into(),
        endpoints: [(30000, "503".to_owned())].into(),
        of_announcements: [of(1), of(2)].into(),
        ..FailedChecks::default()
    };
    let body = page(move || vec![checks(&failed)]);
    let told: Vec<&str> = body.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        told,
        [
            r#"windlass_agent_check_failed{check="endpoints",port="30000"} 1"#,
            r#"windlass_agent_check_failed{check="forwarding",port=""} 1"#,
            r#"windlass_agent_check_failed{check="httpGet http://localhost:8080/healthz",port="8080"} 1"#,
            r#"windlass_agent_check_failed{check="kube-proxy",port=""} 0"#,
            r#"windlass_agent_check_failed{check="lateness",port=""} 1"#,
            r#"windlass_agent_check_failed{check="pod-network",port=""} 0"#,
        ]
    );
}

#[test]
fn lateness_is_a_histogram_of_cumulative_buckets() {
    let mut lateness = Lateness::default();
    lateness.bounds_seconds = &[0.001, 0.01];
    lateness.counts = vec![5, 2, 1];
    (lateness.sum, lateness.max) = (Duration::from_millis(250), Duration::from_millis(200));
    let body = page(move || super::lateness(&lateness));
    for line in [
        "# TYPE windlass_engine_lateness_seconds histogram",
        "windlass_engine_lateness_seconds_sum 0.25",
        "windlass_engine_lateness_seconds_count 8",
        r#"windlass_engine_lateness_seconds_bucket{le="0.001"} 5"#,
        r#"windlass_engine_lateness_seconds_bucket{le="0.01"} 7"#,
        r#"windlass_engine_lateness_seconds_bucket{le="+Inf"} 8"#,
        "windlass_engine_lateness_max_seconds 0.2",
    ] {
        assert!(body.lines().any(|got| got == line), "{line}\n{body}");
    }
}

#[test]
fn shared_addresses_are_counted_once_and_the_kernel_is_asked_for_packets_only_while_there_is_one() {
    let none = page(|| sharing(&SharingStatus::default(), || panic!("nothing is read")));
    for line in ["windlass_shared_addresses 0", r#"windlass_shared_packets_total{action="directed"} 0"#] {
        assert!(none.lines().any(|got| got == line), "{line}\n{none}");
    }
    let nodes = json!([{ "key": "a", "name": "n1", "address": "192.0.2.11" }]);
    let shared: Vec<Arc<SharedAddress>> = serde_json::from_value(json!([{
        "address": "192.0.2.200", "interface": "eth0", "peers": [],
        "ports": [{ "protocol": "TCP", "port": 53 }, { "protocol": "UDP", "port": 53 }],
        "load": { "nodes": nodes, "lots": "a".repeat(120) },
    }]))
    .unwrap();
    let mut status = SharingStatus::default();
    status.in_force = Arc::new(Conversion::default().of(&shared));
    status.silent = ["192.0.2.12".parse().unwrap()].into();
    status.returning = ["192.0.2.12".parse().unwrap(), "192.0.2.13".parse().unwrap()].into();
    status.filtered = ["192.0.2.13".parse().unwrap(), "192.0.2.14".parse().unwrap()].into();
    let body = page(move || sharing(&status, || Some(7)));
    for line in [
        "windlass_shared_addresses 1",
        r#"windlass_shared_packets_total{action="directed"} 7"#,
        "windlass_sharing_servers_out 3",
    ] {
        assert!(body.lines().any(|got| got == line), "{line}\n{body}");
    }
}

#[test]
fn what_is_forwarded_is_counted() {
    let mut status = ForwardingStatus::default();
    (status.addresses, status.packets) = (3, 120);
    let body = page(move || forwarding(&status));
    for line in ["windlass_forwarded_addresses 3", "windlass_forwarded_packets_total 120"] {
        assert!(body.lines().any(|got| got == line), "{line}\n{body}");
    }
}

use serde_json::json;

use super::*;

fn vip(ports: u16, ranges: u32) -> Arc<VirtualIP> {
    let ports: Vec<_> = (1..=ports).map(|port| json!({ "protocol": "TCP", "port": port })).collect();
    let allowed: Vec<_> = (0..ranges).map(|n| format!("{}/32", std::net::Ipv4Addr::from(n))).collect();
    let spec = json!({
        "address": "192.0.2.1", "pool": "p", "owners": [],
        "sources": [{ "ports": ports, "allowed": allowed }],
    });
    Arc::new(VirtualIP::new("192.0.2.1", serde_json::from_value(spec).unwrap()))
}

#[test]
fn each_range_at_each_port_is_counted_as_objects_come_change_and_go() {
    let mut found = SourceElements::default();
    let history = [
        (None, Some(vip(2, 3)), 8),
        (None, Some(vip(1, 0)), 9),
        (Some(vip(2, 3)), Some(vip(1, 4)), 6),
        (Some(vip(1, 4)), None, 1),
        (Some(vip(1, 0)), None, 0),
    ];
    for (old, new, total) in history {
        found.on_change(&Change { old, new });
        assert_eq!(found.total, total);
    }
}

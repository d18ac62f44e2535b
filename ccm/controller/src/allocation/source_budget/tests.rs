use serde_json::json;

use super::*;
use crate::allocation::source_elements::SourceElements;

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

/// The object of an address, and so many ports in it.
fn named(last: u8, ports: u16) -> Arc<VirtualIP> {
    let address = format!("192.0.2.{last}");
    let ports: Vec<_> = (1..=ports).map(|port| json!({ "protocol": "TCP", "port": port })).collect();
    let spec = json!({ "address": address, "pool": "p", "owners": [], "ports": ports });
    let mut vip = VirtualIP::new(&address, serde_json::from_value(spec).unwrap());
    vip.metadata.uid = Some(address);
    vip.metadata.resource_version = Some("1".into());
    Arc::new(vip)
}

// shows: threats T-03
#[test]
fn many_ports_are_named_while_the_cluster_has_room_few_always_and_what_is_named_stays() {
    let (mut state, mut stores) = (AllocationState::default(), Stores::default());
    let mut make = |vip: Arc<VirtualIP>| {
        let change = Change { old: None, new: Some(Arc::clone(&vip)) };
        state.source_elements.on_change(&change);
        stores.vips.learn(vip);
        let at = |last: u8| IpAddr::from([192, 0, 2, last]);
        [(1, 4096), (1, 100), (200, 64), (200, 65), (200, 4096)]
            .map(|(last, ports)| u8::from(state.has_room_for_ports(&stores, at(last), ports)))
    };
    assert_eq!(make(named(1, 4096)), [1, 1, 1, 1, 1]);
    for last in 2..32 {
        assert_eq!(make(named(last, 4096)), [1, 1, 1, 1, 1], "{last}");
    }
    assert_eq!(make(named(32, 4032)), [1, 1, 1, 0, 0], "room for 64 more, which only few ports are");
    for last in 33..100 {
        assert_eq!(make(named(last, 64)), [1, 1, 1, 0, 0], "few ports take no room");
    }
}

//! Which VRIDs are taken.

use super::*;

#[test]
fn vrids_heard_from_strangers_and_those_on_the_same_link_are_not_taken() {
    let mut cluster = Cluster::new(&[]);
    for node in ["n1", "n2"] {
        cluster.node(node, true);
    }
    // Two subnets on one link, and strangers with 64 on it and 65 on another.
    cluster.networks(
        "n1",
        &[("eth0", &["192.0.2.1/24", "198.51.100.1/24"]), ("eth1", &["203.0.113.1/24"])],
        &[("eth0", 64), ("eth1", 65)],
    );
    cluster.networks("n2", &[("eth0", &["192.0.2.2/24", "198.51.100.2/24"])], &[("eth0", 66)]);
    cluster.vip("192.0.2.100");
    cluster.vip("198.51.100.100");
    cluster.vip("203.0.113.100");
    let plan = cluster.plan();
    assert_eq!(plan.routers_by_vip["192.0.2.100"], "v4-192.0.2.0-24-65");
    assert_eq!(plan.routers_by_vip["198.51.100.100"], "v4-198.51.100.0-24-67");
    assert_eq!(plan.routers_by_vip["203.0.113.100"], "v4-203.0.113.0-24-64");
}

#[test]
fn vrids_wrap_around_and_run_out() {
    let mut cluster = Cluster::of(2);
    let heard: Vec<_> = (64..=191).map(|vrid| ("eth0", vrid)).collect();
    cluster.networks("n1", &[("eth0", &["192.0.2.1/24"])], &heard);
    cluster.vip("192.0.2.100");
    assert_eq!(cluster.router("192.0.2.100").as_deref(), Some("v4-192.0.2.0-24-192"));
    cluster.network("n1", "eth0", &["192.0.2.1/24"]);
    // Virtual routers of another segment on the same link.
    let spec = VirtualRouterSpec::clone(&cluster.input.routers[0].spec);
    let other = |vrid: u8| {
        let spec = VirtualRouterSpec { vrid, segment: "198.51.100.0/24".into(), ..spec.clone() };
        Arc::new(VirtualRouter::new(&format!("other-{vrid}"), spec))
    };
    cluster.input.routers.clear();
    cluster.input.routers.extend((64..=255).map(other));
    let first = planned(&cluster.input()).routers_by_vip["192.0.2.100"].clone();
    assert_eq!(first, "v4-192.0.2.0-24-1");
    cluster.input.routers.extend((1..64).map(other));
    let why = planned(&cluster.input()).unplaced["192.0.2.100"].to_string();
    assert_eq!(
        why,
        "all 255 VRIDs are in use on segment 192.0.2.0/24: free one, or use addresses of another segment"
    );
}

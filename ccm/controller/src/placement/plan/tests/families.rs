//! IPv6, and both families side by side.

use super::*;

#[test]
fn an_ipv6_vip_has_a_router_of_its_own_whose_adverts_come_from_link_local_addresses() {
    let mut cluster = Cluster::new(&[
        ("n1", "eth0", &["192.0.2.11/24", "2001:db8::11/64"]),
        ("n2", "ens3", &["192.0.2.12/24", "2001:db8::12/64", "2001:db8::1:12/64"]),
        ("n3", "eth0", &["192.0.2.13/24"]),
        ("n4", "eth0", &["2001:db8::14/128"]),
        ("n5", "eth0", &["2001:db8::15/127", "fe80::15/64"]),
    ]);
    cluster.vip("192.0.2.200");
    cluster.vip("2001:db8::200");
    let plan = cluster.plan();
    assert_eq!(plan.routers_by_vip["192.0.2.200"], "v4-192.0.2.0-24-64");
    assert_eq!(
        plan.routers_by_vip["2001-db8--200"], "v6-2001-db8---64-64",
        "VRIDs of the families are apart"
    );
    let router = &plan.routers["v6-2001-db8---64-64"];
    assert_eq!((router.vrid, router.segment.as_str()), (64, "2001:db8::/64"));
    let mut nodes: Vec<_> =
        router.nodes.iter().map(|n| format!("{} {} {}", n.name, n.address, n.interface)).collect();
    nodes.sort();
    assert_eq!(nodes, ["n1 fe80::1 eth0", "n2 fe80::2 ens3"], "not without IPv6, not a host route");
}

#[test]
fn a_node_without_a_link_local_address_is_no_candidate() {
    let mut cluster =
        Cluster::new(&[("n1", "eth0", &["2001:db8::11/64"]), ("n2", "eth0", &["2001:db8::12/64"])]);
    let mut lame = NodeNetwork::clone(&cluster.networks[0]);
    lame.spec.interfaces[0].link_local = None;
    cluster.networks[0] = Arc::new(lame);
    cluster.vip("2001:db8::200");
    let plan = cluster.plan();
    assert_eq!(names(&plan, &plan.routers_by_vip["2001-db8--200"]), ["n2"]);
}

#[test]
fn a_strangers_vrid_is_taken_in_its_own_family_only() {
    let mut cluster = Cluster::new(&[]);
    cluster.node("n1", true);
    cluster.networks("n1", &[("eth0", &["192.0.2.1/24", "2001:db8::11/64"])], &[("eth0", 64)]);
    cluster.vip("192.0.2.200");
    cluster.vip("2001:db8::200");
    let plan = cluster.plan();
    assert_eq!(plan.routers_by_vip["192.0.2.200"], "v4-192.0.2.0-24-65");
    assert_eq!(plan.routers_by_vip["2001-db8--200"], "v6-2001-db8---64-64");
    let mut heard = NodeNetwork::clone(&cluster.networks[0]);
    heard.spec.foreign_routers[0].source = "fe80::99".parse().expect("address");
    cluster.networks[0] = Arc::new(heard);
    cluster.input.routers.clear();
    let plan = cluster.plan();
    assert_eq!(plan.routers_by_vip["192.0.2.200"], "v4-192.0.2.0-24-64");
    assert_eq!(plan.routers_by_vip["2001-db8--200"], "v6-2001-db8---64-65");
}

//! VIPs of one Service and both families.

use proptest::prelude::*;

use super::*;

/// Nodes on a subnet of each family.
fn dual_stack(nodes: u8) -> Cluster {
    let mut cluster = Cluster::of(nodes);
    for number in 1..=nodes {
        let addresses = [format!("192.0.2.{number}/24"), format!("2001:db8:2::{number}/64")];
        cluster.network(&format!("n{number}"), "eth0", &[&addresses[0], &addresses[1]]);
    }
    cluster
}

/// The address of the Service of this number in one of the families.
fn address(number: u8, is_ipv6: bool) -> String {
    if is_ipv6 { format!("2001:db8:2::{}", 100 + number) } else { format!("192.0.2.{}", 100 + number) }
}

/// For how many VIPs of a family each node is first.
fn loads(cluster: &Cluster, plan: &PlacementPlan<'_>, is_ipv6: bool) -> BTreeMap<String, usize> {
    let mut loads: BTreeMap<String, usize> = cluster.nodes.keys().map(|node| (node.clone(), 0)).collect();
    for (vip, router) in &plan.routers_by_vip {
        let node = first(&plan.routers[router]).expect("a node");
        *loads.entry(node.to_owned()).or_default() += usize::from(vip.starts_with("2001") == is_ipv6);
    }
    loads
}

fn is_even(loads: &BTreeMap<String, usize>) -> bool {
    loads.values().max() <= loads.values().min().map(|least| least + 1).as_ref()
}

#[test]
fn several_addresses_of_each_family_of_one_service_are_on_as_many_nodes_in_pairs() {
    let mut cluster = dual_stack(4);
    for number in 0..3 {
        for is_ipv6 in [false, true] {
            cluster.vip_for("p", &address(number, is_ipv6), &["web"]);
        }
    }
    let plan = cluster.plan();
    let [four, six] = [false, true].map(|is_ipv6| loads(&cluster, &plan, is_ipv6));
    assert_eq!(four, six);
    assert_eq!(four.values().filter(|count| **count == 1).count(), 3, "{four:?}");
}

#[test]
fn the_addresses_of_a_local_service_are_together_though_any_of_its_nodes_would_do() {
    let nodes = [("n1", EndpointState::Ready), ("n2", EndpointState::Ready), ("n3", EndpointState::Ready)];
    let mut cluster = dual_stack(3);
    for number in 0..9 {
        for is_ipv6 in [false, true] {
            cluster.vip_for("p", &address(number, is_ipv6), &[&format!("s{number}")]);
            cluster.endpoints(&address(number, is_ipv6), &nodes);
            cluster.plan();
        }
    }
    let plan = cluster.plan();
    for number in 0..9 {
        let [four, six] = [false, true].map(|is_ipv6| {
            let name = virtual_ip_name(address(number, is_ipv6).parse().expect("an address"));
            first(&plan.routers[&plan.routers_by_vip[&name]]).expect("a node").to_owned()
        });
        assert_eq!(four, six, "s{number}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))] // 16 ms each

    /// Each family is spread by itself, whichever of a Service's two comes first (`leads`: the IPv6 one), or both at once; where that
    /// leaves a choice, its second address goes to the node of its first.
    #[test]
    fn the_two_addresses_of_a_service_are_together_where_the_families_stay_even(
        nodes in 1..7u8,
        families in prop::collection::vec((any::<bool>(), any::<bool>(), any::<bool>()), 1..24),
    ) {
        let mut cluster = dual_stack(nodes);
        let is_dual_only = families.iter().all(|(_, is_dual, _)| *is_dual);
        for (number, (leads, is_dual, at_once)) in (0..).zip(families) {
            let service = format!("s{number}");
            cluster.vip_for("p", &address(number, leads), &[&service]);
            if is_dual && at_once {
                cluster.vip_for("p", &address(number, !leads), &[&service]);
            }
            let plan = cluster.plan();
            let placed = [leads].into_iter().chain((is_dual && at_once).then_some(!leads));
            for is_ipv6 in placed {
                prop_assert!(is_even(&loads(&cluster, &plan, is_ipv6)));
            }
            if is_dual && !at_once {
                let before = loads(&cluster, &plan, !leads);
                let name = virtual_ip_name(address(number, leads).parse().expect("an address"));
                let partner = first(&plan.routers[&plan.routers_by_vip[&name]]).expect("a node").to_owned();
                let is_possible = before.values().min() == Some(&before[&partner]);
                let second = address(number, !leads);
                let named = cluster.router_for_new_vip_beside(&second, &[partner.clone()].into());
                cluster.vip_for("p", &second, &[&service]);
                let plan = cluster.plan();
                let after = loads(&cluster, &plan, !leads);
                prop_assert!(is_even(&after), "{:?}", after);
                prop_assert_eq!(after[&partner] > before[&partner], is_possible, "{:?} {:?}", before, after);
                let name = virtual_ip_name(second.parse().expect("an address"));
                prop_assert!(named.is_none() || named.as_ref() == plan.routers_by_vip.get(&name));
            }
        }
        let plan = cluster.plan();
        let [four, six] = [false, true].map(|is_ipv6| loads(&cluster, &plan, is_ipv6));
        prop_assert!(!is_dual_only || four == six, "{:?} {:?}", four, six);
    }
}

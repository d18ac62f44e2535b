//! Nodes with different prefix lengths on one LAN.

use proptest::prelude::*;

use super::*;

/// The segment of an address and its candidates.
fn place(cluster: &Cluster, address: &str) -> Option<(String, Vec<String>)> {
    let input = cluster.input();
    let none = input.announcements.get_or_none(None);
    let segments = input.topology.segments(none);
    let segment = segments.find(address.parse().expect(address))?;
    let mut nodes: Vec<String> = segments.candidates(segment).iter().map(|one| one.node.clone()).collect();
    nodes.sort();
    Some((segment.to_string(), nodes))
}

/// What [`place`] gives for nodes with these addresses on `eth0`, as `192.0.2.0/24: n1 n2`.
fn placed(nodes: &[&[&str]], address: &str) -> String {
    let names: Vec<String> = (1..=nodes.len()).map(|number| format!("n{number}")).collect();
    let nodes: Vec<_> = names.iter().zip(nodes).map(|(name, nets)| (name.as_str(), "eth0", *nets)).collect();
    let found = place(&Cluster::new(&nodes), address);
    found.map_or_else(|| "nowhere".to_owned(), |(segment, nodes)| format!("{segment}: {}", nodes.join(" ")))
}

// shows: field-reports F-48
#[test]
fn the_prefix_length_of_one_node_gives_it_no_address_alone_and_takes_none_from_others() {
    let lan: [&[&str]; 2] = [&["192.0.2.1/24"], &["192.0.2.2/24"]];
    let words: [&[&str]; 11] = [
        &["192.0.2.3/24"],
        &["192.0.2.3/24", "192.0.2.140/25"],
        &["192.0.2.140/25", "192.0.2.3/24"],
        &["192.0.2.140/25"],
        &["192.0.2.201/30"],
        &["192.0.2.3/25"],
        &["192.0.2.3/23"],
        &["192.0.2.3/16"],
        &["192.0.2.3/1"],
        &["192.0.2.3/0"],
        &["192.0.2.129/25", "192.0.2.9/25"],
    ];
    for word in words {
        for address in ["192.0.2.200", "192.0.2.100"] {
            let found = placed(&[lan[0], lan[1], word], address);
            assert_eq!(found, "192.0.2.0/24: n1 n2 n3", "{address} with {word:?}");
        }
    }
}

#[test]
fn segments_are_what_nodes_agree_on() {
    let cases: [(&[&[&str]], &str, &str); 15] = [
        (&[&["192.0.2.1/24"]], "192.0.2.9", "192.0.2.0/24: n1"),
        // Two nodes, of which one is wrong: both may have it.
        (&[&["192.0.2.1/24"], &["192.0.2.129/25"]], "192.0.2.200", "192.0.2.0/24: n1 n2"),
        (&[&["192.0.2.1/24"], &["192.0.2.2/23"]], "192.0.2.200", "192.0.2.0/23: n1 n2"),
        (&[&["192.0.2.1/24"], &["192.0.2.2/25"], &["192.0.2.3/26"]], "192.0.2.9", "192.0.2.0/24: n1 n2 n3"),
        // Half of the nodes have the new length already.
        (
            &[&["192.0.2.1/24"], &["192.0.2.2/24"], &["192.0.2.3/23"], &["192.0.2.4/23"]],
            "192.0.2.200",
            "192.0.2.0/23: n1 n2 n3 n4",
        ),
        // What only the word of one node holds has no candidate.
        (&[&["192.0.2.1/24"], &["192.0.2.2/24"], &["192.0.2.3/23"]], "192.0.3.9", "nowhere"),
        (&[&["0.0.0.1/0"]], "192.0.2.9", "nowhere"),
        (&[&["192.0.2.1/7"]], "192.0.2.9", "nowhere"),
        (&[&["192.0.2.1/24"], &["198.51.100.1/0"]], "203.0.113.9", "nowhere"),
        // LANs that lie in one another.
        (
            &[&["10.0.0.1/8"], &["10.0.0.2/8"], &["10.1.0.3/16"], &["10.1.0.4/16"]],
            "10.1.0.200",
            "10.1.0.0/16: n3 n4",
        ),
        (
            &[&["10.0.0.1/8"], &["10.0.0.2/8"], &["10.1.0.3/16"], &["10.1.0.4/16"]],
            "10.2.0.200",
            "10.0.0.0/8: n1 n2",
        ),
        (&[&["10.0.0.1/8", "10.1.0.1/16"]], "10.1.0.200", "10.1.0.0/16: n1"),
        // LANs of one node each, and a node that says it were one.
        (&[&["10.0.1.1/24"], &["10.0.2.1/24"], &["10.0.3.1/16"]], "10.0.1.9", "10.0.1.0/24: n1"),
        (&[&["10.0.1.1/24"], &["10.0.2.1/24"], &["10.0.3.1/16"]], "10.0.9.9", "nowhere"),
        (&[&["192.0.2.1/32"], &["192.0.2.2/31"]], "192.0.2.9", "nowhere"),
    ];
    for (nodes, address, expected) in cases {
        assert_eq!(placed(nodes, address), expected, "{address} of {nodes:?}");
    }
    let found = placed(&[&["2001:db8::1/64"], &["2001:db8::2/64"], &["2001:db8::3/0"]], "2001:db8::9");
    assert_eq!(found, "2001:db8::/64: n1 n2 n3");
}

#[test]
fn a_bridge_of_containers_says_nothing_of_a_lan() {
    let mut cluster = Cluster::new(&[]);
    for number in 1..=3 {
        cluster.node(&format!("n{number}"), true);
        let lan = format!("172.17.5.{number}/24");
        let both: [(&str, &[&str]); 2] = [("docker0", &["172.17.0.1/16"]), ("eth0", &[&lan])];
        cluster.networks(&format!("n{number}"), &both[usize::from(number == 1)..], &[]);
    }
    let all = ["n1", "n2", "n3"].map(str::to_owned).to_vec();
    assert_eq!(place(&cluster, "172.17.5.9"), Some(("172.17.5.0/24".to_owned(), all)));
}

/// Each address has a virtual router of its own that all nodes of `eth0` elect, and new ones get one.
fn all_elect(
    cluster: &mut Cluster,
    before: &PlacementPlan<'_>,
    nodes: &[String],
) -> Result<(), TestCaseError> {
    let plan = cluster.plan();
    prop_assert_eq!(&plan.routers_by_vip, &before.routers_by_vip);
    for (name, router) in &plan.routers {
        let mut names: Vec<&String> = router.nodes.iter().map(|node| &node.name).collect();
        names.sort();
        prop_assert_eq!(names, nodes.iter().collect::<Vec<_>>(), "{}", name);
        let order = |plan: &PlacementPlan<'_>| {
            plan.routers[name].nodes.iter().map(|node| (node.name.clone(), node.priority)).collect::<Vec<_>>()
        };
        prop_assert_eq!(order(&plan), order(before), "{}", name);
    }
    prop_assert_eq!(place(cluster, "192.0.2.99").map(|(_, nodes)| nodes), Some(nodes.to_vec()));
    Ok(())
}

proptest! {
    // shows: field-reports F-48
    #[test]
    fn a_lan_that_grows_or_shrinks_node_by_node_moves_no_address_and_loses_no_candidate(
        order in (2..7u8).prop_flat_map(|count| Just((1..=count).collect::<Vec<u8>>()).prop_shuffle()),
        [from, to] in prop_oneof![Just([24, 23]), Just([23, 24]), Just([24, 20]), Just([22, 25]), Just([24, 24])],
        vips in 1..10u8,
    ) {
        let net = |number: u8, length: u8| format!("192.0.2.{number}/{length}");
        let mut cluster = Cluster::new(&[]);
        for number in &order {
            cluster.node(&format!("n{number}"), true);
            cluster.network(&format!("n{number}"), "eth0", &[&net(*number, from)]);
        }
        for last in 0..vips {
            cluster.vip(&format!("192.0.2.{}", 100 + last));
        }
        let mut nodes: Vec<String> = order.iter().map(|number| format!("n{number}")).collect();
        nodes.sort();
        let before = cluster.plan();
        for number in order {
            cluster.network(&format!("n{number}"), "eth0", &[&net(number, to)]);
            all_elect(&mut cluster, &before, &nodes)?;
        }
        // What is made now is for the LAN as it is.
        cluster.vip("192.0.2.99");
        let router = cluster.router("192.0.2.99").expect("a router");
        let segment = format!("{}", format!("192.0.2.0/{to}").parse::<IpNet>().expect("a subnet").trunc());
        prop_assert_eq!(&cluster.plan().routers[&router].segment, &segment);
    }

    // shows: threats T-13
    #[test]
    fn one_nodes_report_takes_no_candidate_from_others(
        honest in 2..6u8,
        lies in prop::collection::vec((any::<bool>(), any::<u32>(), 0..=32u8), 0..6),
        address in 1..255u8,
    ) {
        let mut cluster = Cluster::of(honest);
        let address = format!("192.0.2.{address}");
        let before = place(&cluster, &address);
        let lies = lies.into_iter().map(|(is_near, bits, length)| {
            let bits = if is_near { 0xc000_0200 | bits & 0x1ff } else { bits };
            format!("{}/{length}", std::net::Ipv4Addr::from(bits))
        });
        let lies: Vec<String> = lies.collect();
        cluster.node("n99", true);
        cluster.network("n99", "eth0", &lies.iter().map(String::as_str).collect::<Vec<_>>());
        let mut after = place(&cluster, &address);
        if let Some((_, nodes)) = &mut after {
            nodes.retain(|node| node != "n99");
        }
        prop_assert_eq!(after, before, "{:?}", lies);
    }

    #[test]
    fn where_two_nodes_share_a_subnet_no_address_in_it_has_a_single_candidate(
        nodes in prop::collection::vec((0..2u8, 1..255u8, prop_oneof![Just(24u8), 20..27u8]), 2..7),
        address in 1..255u8,
    ) {
        let mut cluster = Cluster::new(&[]);
        let mut shared: BTreeMap<IpNet, usize> = BTreeMap::new();
        for (number, (third, last, length)) in nodes.iter().enumerate() {
            let net = format!("192.0.{}.{last}/{length}", 2 + third);
            cluster.node(&format!("n{number}"), true);
            cluster.network(&format!("n{number}"), "eth0", &[&net]);
            *shared.entry(net.parse::<IpNet>().expect("a subnet").trunc()).or_default() += 1;
        }
        let address: IpAddr = format!("192.0.2.{address}").parse().expect("an address");
        let is_shared = shared.iter().any(|(net, count)| *count > 1 && net.contains(&address));
        let found = place(&cluster, &address.to_string());
        prop_assert!(!is_shared || found.as_ref().is_some_and(|(_, nodes)| nodes.len() > 1), "{:?}", found);
    }
}

#[test]
fn a_lan_that_was_renumbered_keeps_nothing_of_the_old_one() {
    let mut cluster = Cluster::of(3);
    cluster.vip("192.0.2.100");
    let before = cluster.router("192.0.2.100");
    for number in 1..=3 {
        cluster.network(&format!("n{number}"), "eth0", &[&format!("198.51.100.{number}/24")]);
    }
    assert_eq!(cluster.router("192.0.2.100"), before, "nobody is better");
    assert_eq!(place(&cluster, "192.0.2.100"), None);
}

#[test]
fn a_router_stays_when_its_lan_gets_another_prefix_length_and_new_ones_are_named_after_that() {
    let mut cluster = Cluster::of(2);
    cluster.vip("192.0.2.100");
    cluster.plan();
    for number in 1..=2 {
        cluster.network(&format!("n{number}"), "eth0", &[&format!("192.0.2.{number}/23")]);
        let plan = cluster.plan();
        assert_eq!(plan.routers_by_vip["192.0.2.100"], "v4-192.0.2.0-24-64");
        assert_eq!(plan.routers["v4-192.0.2.0-24-64"].segment, "192.0.2.0/23");
        assert_eq!(names(&plan, "v4-192.0.2.0-24-64").len(), 2);
    }
    cluster.vip("192.0.3.100");
    assert_eq!(cluster.router("192.0.3.100").as_deref(), Some("v4-192.0.2.0-23-65"));
}

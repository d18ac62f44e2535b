//! What is used of a pool, and what is said of the rest.

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use windlass_api::NodeNetwork;

use super::*;

/// Name, addresses, reserved addresses and problems of each pool.
fn reviewed(
    pools: &[Arc<VirtualIPPool>],
    unusable: &UnusableAddresses,
    claimed: &[&str],
) -> Vec<(String, String, String, Vec<String>)> {
    let claimed = |address: IpAddr| claimed.contains(&address.to_string().as_str());
    review(pools, unusable, claimed)
        .into_iter()
        .map(|ReviewedPool { pool, problems, .. }| {
            let problems = problems.iter().map(ToString::to_string).collect();
            (pool.name, pool.addresses.to_string(), pool.reserved.to_string(), problems)
        })
        .collect()
}

fn alone(pool: Arc<VirtualIPPool>, unusable: &UnusableAddresses) -> (String, String, Vec<String>) {
    let (_, addresses, reserved, problems) = reviewed(&[pool], unusable, &[]).remove(0);
    (addresses, reserved, problems)
}

fn unusable(nodes: &[Value], networks: &[Value], cidrs: &[Value]) -> UnusableAddresses {
    let nodes: Vec<Node> = nodes.iter().cloned().map(object).collect();
    let networks: Vec<NodeNetwork> = networks.iter().cloned().map(object).collect();
    let cidrs: Vec<ServiceCIDR> = cidrs.iter().cloned().map(object).collect();
    let cidrs: Vec<_> = cidrs.iter().collect();
    UnusableAddresses::new(&nodes.iter().collect::<Vec<_>>(), &networks.iter().collect::<Vec<_>>(), &cidrs)
}

fn network(name: &str, addresses: &[&str]) -> Value {
    json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "NodeNetwork", "metadata": { "name": name },
        "spec": { "interfaces": [ { "name": "eth0", "mac": "02:00:00:00:00:01", "addresses": addresses } ] },
    })
}

fn node(name: &str, addresses: &[&str], pod_cidrs: &[&str]) -> Value {
    let addresses: Vec<_> =
        addresses.iter().map(|address| json!({ "type": "InternalIP", "address": address })).collect();
    json!({
        "metadata": { "name": name },
        "spec": { "podCIDR": pod_cidrs.first(), "podCIDRs": pod_cidrs },
        "status": { "addresses": addresses },
    })
}

// shows: allocation 77, 122
#[test]
fn one_bad_piece_stops_neither_the_rest_of_the_pool_nor_the_others() {
    let pools =
        [pool("a", EARLY, &["192.0.2.0/30", "192.0.2.9-192.0.2.5"]), pool("b", LATE, &["203.0.113.0/31"])];
    let expected = [
        (
            "a".into(),
            "192.0.2.0-192.0.2.3".into(),
            String::new(),
            vec![
                "InvalidAddresses: address range \"192.0.2.9-192.0.2.5\" ends before it begins: write \
                 192.0.2.5-192.0.2.9"
                    .into(),
            ],
        ),
        ("b".into(), "203.0.113.0-203.0.113.1".into(), String::new(), vec![]),
    ];
    assert_eq!(reviewed(&pools, &UnusableAddresses::default(), &[]), expected);
}

// shows: allocation 83
#[test]
fn where_pools_overlap_the_older_one_keeps_the_addresses_but_those_it_excludes() {
    let older = pool_with("z", EARLY, &["192.0.2.4-192.0.2.20"], &json!({ "exclude": ["192.0.2.6"] }));
    let pools = [pool("a", LATE, &["192.0.2.0/29"]), older];
    let expected = [
        ("z".into(), "192.0.2.4-192.0.2.5, 192.0.2.7-192.0.2.20".into(), String::new(), vec![]),
        (
            "a".into(),
            "192.0.2.0-192.0.2.3, 192.0.2.6".into(),
            String::new(),
            vec![
                "Overlap: 192.0.2.4-192.0.2.5, 192.0.2.7 also in the older pool \"z\", which keeps them"
                    .into(),
            ],
        ),
    ];
    assert_eq!(reviewed(&pools, &UnusableAddresses::default(), &[]), expected);
    // It clears by itself.
    let left = reviewed(&pools[..1], &UnusableAddresses::default(), &[]);
    assert_eq!(left, [("a".into(), "192.0.2.0-192.0.2.7".into(), String::new(), vec![])]);
}

#[test]
fn addresses_of_nodes_are_left_out_and_named() {
    let names: Vec<_> = (1..=7).map(|n| format!("n{n}")).collect();
    let nodes: Vec<_> = (1..=7).map(|n| node(&names[n - 1], &[&format!("192.0.2.{n}")], &[])).collect();
    let expected = (
        "192.0.2.0, 192.0.2.8-192.0.2.15".into(),
        String::new(),
        vec![
            "NodeAddress: addresses of nodes left out: 192.0.2.1 of node n1, 192.0.2.2 of node n2, 192.0.2.3 of node \
             n3, 192.0.2.4 of node n4, 192.0.2.5 of node n5 and 2 more"
                .to_owned(),
        ],
    );
    assert_eq!(alone(pool("a", EARLY, &["192.0.2.0/28"]), &unusable(&nodes, &[], &[])), expected);
}

#[test]
fn an_address_on_an_interface_is_a_node_s_unless_it_is_a_vip_which_is_not_given_twice() {
    let unusable = unusable(&[], &[network("n1", &["192.0.2.1/32", "192.0.2.2/32"])], &[]);
    let expected = (
        "a".to_owned(),
        "192.0.2.0, 192.0.2.2-192.0.2.3".to_owned(),
        "192.0.2.2".to_owned(),
        vec!["NodeAddress: addresses of nodes left out: 192.0.2.1 of node n1".to_owned()],
    );
    let pools = [pool("a", EARLY, &["192.0.2.0/30"])];
    assert_eq!(reviewed(&pools, &unusable, &["192.0.2.2"]), [expected]);
}

#[test]
fn reserved_addresses_of_the_nodes_subnets_are_kept_back() {
    let networks = [
        network("n1", &["198.51.100.1/24", "203.0.113.1/31", "2001:db8::1/64"]),
        network("n2", &["198.51.100.2/24"]),
    ];
    let pool = pool("a", EARLY, &["198.51.100.200-198.51.101.0", "203.0.113.0/30", "2001:db8::/126"]);
    let (addresses, reserved, problems) = alone(pool, &unusable(&[], &networks, &[]));
    assert!(addresses.contains("198.51.100.200-198.51.101.0"), "{addresses}");
    assert_eq!(reserved, "198.51.100.255, 2001:db8::", "of a /31 there is none");
    assert_eq!(
        problems[1..],
        [
            "SubnetAddress: network, broadcast and anycast addresses left out: 198.51.100.255 of 198.51.100.0/24, 2001:db8:: \
             of 2001:db8::/64"
        ]
    );
}

#[test]
fn anycast_addresses_of_the_nodes_ipv6_subnets_are_kept_back_and_small_subnets_keep_what_is_left() {
    for (subnet, expected) in [
        ("2001:db8::1/64", "2001:db8::, 2001:db8::fdff:ffff:ffff:ff80-2001:db8::fdff:ffff:ffff:ffff"),
        ("fd00:1::1/48", "fd00:1::, fd00:1:0:ffff:ffff:ffff:ffff:ff80-fd00:1:0:ffff:ffff:ffff:ffff:ffff"),
        ("2001:db8::1/112", "2001:db8::, 2001:db8::ff80-2001:db8::ffff"),
        ("2001:db8::1/113", "2001:db8::"),
        ("2001:db8::1/120", "2001:db8::"),
        ("2001:db8::5/126", "2001:db8::4"),
        ("2001:db8::1/127", ""),
        ("2001:db8::1/128", ""),
    ] {
        let unusable = unusable(&[], &[network("n1", &[subnet])], &[]);
        let whole = subnet.parse::<IpNet>().expect("a subnet").trunc().to_string();
        let (_, reserved, _) = alone(pool("a", EARLY, &[&whole]), &unusable);
        assert_eq!(reserved, expected, "{subnet}");
    }
}

#[test]
fn what_a_pool_that_is_a_whole_subnet_keeps_back_by_itself_is_no_problem() {
    let networks = [network("n1", &["2001:db8::1/64"])];
    let fields = json!({ "avoidReserved": "Subnet", "exclude": ["2001:db8::1"] });
    let pool = pool_with("a", EARLY, &["2001:db8::/64"], &fields);
    let (_, reserved, problems) = alone(pool, &unusable(&[], &networks, &[]));
    let expected = "2001:db8::, 2001:db8::fdff:ffff:ffff:ff80-2001:db8::fdff:ffff:ffff:ffff";
    assert_eq!((reserved.as_str(), problems), (expected, vec![]));
}

#[test]
fn addresses_of_pods_and_of_cluster_ips_are_kept_back() {
    let cidr = json!({ "metadata": { "name": "kubernetes" }, "spec": { "cidrs": ["10.96.0.0/16", "2001:db8:96::/112"] } });
    let nodes = [node("n1", &[], &["10.0.1.0/24", "2001:db8:1::/64"]), node("n2", &[], &["10.0.2.0/24"])];
    let pool = pool("a", EARLY, &["10.0.0.250-10.0.1.3", "10.0.2.7", "10.96.0.0/30", "2001:db8:1::5"]);
    let (addresses, reserved, problems) = alone(pool, &unusable(&nodes, &[], &[cidr]));
    assert_eq!(addresses, "10.0.0.250-10.0.1.3, 10.0.2.7, 10.96.0.0-10.96.0.3, 2001:db8:1::5");
    assert_eq!(reserved, "10.0.1.0-10.0.1.3, 10.0.2.7, 10.96.0.0-10.96.0.3, 2001:db8:1::5");
    assert_eq!(
        problems,
        [
            "PodCIDR: addresses of pods left out: 10.0.1.0-10.0.1.3 of node n1 (podCIDR 10.0.1.0/24), 2001:db8:1::5 of \
             node n1 (podCIDR 2001:db8:1::/64), 10.0.2.7 of node n2 (podCIDR 10.0.2.0/24)",
            "ServiceCIDR: addresses of ClusterIPs left out: 10.96.0.0-10.96.0.3 of ServiceCIDR kubernetes (10.96.0.0/16)",
        ]
    );
}

#[test]
fn what_is_kept_back_already_is_no_problem() {
    let networks = [network("n1", &["192.0.2.9/24"])];
    let fields = json!({ "avoidReserved": "Subnet", "exclude": ["192.0.2.9"] });
    let pool = pool_with("a", EARLY, &["192.0.2.0/24"], &fields);
    let (_, reserved, problems) = alone(pool, &unusable(&[], &networks, &[]));
    assert_eq!((reserved.as_str(), problems), ("192.0.2.0, 192.0.2.255", vec![]));
}

#[test]
fn who_may_have_external_ips_of_a_pool() {
    let admits = |fields: Value, subject: &Requester| {
        let pools = [pool_with("p", EARLY, &["192.0.2.0/30"], &fields)];
        let reviewed = review(&pools, &UnusableAddresses::default(), |_| false).remove(0);
        reviewed.admits_external(subject).err().unwrap_or_default()
    };
    let web = subject("a", &[("app", "web")]);
    let only = json!({ "allowExternalIPs": true, "serviceSelectors": [{ "matchLabels": { "app": "web" } }] });
    for (fields, subject, expected) in [
        (json!({}), &web, "pool \"p\" does not allow external IPs: set spec.allowExternalIPs there"),
        (json!({ "allowExternalIPs": true }), &web, ""),
        (json!({ "allowExternalIPs": true, "autoAssign": false }), &web, ""),
        (json!({ "allowExternalIPs": true, "disabled": true }), &web, "pool \"p\" is disabled"),
        (only.clone(), &web, ""),
        (only, &subject("a", &[]), "pool \"p\" is not for Services with these labels (only app=web)"),
        (
            json!({ "allowExternalIPs": true, "namespaces": ["b"] }),
            &web,
            "pool \"p\" is not for Services of this namespace (only b)",
        ),
    ] {
        assert_eq!(admits(fields.clone(), subject), expected, "{fields}");
    }
}

// shows: threats T-13
#[test]
fn report_of_one_node_keeps_back_a_few_addresses_and_never_a_pool() {
    let pools = [pool("a", EARLY, &["192.0.2.0/27"]), pool("b", LATE, &["203.0.113.0/27"])];
    let total = |reviewed: &[ReviewedPool]| -> u128 {
        let left = |one: &ReviewedPool| {
            one.pool.addresses.count(windlass_ipam::Family::V4)
                - one.pool.reserved.count(windlass_ipam::Family::V4)
        };
        reviewed.iter().map(left).sum()
    };
    let reviewed = |addresses: &[String], node_has: &[&str]| {
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let unusable = unusable(&[node("n3", node_has, &[])], &[network("n3", &addresses)], &[]);
        review(&pools, &unusable, |_| false)
    };
    let all = |length: u8| -> Vec<String> {
        let hosts =
            (0..32).flat_map(|n| [format!("192.0.2.{n}/{length}"), format!("203.0.113.{n}/{length}")]);
        hosts.collect()
    };
    // Every address of both, as host routes; then in subnets of four, each with two that are no host's.
    for (length, least) in [(32, 64 - 8), (30, 64 - 16)] {
        let reviewed = reviewed(&all(length), &[]);
        assert!(total(&reviewed) >= least, "{} are left of /{length}", total(&reviewed));
        let ignored: usize = reviewed.iter().filter_map(|one| one.ignored_reports.get("n3")).sum();
        assert!(ignored >= 64 - 8, "{ignored}");
    }
    // What its Node has is believed, all of it.
    let own: Vec<String> = (0..20).map(|n| format!("192.0.2.{n}")).collect();
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let reviewed = reviewed(&all(32)[..2], &own);
    assert_eq!(reviewed[0].pool.addresses.to_string(), "192.0.2.20-192.0.2.31");
    assert!(reviewed.iter().all(|one| one.ignored_reports.is_empty()));
}

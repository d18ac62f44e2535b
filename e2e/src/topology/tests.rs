use super::*;

#[test]
fn hosts_have_the_addresses_that_the_module_promises() {
    let hosts = hosts(0, 0, 2, &["c1".into(), "c2".into()]).unwrap();
    let row = |h: &Host| (h.name.clone(), h.address.to_string(), h.ipv6().to_string(), h.mac().to_string());
    let expected = [
        ("cp", "192.0.2.10", "2001:db8::10", "02:00:00:00:00:0a"),
        ("n1", "192.0.2.11", "2001:db8::11", "02:00:00:00:00:0b"),
        ("n2", "192.0.2.12", "2001:db8::12", "02:00:00:00:00:0c"),
        ("c1", "192.0.2.101", "2001:db8::101", "02:00:00:00:00:65"),
        ("c2", "192.0.2.102", "2001:db8::102", "02:00:00:00:00:66"),
    ];
    let expected = expected.map(|(n, a, s, m)| (n.to_owned(), a.to_owned(), s.to_owned(), m.to_owned()));
    assert_eq!(hosts.iter().map(row).collect::<Vec<_>>(), expected);
}

#[test]
fn nodes_of_the_control_plane_have_addresses_of_their_own_and_no_others_need_be_there() {
    let hosts = hosts(1, 3, 0, &["c1".into()]).unwrap();
    let row = |h: &Host| (h.name.clone(), h.address.to_string(), h.pod_cidrs());
    let expected = [("cp", 30), ("cp1", 41), ("cp2", 42), ("cp3", 43), ("c1", 121)];
    let expected = expected.map(|(name, last)| (name.to_owned(), format!("192.0.2.{last}"), None));
    assert_eq!(hosts.iter().map(row).collect::<Vec<_>>(), expected);
    assert_eq!(api_vip(1).to_string(), "192.0.2.49");
    assert_eq!(ipv6_of(api_vip(1)).to_string(), "2001:db8::49");
    let error = super::hosts(0, 6, 0, &[]).unwrap_err().to_string();
    assert!(error.contains("at most 5 nodes, not 6"), "{error}");
}

#[test]
fn no_two_hosts_of_clusters_on_one_lan_have_one_address() {
    let clusters = (0..MAX_CLUSTERS)
        .flat_map(|nth| hosts(nth, MAX_CONTROL_PLANE_NODES, MAX_NODES, &["c1".into()]).unwrap());
    let mut addresses: Vec<Ipv4Addr> = clusters.map(|host| host.address).collect();
    addresses.extend((0..MAX_CLUSTERS).map(api_vip));
    let all = addresses.len();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), all, "{addresses:?}");
    assert!(addresses.iter().all(|address| address.octets()[3] < 200), "pools are free: {addresses:?}");
    assert!(hosts(MAX_CLUSTERS, 0, 1, &[]).is_err());
}

#[test]
fn pods_of_the_last_node_are_the_last_27_and_64_of_the_ranges() {
    let hosts = hosts(0, 0, MAX_NODES, &[]).unwrap();
    let last = hosts.last().unwrap();
    assert_eq!(last.pod_cidrs().unwrap(), ["203.0.113.224/27", "2001:db8:1:8::/64"]);
    let (v4, v6) = last.pod_addresses(2).unwrap();
    assert_eq!([v4.to_string(), v6.to_string()], ["203.0.113.226", "2001:db8:1:8::2"]);
    assert_eq!(hosts[0].pod_cidrs(), None);
}

#[test]
fn wrong_sizes_and_names_are_refused_with_the_reason() {
    for (nodes, clients, reason) in [
        (0, vec![], "1 to 8 nodes, not 0"),
        (9, vec![], "1 to 8 nodes, not 9"),
        (1, vec!["C1"], "lower-case"),
        (1, vec![""], "1 to 12"),
        (1, vec!["areallylongname"], "1 to 12"),
        (1, vec!["n1"], "taken"),
        (1, vec!["lan"], "taken"),
        (1, vec!["c", "c"], "taken"),
    ] {
        let clients: Vec<String> = clients.into_iter().map(str::to_owned).collect();
        let error = hosts(0, 0, nodes, &clients).unwrap_err().to_string();
        assert!(error.contains(reason), "{nodes} nodes, clients {clients:?}: {error}");
    }
}

#[test]
fn mac_addresses_are_read_as_they_are_written() {
    let mac: Mac = "02:00:00:00:00:Fe".parse().unwrap();
    assert_eq!(mac.to_string(), "02:00:00:00:00:fe");
    for bad in ["", "02:00:00:00:00", "02:00:00:00:00:0g", "02:00:00:00:00:00:00", "02:00:00:00:00:100"] {
        assert!(bad.parse::<Mac>().is_err(), "{bad:?} must be refused");
    }
}

#[test]
fn nodes_and_control_plane_have_routes_to_the_pods_of_others_and_clients_have_none() {
    let script = script(&hosts(0, 0, 2, &["c1".into()]).unwrap(), true).unwrap();
    for line in [
        "ip -n cp route add 203.0.113.0/27 via 192.0.2.11",
        "ip -n n1 route add 203.0.113.32/27 via 192.0.2.12",
        "ip -n n2 route add 203.0.113.0/27 via 192.0.2.11",
        "if [ -e /proc/sys/net/ipv6 ]; then ip -n n2 route add 2001:db8:1:1::/64 via 2001:db8::11; fi",
        "ip -n n2 route add default via 2001:db8::10",
    ] {
        assert!(script.lines().any(|l| l == line), "{line} is missing in:\n{script}");
    }
    assert!(!script.contains("-n c1 route"), "a client reaches Services only over the LAN:\n{script}");
    assert!(
        !script.contains("-n n1 route add 203.0.113.0/27"),
        "a node's own pods are on its bridge:\n{script}"
    );
}

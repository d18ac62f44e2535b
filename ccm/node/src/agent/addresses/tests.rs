use super::*;

/// Interface `name`: its addresses with prefix length, the first `lasting` of IPv6 are those that last.
fn interface(name: &str, addresses: &[&str], lasting: usize) -> InterfaceInfo {
    let mut info = InterfaceInfo::default();
    info.name = name.to_owned();
    info.ipv6_lasting = lasting;
    for text in addresses {
        let (address, length) = text.split_once('/').expect("address and length");
        let length = length.parse().expect("a length");
        match address.parse().expect("an address") {
            IpAddr::V4(v4) => info.ipv4.push((v4, length)),
            IpAddr::V6(v6) => info.ipv6.push((v6, length)),
        }
    }
    info
}

/// Interfaces, addresses elsewhere, and what the kernel would speak from.
fn machine(interfaces: Vec<InterfaceInfo>, elsewhere: &[(&str, &str)], sources: &[&str]) -> HostAddresses {
    let mut machine = HostAddresses::default();
    for info in &interfaces {
        machine.addresses.extend(info.addresses().map(|address| (info.name.clone(), address)));
    }
    let parsed = |text: &str| text.parse::<IpAddr>().expect("an address");
    machine.addresses.extend(elsewhere.iter().map(|(name, text)| ((*name).to_owned(), parsed(text))));
    machine.interfaces = interfaces;
    machine.sources = sources.iter().map(|text| parsed(text)).collect();
    machine
}

fn texts(addresses: &[IpAddr]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

#[test]
fn the_primary_address_is_the_one_the_kernel_speaks_from() {
    let storage = || interface("eth0", &["198.51.100.1/24", "2001:db8:9::1/64"], 1);
    let lan = |v6: &[&str], lasting| {
        interface("eth1", &[&["192.0.2.11/24", "192.0.2.12/24"], v6].concat(), lasting)
    };
    let rows = [
        (
            "not the first interface's by name, and not the first of its interface",
            machine(vec![storage(), lan(&["2001:db8::11/64"], 1)], &[], &["192.0.2.12", "2001:db8::11"]),
            vec!["192.0.2.12", "2001:db8::11"],
        ),
        ("no way out", machine(vec![storage()], &[], &[]), vec![]),
        (
            "one that lasts in place of a temporary one",
            machine(
                vec![lan(&["fe80::1/64", "2001:db8::5/128", "2001:db8::11/64", "2001:db8::ffff/64"], 3)],
                &[],
                &["2001:db8::ffff"],
            ),
            vec!["2001:db8::11"],
        ),
        (
            "one that DHCP gave, if none is of a subnet",
            machine(vec![lan(&["2001:db8::11/128", "2001:db8::ffff/64"], 1)], &[], &["2001:db8::ffff"]),
            vec!["2001:db8::11"],
        ),
        (
            "a temporary one, if there is no other",
            machine(vec![lan(&["fe80::1/64", "2001:db8::ffff/64"], 1)], &[], &["2001:db8::ffff"]),
            vec!["2001:db8::ffff"],
        ),
        (
            "of the loopback interface, where the others have none",
            machine(vec![storage()], &[("lo", "127.0.0.1"), ("lo", "192.0.2.1")], &["192.0.2.1"]),
            vec!["192.0.2.1"],
        ),
        ("of a tunnel", machine(vec![storage()], &[("wg0", "192.0.2.2")], &["192.0.2.2"]), vec!["192.0.2.2"]),
        (
            "not of a container network",
            machine(vec![interface("cni0", &["203.0.113.1/24"], 0)], &[], &["203.0.113.1"]),
            vec![],
        ),
        (
            "not of a bridge of containers, though it is reported",
            machine(vec![interface("docker0", &["172.17.0.1/16"], 0)], &[], &["172.17.0.1"]),
            vec![],
        ),
        ("not one that the engine binds", machine(vec![storage()], &[], &["192.0.2.200"]), vec![]),
        (
            "not a link-local one",
            machine(vec![storage()], &[("wg0", "169.254.0.1")], &["169.254.0.1"]),
            vec![],
        ),
    ];
    for (what, machine, expected) in rows {
        assert_eq!(texts(&primary(&machine)), expected, "{what}");
    }
}

#[test]
fn further_addresses_are_those_on_no_reported_interface() {
    let up = interface("eth0", &["192.0.2.11/24", "fe80::1/64", "2001:db8::11/64"], 2);
    let elsewhere = [
        ("lo", "127.0.0.1"),
        ("lo", "::1"),
        ("lo", "10.255.0.1"),
        ("wg0", "10.8.0.2"),
        ("wg0", "fe80::2"),
        // Down, and with an address that is still being checked.
        ("eth1", "198.51.100.1"),
        ("eth0", "2001:db8::12"),
        ("kube-ipvs0", "10.96.0.1"),
        ("cni0", "203.0.113.1"),
        ("virbr0", "192.168.122.1"),
        // Also on an interface that is reported.
        ("lo", "192.0.2.11"),
    ];
    let found = further(&machine(vec![up, interface("cni0", &["203.0.113.1/24"], 0)], &elsewhere, &[]));
    assert_eq!(texts(&found), ["10.8.0.2", "10.255.0.1", "198.51.100.1", "2001:db8::12"]);
}

#[test]
fn no_more_are_reported_than_the_api_server_takes() {
    let all: Vec<String> = (0..1000u32).map(|n| format!("10.9.{}.{}", n / 250, n % 250)).collect();
    let elsewhere: Vec<_> = all.iter().map(|text| ("lo", text.as_str())).collect();
    assert_eq!(further(&machine(vec![], &elsewhere, &[])).len(), MAX_FURTHER);
}

#[test]
fn the_kernel_answers_for_its_addresses_and_for_the_anycast_address_of_its_ipv6_subnets() {
    let lan = ["192.0.2.11/24", "2001:db8::11/64", "2001:db8:1::9/126", "2001:db8:2::1/127", "fe80::1/64"];
    let pods = interface("cni0", &["10.0.0.1/24", "2001:db8:9::1/64"], 1);
    let containers = interface("docker0", &["172.17.0.1/16", "2001:db8:8::1/64"], 1);
    let machine = machine(
        vec![
            interface("eth0", &lan, 3),
            interface("eth1", &["2001:db8::12/64", "2001:db8:3::5/128"], 2),
            pods,
            containers,
        ],
        &[("lo", "192.0.2.200")],
        &[],
    );
    let Answered { own, anycast } = answered(&machine);
    let own: Vec<_> = own.iter().map(|(address, interface)| format!("{address} {interface}")).collect();
    assert_eq!(
        own,
        [
            "192.0.2.11 eth0",
            "2001:db8::11 eth0",
            "2001:db8::12 eth1",
            "2001:db8:1::9 eth0",
            "2001:db8:2::1 eth0",
            "2001:db8:3::5 eth1",
            "fe80::1 eth0",
        ]
    );
    let anycast: Vec<_> = anycast.iter().map(|(address, subnet)| format!("{address} {subnet}")).collect();
    assert_eq!(anycast, ["2001:db8:: 2001:db8::/64", "2001:db8:1::8 2001:db8:1::8/126"]);
}

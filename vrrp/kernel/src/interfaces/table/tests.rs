use super::*;

mod histories;

const OURS: u8 = crate::interfaces::OWN_PROTOCOL;

fn link(index: u32, name: &str) -> Link {
    Link {
        index,
        name: name.to_owned(),
        mac: Some([2, 0, 0, 0, 0, u8::try_from(index).unwrap()]),
        mtu: 1500,
        ethernet: true,
        up: true,
        running: true,
        kind: None,
        parent: None,
        master: None,
        alias: None,
    }
}

fn address(index: u32, text: &str, flags: AddressFlags, protocol: u8) -> Address {
    let (ip, prefix) = text.split_once('/').unwrap();
    let ip: IpAddr = ip.parse().unwrap();
    Address { index, ip, prefix: prefix.parse().unwrap(), peer: ip, scope: 0, flags, protocol }
}

fn plain(index: u32, text: &str) -> Change {
    Change::Address(address(index, text, AddressFlags::Permanent, 0))
}

fn gone(index: u32, text: &str) -> Change {
    Change::AddressGone(address(index, text, AddressFlags::Permanent, 0))
}

/// The interfaces as one line each: index, name, what is wrong with it, addresses.
fn told(table: &Interfaces) -> Vec<String> {
    let line = |info: &InterfaceInfo| {
        let state = match (info.up, info.carrier) {
            (false, _) => "down",
            (true, false) => "no carrier",
            (true, true) => "up",
        };
        let v4 = info.ipv4.iter().map(|(address, prefix)| format!(" {address}/{prefix}"));
        let v6 = info.ipv6.iter().map(|(address, prefix)| format!(" {address}/{prefix}"));
        let bad = info.ipv6_unusable.iter().map(|(address, unusable)| format!(" ({address} {unusable:?})"));
        let addresses: String = v4.chain(v6).chain(bad).collect();
        format!("{} {} {state}{addresses}", info.index, info.name)
    };
    table.all().iter().map(line).collect()
}

#[test]
fn each_change_tells_in_the_table_and_only_a_change_is_called_one() {
    use Change::{Link as New, LinkGone as Gone};
    let flags = AddressFlags::Permanent;
    let v6 = |flags, protocol| Change::Address(address(2, "fe80::1/64", flags, protocol));
    let steps: &[(&str, Change, bool, &[&str])] = &[
        ("an interface comes", New(link(2, "eth0")), true, &["2 eth0 up"]),
        ("is told again", New(link(2, "eth0")), false, &["2 eth0 up"]),
        ("gets an address", plain(2, "192.0.2.1/24"), true, &["2 eth0 up 192.0.2.1/24"]),
        ("which is renewed", plain(2, "192.0.2.1/24"), false, &["2 eth0 up 192.0.2.1/24"]),
        (
            "and a second, before which the first stays",
            plain(2, "192.0.2.0/24"),
            true,
            &["2 eth0 up 192.0.2.1/24 192.0.2.0/24"],
        ),
        (
            "an address of ours is none of its",
            Change::Address(address(2, "192.0.2.50/32", flags, OURS)),
            false,
            &["2 eth0 up 192.0.2.1/24 192.0.2.0/24"],
        ),
        (
            "nor is it missed",
            Change::AddressGone(address(2, "192.0.2.50/32", flags, OURS)),
            false,
            &["2 eth0 up 192.0.2.1/24 192.0.2.0/24"],
        ),
        ("loses the first", gone(2, "192.0.2.1/24"), true, &["2 eth0 up 192.0.2.0/24"]),
        ("another length is another address", gone(2, "192.0.2.0/25"), false, &["2 eth0 up 192.0.2.0/24"]),
        ("is renamed", New(link(2, "lan0")), true, &["2 lan0 up 192.0.2.0/24"]),
        (
            "another comes under the old name",
            New(link(3, "eth0")),
            true,
            &["3 eth0 up", "2 lan0 up 192.0.2.0/24"],
        ),
        (
            "the cable is pulled",
            New(Link { running: false, ..link(2, "lan0") }),
            true,
            &["3 eth0 up", "2 lan0 no carrier 192.0.2.0/24"],
        ),
        (
            "it is taken down",
            New(Link { running: false, up: false, ..link(2, "lan0") }),
            true,
            &["3 eth0 up", "2 lan0 down 192.0.2.0/24"],
        ),
        ("the other goes", Gone(3), true, &["2 lan0 down 192.0.2.0/24"]),
        ("twice", Gone(3), false, &["2 lan0 down 192.0.2.0/24"]),
        ("it goes with its address", Gone(2), true, &[]),
        ("and comes back without", New(link(2, "eth0")), true, &["2 eth0 up"]),
        ("v6, being checked", v6(AddressFlags::Tentative, 0), true, &["2 eth0 up (fe80::1 Tentative)"]),
        ("checked", v6(flags, 0), true, &["2 eth0 up fe80::1/64"]),
        (
            "taken by somebody else",
            v6(AddressFlags::Tentative | AddressFlags::Dadfailed, 0),
            true,
            &["2 eth0 up (fe80::1 Duplicate)"],
        ),
        (
            "optimistic",
            v6(AddressFlags::Tentative | AddressFlags::Optimistic, 0),
            true,
            &["2 eth0 up fe80::1/64"],
        ),
        ("made ours", v6(flags, OURS), true, &["2 eth0 up"]),
        ("given back", v6(flags, 0), true, &["2 eth0 up fe80::1/64"]),
    ];
    let mut table = Interfaces::default();
    for (what, change, counts, expected) in steps {
        assert_eq!(table.apply(change.clone()), *counts, "{what}");
        assert_eq!(told(&table), *expected, "{what}");
    }
}

#[test]
fn an_address_may_be_heard_of_before_its_interface() {
    let mut table = Interfaces::default();
    table.apply(plain(2, "192.0.2.1/24"));
    assert!(told(&table).is_empty());
    table.apply(Change::Link(link(2, "eth0")));
    assert_eq!(told(&table), ["2 eth0 up 192.0.2.1/24"]);
}

/// The order that Linux 6.18 keeps: primary before secondary, narrower scopes first, then as they came.
#[test]
fn addresses_stand_in_the_kernels_order() {
    let secondary = AddressFlags::Permanent | AddressFlags::Secondary;
    let scoped =
        |text, scope| Change::Address(Address { scope, ..address(2, text, AddressFlags::Permanent, 0) });
    let mut table: Interfaces = [
        Change::Link(link(2, "eth0")),
        plain(2, "192.0.2.1/24"),
        Change::Address(address(2, "192.0.2.2/24", secondary, 0)),
        plain(2, "198.51.100.1/24"),
        scoped("203.0.113.1/32", 253),
        scoped("203.0.113.2/32", 254),
    ]
    .into_iter()
    .collect();
    let narrow = "203.0.113.2/32 203.0.113.1/32";
    assert_eq!(told(&table), [format!("2 eth0 up {narrow} 192.0.2.1/24 198.51.100.1/24 192.0.2.2/24")]);
    // The first goes, and its secondary becomes primary: behind the other primary ones.
    table.apply(gone(2, "192.0.2.1/24"));
    table.apply(plain(2, "192.0.2.2/24"));
    assert_eq!(told(&table), [format!("2 eth0 up {narrow} 198.51.100.1/24 192.0.2.2/24")]);
}

#[test]
fn ipv6_addresses_that_last_stand_before_those_that_do_not() {
    let flagged = |text, flags| Change::Address(address(2, text, flags, 0));
    let (temporary, deprecated) = (AddressFlags::Secondary, AddressFlags::Deprecated);
    let mut table: Interfaces = [
        Change::Link(link(2, "eth0")),
        flagged("2001:db8::1/64", temporary),
        flagged("2001:db8::2/64", deprecated | AddressFlags::Permanent),
        flagged("2001:db8::f/64", AddressFlags::empty()),
        flagged("fd00::1/64", AddressFlags::Permanent),
    ]
    .into_iter()
    .collect();
    let lasting = "2001:db8::f/64 fd00::1/64";
    assert_eq!(told(&table), [format!("2 eth0 up {lasting} 2001:db8::1/64 2001:db8::2/64")]);
    assert!(table.apply(flagged("2001:db8::f/64", deprecated)), "it lasts no longer");
    assert_eq!(told(&table), ["2 eth0 up fd00::1/64 2001:db8::1/64 2001:db8::2/64 2001:db8::f/64"]);
}

#[test]
fn only_ethernet_interfaces_are_told_and_not_the_engines_own() {
    let alias = |kind: &str, alias: &str| Link {
        kind: Some(kind.to_owned()),
        alias: Some(alias.to_owned()),
        ..link(2, "x")
    };
    let cases = [
        (link(2, "x"), true),
        (Link { ethernet: false, ..link(2, "x") }, false),
        (Link { mac: None, ..link(2, "x") }, false),
        (alias("macvlan", "windlass:7"), false),
        (alias("macvlan", "by windlass:7"), true),
        (alias("veth", "windlass:7"), true),
        (Link { alias: None, ..alias("macvlan", "") }, true),
    ];
    for (link, told) in cases {
        let table: Interfaces = [Change::Link(link.clone())].into_iter().collect();
        assert_eq!(table.get("x").is_some(), told, "{link:?}");
        assert_eq!(table.all().len(), usize::from(told), "{link:?}");
        assert_eq!(table.get("y"), None);
    }
}

// shows: field-reports F-80
#[test]
fn network_cards_vlans_and_bonds_are_told_from_other_devices() {
    let kinds =
        [None, Some("vlan"), Some("bond"), Some("bridge"), Some("veth"), Some("dummy"), Some("vxlan")];
    let links = (1..).zip(kinds).map(|(index, kind)| {
        Change::Link(Link { kind: kind.map(str::to_owned), ..link(index, &format!("lxc{index}")) })
    });
    let hardware: Vec<bool> = links.collect::<Interfaces>().all().iter().map(|info| info.hardware).collect();
    assert_eq!(hardware, [true, true, true, false, false, false, false]);
}

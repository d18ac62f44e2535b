use ipnet::{Ipv4Net, Ipv6Net};
use proptest::collection::vec;
use proptest::prelude::*;
use windlass_kernel::port::Protocol;

use super::*;
use crate::guard::Moved;
use crate::lab::unhex;
use crate::restriction::Restrictions;

/// The last bytes of each, and whether a range ends before it.
type Edges<'a> = &'a [(&'a str, bool)];

const WEB: ProtocolPort = ProtocolPort { protocol: Protocol::Tcp, port: 80 };

/// Who may send to port 80 of this address.
fn open_to(vip: IpAddr, ranges: &[IpNet]) -> Guarded {
    let mut restrictions = Restrictions::default();
    restrictions.restrict(vip, [WEB], ranges.iter().copied());
    Guarded { restrictions: Arc::new(restrictions), ..Guarded::default() }
}

fn sources(vip: IpAddr) -> Set {
    Set { kind: Kind::Sources, family: Family::of(vip) }
}

/// As the kernel looks a source up: the last edge at or before it begins a range.
fn lets_in(elements: &BTreeSet<Element>, vip: IpAddr, source: IpAddr) -> bool {
    let key = [with_port(vip, WEB), octets(source)].concat();
    elements.iter().rfind(|element| element.key <= key).is_some_and(|element| !element.ends)
}

#[test]
fn a_range_is_its_first_source_and_the_one_after_its_last() {
    let vip: IpAddr = "192.0.2.50".parse().unwrap();
    let table: [(&[&str], Edges<'_>); 5] = [
        (&["10.0.0.0/8"], &[("0a000000", false), ("0b000000", true)]),
        // They touch, and no one prefix says both.
        (&["10.0.0.1/32", "10.0.0.2/31"], &[("0a000001", false), ("0a000004", true)]),
        (
            &["10.0.0.0/32", "10.0.0.2/32"],
            &[("0a000000", false), ("0a000001", true), ("0a000002", false), ("0a000003", true)],
        ),
        (&["255.255.255.255/32"], &[("ffffffff", false)]),
        (&[], &[]),
    ];
    for (ranges, expected) in table {
        let ranges: Vec<IpNet> = ranges.iter().map(|range| range.parse().unwrap()).collect();
        let edges = sources(vip).members(&open_to(vip, &ranges));
        let port = "c0000232 06000000 00500000";
        let mut expected: BTreeSet<_> = expected
            .iter()
            .map(|(source, ends)| Element { ends: *ends, ..Element::of(unhex(&format!("{port}{source}"))) })
            .collect();
        if ranges == ["255.255.255.255/32".parse().unwrap()] {
            // The number after the last source is one of the next port's.
            expected
                .insert(Element { ends: true, ..Element::of(unhex("c0000232 06000000 00500001 00000000")) });
        }
        assert_eq!(edges, expected, "{ranges:?}");
    }
    assert_eq!(following(vec![0xff; 4]), None, "the last number of all");
    assert_eq!(following(vec![1, 0xff]), Some(vec![2, 0]));
}

fn ranges(of_v4: bool) -> impl Strategy<Value = Vec<IpNet>> {
    // Few addresses, so that ranges touch and hold each other, among them the first and the last of all.
    let number = prop_oneof![0..40_u32, (u32::MAX - 40)..=u32::MAX];
    let length = prop_oneof![24..=32_u8, 0..3_u8];
    vec((number, length), 0..12).prop_map(move |all| {
        let range = |(number, length): (u32, u8)| -> IpNet {
            if of_v4 {
                Ipv4Net::new(number.into(), length).unwrap().trunc().into()
            } else {
                Ipv6Net::new((u128::from(number) << 96 | u128::from(number)).into(), length + 96)
                    .unwrap()
                    .trunc()
                    .into()
            }
        };
        all.into_iter().map(range).collect()
    })
}

/// Few addresses, each in any part of what is guarded.
fn guarded() -> impl Strategy<Value = Guarded> {
    let parts = |moved: Option<u32>| {
        let unknown = prop_oneof![
            Just(UnknownConnections::Forwarded),
            Just(UnknownConnections::Untouched),
            Just(UnknownConnections::Dropped),
        ];
        (any::<[bool; 5]>(), 0..3_u16, proptest::option::of(unknown), Just(moved))
    };
    vec(proptest::option::of(0..3_u32).prop_flat_map(parts), 6).prop_map(|all| {
        let (mut guarded, mut restrictions) = (Guarded::default(), Restrictions::default());
        let mut moves = std::collections::BTreeMap::new();
        for (number, ([is_vip, is_held, is_replicated, is_restricted, has_ended], ports, unknown, mark)) in
            (1_u8..).zip(all)
        {
            let vip: IpAddr = if number % 3 == 0 {
                std::net::Ipv6Addr::from(u128::from(number)).into()
            } else {
                std::net::Ipv4Addr::from([192, 0, 2, number]).into()
            };
            let members = [
                (is_vip, &mut guarded.vips),
                (is_vip && is_held, &mut guarded.held),
                (is_replicated, &mut guarded.replicated),
            ];
            members.into_iter().filter(|(is_in, _)| *is_in).for_each(|(_, set)| {
                set.insert(vip);
            });
            restrictions.only_ports(vip, (0..ports).map(|port| ProtocolPort { port, ..WEB }));
            if is_restricted {
                restrictions.restrict(vip, [WEB], ["10.0.0.0/8".parse().unwrap()]);
            }
            if has_ended {
                restrictions.end_connections(vip);
            }
            if let Some(unknown) = unknown {
                moves.insert(vip, Moved { mark, unknown });
            }
        }
        Guarded { restrictions: Arc::new(restrictions), moved: Arc::new(moves), ..guarded }
    })
}

fn missing(set: Set, one: &Guarded, other: &Guarded) -> BTreeSet<Element> {
    set.missing(one, other, &one.restrictions.differing_for_the_guard(&other.restrictions))
}

proptest! {
    /// And every address that a rule is about is known, or the packet would pass by that rule; and no port is open whose clients are
    /// limited or whose connections end.
    #[test]
    fn after_any_change_each_set_has_what_it_would_have_from_the_beginning(before in guarded(), after in guarded()) {
        for set in Set::all().filter(|set| set.kind != Kind::Strays) {
            let mut elements = set.members(&before);
            let (gone, new) = (missing(set, &before, &after), missing(set, &after, &before));
            prop_assert!(!set.is_untouched(&before, &after) || gone.is_empty() && new.is_empty(), "{:?}", set);
            for gone in gone {
                prop_assert!(elements.remove(&gone), "{:?}", set);
            }
            for new in new {
                prop_assert!(elements.insert(new), "{:?}", set);
            }
            prop_assert_eq!(&elements, &set.members(&after), "{:?}", set);
        }
        for family in FAMILIES {
            let address = |element: &Element| element.key[..Part::address(family).length() as usize].to_vec();
            let of = |kinds: &[Kind]| -> BTreeSet<Vec<u8>> {
                let elements = kinds.iter().flat_map(|kind| Set { kind: *kind, family }.members(&after));
                elements.map(|element| address(&element)).collect()
            };
            let of_others = [Kind::Vips, Kind::Held, Kind::Owned, Kind::Replicated, Kind::Moved, Kind::Window, Kind::Left];
            let (judged, known) = (of(&[Kind::Restricted, Kind::Ended]), of(&[Kind::Known]));
            prop_assert!(judged.union(&of(&of_others)).all(|address| known.contains(address)));
            prop_assert!(of(&[Kind::Open]).is_disjoint(&judged));
            let [open, ports] = [Kind::Open, Kind::Ports].map(|kind| Set { kind, family }.members(&after));
            prop_assert!(open.is_subset(&ports));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))] // 0.38 ms each

    /// And a change adds and deletes what makes the one of the other.
    #[test]
    fn the_kernel_lets_in_who_is_in_a_range_and_nobody_else(
        (of_v4, before, after) in any::<bool>().prop_flat_map(|of_v4| (Just(of_v4), ranges(of_v4), ranges(of_v4))),
        asked in vec(prop_oneof![0..300_u32, (u32::MAX - 300)..=u32::MAX], 1..40),
    ) {
        let vip: IpAddr = if of_v4 { "192.0.2.50".parse().unwrap() } else { "2001:db8::50".parse().unwrap() };
        let set = sources(vip);
        let [before, after] = [before, after].map(|ranges| (open_to(vip, &ranges), ranges));
        let mut elements = set.members(&before.0);
        for gone in missing(set, &before.0, &after.0) {
            prop_assert!(elements.remove(&gone));
        }
        for new in missing(set, &after.0, &before.0) {
            prop_assert!(elements.insert(new));
        }
        prop_assert_eq!(&elements, &set.members(&after.0));
        for number in asked {
            let source: IpAddr = if of_v4 {
                std::net::Ipv4Addr::from(number).into()
            } else {
                std::net::Ipv6Addr::from(u128::from(number) << 96 | u128::from(number)).into()
            };
            prop_assert_eq!(lets_in(&elements, vip, source), after.1.iter().any(|range| range.contains(&source)), "{}", source);
        }
    }
}

#[test]
fn of_the_next_nodes_of_lots_only_those_that_differ_are_written_with_a_bit_for_how_often() {
    use crate::guard::{Step, Trails};
    let vip: IpAddr = "192.0.2.50".parse().unwrap();
    let guarded = |by, steps: &[(u8, u32, u8)]| {
        let steps = steps.iter().map(|(lot, mark, times)| (*lot, Step { mark: *mark, times: *times }));
        let services = [((vip, Protocol::Tcp), Arc::new((by, steps.collect())))].into();
        Guarded { trails: Some(Arc::new(Trails { services, ..Trails::default() })), ..Guarded::default() }
    };
    let missing_lots = |by, one: &Guarded, other: &Guarded| -> Vec<(u8, u32)> {
        let elements = missing(Set { kind: Kind::Next(by), family: Family::V4 }, one, other);
        let data = |data: &[u8]| u32::from_ne_bytes(data.try_into().unwrap());
        elements.iter().map(|one| (u8::try_from(data(&one.key[8..])).unwrap(), data(&one.data))).collect()
    };
    let (by, client) = (SharedBy::Connection, SharedBy::Client);
    let old = guarded(by, &[(1, 0x10, 1), (2, 0x20, 2), (3, 0x10, 4)]);
    let new = guarded(by, &[(1, 0x10, 1), (2, 0x20, 3)]);
    assert_eq!(missing_lots(by, &new, &old), [(2, 0x24)]);
    assert_eq!(missing_lots(by, &old, &new), [(2, 0x22), (3, 0x18)]);
    assert_eq!(missing_lots(client, &old, &new), []);
    let changed = guarded(client, &[(1, 0x10, 1)]);
    assert_eq!(
        (missing_lots(client, &changed, &new), missing_lots(by, &changed, &new)),
        (vec![(1, 0x11)], vec![])
    );
    assert_eq!(missing_lots(by, &new, &changed), [(1, 0x11), (2, 0x24)]);
}

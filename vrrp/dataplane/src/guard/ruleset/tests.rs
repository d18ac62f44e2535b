use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use windlass_kernel::netfilter::contents;
use windlass_kernel::netfilter::element;
use windlass_kernel::netfilter::expression::value;
use windlass_kernel::netfilter::message::{Batch, Content, replies};
use windlass_kernel::port::{Protocol, ProtocolPort};

use windlass_kernel::netfilter::chain::{FORWARD, POSTROUTING, PREROUTING};

use super::chains::{FRONT, chains};
use super::*;
use crate::guard::set::ends;
use crate::restriction::Restrictions;

fn set(addresses: &[&str]) -> BTreeSet<IpAddr> {
    addresses.iter().map(|address| address.parse().unwrap()).collect()
}

fn guarded(vips: &[&str], held: &[&str]) -> Guarded {
    Guarded { vips: set(vips), held: set(held), ..Guarded::default() }
}

fn update(table: &str, installed: &Guarded, next: &Guarded) -> Batch {
    let [installed, next] =
        [installed, next].map(|guarded| Contents { guarded: guarded.clone(), ..Contents::default() });
    contents::update(table, &installed, &next)
}

fn rules(parts: Parts) -> usize {
    Contents { parts, ..Contents::default() }.rules()
}

/// What a batch changes: the step's name and its addresses.
fn changes(batch: &Batch) -> Vec<(String, Vec<String>)> {
    let bytes = batch.encode(TableFamily::Inet, 0);
    let messages: Vec<_> = replies(&bytes).map(|message| message.content).collect();
    (1..=batch.last())
        .map(|at| {
            let Content::Object(attributes) = messages[at] else { panic!("{messages:?}") };
            let addresses = element::read(attributes)
                .iter()
                .filter_map(|one| Some(element::address_of(&one.key)?.to_string()))
                .collect();
            (batch.what(at).unwrap().to_owned(), addresses)
        })
        .collect()
}

#[test]
fn only_the_difference_is_told() {
    let told = guarded(&["192.0.2.1", "192.0.2.2", "2001:db8::1"], &["192.0.2.1"]);
    let wanted = guarded(&["192.0.2.2", "192.0.2.3", "2001:db8::1"], &["2001:db8::1"]);
    let change = |what: &str, addresses: &[&str]| {
        (format!("{what} of the table inet w"), addresses.iter().map(ToString::to_string).collect())
    };
    // The old and the new, and what is told about it.
    let table = [
        (&told, &told, vec![]),
        (
            &told,
            &wanted,
            vec![
                change("delete elements from the set vips4", &["192.0.2.1"]),
                change("add elements to the set vips4", &["192.0.2.3"]),
                change("delete elements from the set held4", &["192.0.2.1"]),
                change("add elements to the set held6", &["2001:db8::1"]),
                change("delete elements from the set known4", &["192.0.2.1"]),
                change("add elements to the set known4", &["192.0.2.3"]),
                change("renew the set awake", &[]),
                change("renew the set awake", &[]),
            ],
        ),
        (
            &wanted,
            &Guarded::default(),
            vec![
                change("delete elements from the set vips4", &["192.0.2.2", "192.0.2.3"]),
                change("delete elements from the set vips6", &["2001:db8::1"]),
                change("delete elements from the set held6", &["2001:db8::1"]),
                change("delete elements from the set known4", &["192.0.2.2", "192.0.2.3"]),
                change("delete elements from the set known6", &["2001:db8::1"]),
            ],
        ),
    ];
    for (old, new, expected) in table {
        assert_eq!(changes(&update("w", old, new)), expected, "{old:?} to {new:?}");
    }
}

#[test]
fn many_addresses_are_told_in_pieces_that_an_attribute_can_hold() {
    let all: BTreeSet<IpAddr> = (0..5000).map(|n| IpAddr::V6((0x2001_0db8_u128 << 96 | n).into())).collect();
    let batch = update("w", &Guarded::default(), &Guarded { vips: all.clone(), ..Guarded::default() });
    let changes = changes(&batch);
    assert_eq!(changes.iter().map(|(_, addresses)| addresses.len()).collect::<Vec<_>>(), [500; 20]);
    let told: BTreeSet<IpAddr> =
        changes.iter().flat_map(|(_, addresses)| addresses).map(|address| address.parse().unwrap()).collect();
    assert_eq!(told, all);
}

const ALL: Parts = Parts {
    forwards: true,
    shares: true,
    masks_events: true,
    masquerade_mark: 0x4000,
    marks: MarkMask::LOWEST,
    awake_ms: 15_000,
};

#[test]
fn rules_refer_only_to_sets_and_chains_that_exist() {
    let chains = chains(ALL);
    let names: Vec<_> = chains.iter().map(|chain| chain.name).collect();
    for expression in chains.iter().flat_map(|chain| &chain.rules).flatten() {
        match expression {
            In(AWAKE) => {}
            In(name) | NotIn(name) | Map(name) | Expression::AddTo(name) => {
                assert!(Set::all().any(|set| set.name() == *name), "{name}");
            }
            Verdict(Goto(name)) => assert!(names.contains(name), "{name}"),
            _ => {}
        }
    }
}

/// Another length would be refused by the kernel, another order read as other addresses and ports.
#[test]
fn a_stray_is_its_source_and_its_destination_each_with_its_port() {
    for strays in Kind::Strays.sets() {
        let (source, destination): (IpAddr, IpAddr) = match strays.family {
            Family::V4 => ("192.0.2.3".parse().unwrap(), "192.0.2.50".parse().unwrap()),
            Family::V6 => ("2001:db8::3".parse().unwrap(), "2001:db8::50".parse().unwrap()),
        };
        let end = |address: IpAddr, port: u16| {
            let octets = match address {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            [octets, port.to_be_bytes().to_vec(), vec![0; 2]].concat()
        };
        let key = [end(source, 40_000), end(destination, 80)].concat();
        let element = Attributes::new().nest(1, &value(&key));
        let answer = Attributes::new().nest(3, &Attributes::new().nest(1, &element));
        let listed: Vec<_> =
            element::read(answer.as_bytes()).iter().map(|element| ends(element, strays.family)).collect();
        assert_eq!(listed, [Some([(source, 40_000), (destination, 80)])]);
        let short = Attributes::new().nest(1, &value(&key[..key.len() - 5]));
        let answer = Attributes::new().nest(3, &Attributes::new().nest(1, &short));
        assert_eq!(ends(&element::read(answer.as_bytes())[0], strays.family), None);
    }
}

#[test]
fn without_what_a_kernel_lacks_the_table_has_all_the_rest() {
    let rules = |forwards, masks_events| rules(Parts { forwards, masks_events, ..ALL });
    assert_eq!(rules(true, true), rules(true, false) + 6);
    assert_eq!(rules(false, true), rules(false, false) + 6);
    assert!(rules(true, false) > rules(false, false));
}

#[test]
fn what_kube_proxy_masquerades_is_known_by_its_own_mark_which_is_taken_off() {
    for mark in [0x4000_u32, 0x10_0000] {
        let chains = chains(Parts { masquerade_mark: mark, ..ALL });
        let movable = chains.iter().find(|chain| chain.name == "movable").unwrap();
        let masks: BTreeSet<[u8; 4]> = movable
            .rules
            .iter()
            .flatten()
            .filter_map(|expression| match expression {
                Mask(mask) => Some(*mask),
                _ => None,
            })
            .collect();
        assert_eq!(masks, [mark.to_ne_bytes(), (!mark).to_ne_bytes()].into(), "{mark:#x}");
    }
}

/// Traffic that is for no VIP meets few rules, whatever the table has.
#[test]
fn a_packet_that_the_node_forwards_meets_two_chains_of_a_few_rules_before_it_is_known_to_be_of_a_connection_to_a_vip()
 {
    let chains = chains(ALL);
    let for_each_packet = chains.iter().filter(|chain| {
        chain.hook.is_some_and(|hook| {
            hook.kind != "nat" && [PREROUTING, FORWARD, POSTROUTING].contains(&hook.number)
        })
    });
    let names: Vec<_> = for_each_packet.map(|chain| chain.name).collect();
    assert_eq!(names, [FRONT, "forward"]);
    let rules = |name: &str| &chains.iter().find(|chain| chain.name == name).unwrap().rules;
    assert_eq!(rules(FRONT).len() + rules("front4").len(), 4);
    assert!(rules("forward")[0].ends_with(&[Verdict(Accept)]), "what goes on leaves at the first rule");
}

#[test]
fn a_change_of_who_may_send_costs_the_elements_that_differ() {
    let restricted = |ranges: &[&str]| {
        let mut restrictions = Restrictions::default();
        let port = ProtocolPort { protocol: Protocol::Tcp, port: 80 };
        let ranges: Vec<_> = ranges.iter().map(|range| range.parse().unwrap()).collect();
        restrictions.restrict("192.0.2.1".parse().unwrap(), [port], ranges);
        Guarded { restrictions: Arc::new(restrictions), ..Guarded::default() }
    };
    let count = |old: &Guarded, new: &Guarded| -> Vec<(String, usize)> {
        let batch = update("w", old, new);
        let bytes = batch.encode(TableFamily::Inet, 0);
        let messages: Vec<_> = replies(&bytes).map(|message| message.content).collect();
        let elements = |at: usize| {
            let Content::Object(attributes) = messages[at] else { panic!("{messages:?}") };
            element::read(attributes).len()
        };
        (1..=batch.last())
            .map(|at| (batch.what(at).unwrap().replace(" of the table inet w", ""), elements(at)))
            .collect()
    };
    let step = |what: &str, number| (what.to_owned(), number);
    let (none, one, two) =
        (Guarded::default(), restricted(&["10.0.0.0/8"]), restricted(&["10.0.0.0/8", "198.51.100.7/32"]));
    let closed = restricted(&[]);
    let table = [
        (
            &none,
            &closed,
            vec![step("add elements to the set restricted4", 1), step("add elements to the set known4", 1)],
        ),
        (
            &none,
            &two,
            vec![
                step("add elements to the set restricted4", 1),
                step("add elements to the set sources4", 4),
                step("add elements to the set known4", 1),
            ],
        ),
        (&one, &two, vec![step("add elements to the set sources4", 2)]),
        (&two, &one, vec![step("delete elements from the set sources4", 2)]),
        (
            &two,
            &none,
            vec![
                step("delete elements from the set restricted4", 1),
                step("delete elements from the set sources4", 4),
                step("delete elements from the set known4", 1),
            ],
        ),
        (&two, &two, vec![]),
    ];
    for (old, new, expected) in table {
        assert_eq!(count(old, new), expected, "{old:?} to {new:?}");
    }
}

#[test]
fn ranges_whose_answers_go_astray_are_told_as_stretches_without_a_gap() {
    let astray = |ranges: &[&str]| Guarded {
        astray: ranges.iter().map(|range| range.parse().unwrap()).collect(),
        ..Guarded::default()
    };
    let (none, one) = (Guarded::default(), astray(&["10.244.2.0/24"]));
    // The third range touches the second, and the fourth is within the first.
    let more =
        astray(&["10.244.0.0/24", "10.244.2.0/24", "10.244.3.0/24", "10.244.0.128/25", "2001:db8:2::/64"]);
    let change = |what: &str, edges: &[&str]| {
        (format!("{what} of the table inet w"), edges.iter().map(ToString::to_string).collect())
    };
    let table = [
        (&none, &one, vec![change("add elements to the set astray4", &["10.244.2.0", "10.244.3.0"])]),
        (
            &one,
            &more,
            vec![
                change("delete elements from the set astray4", &["10.244.2.0", "10.244.3.0"]),
                change(
                    "add elements to the set astray4",
                    &["10.244.0.0", "10.244.1.0", "10.244.2.0", "10.244.4.0"],
                ),
                change("add elements to the set astray6", &["2001:db8:2::", "2001:db8:2:1::"]),
            ],
        ),
        (&more, &more, vec![]),
        (&one, &none, vec![change("delete elements from the set astray4", &["10.244.2.0", "10.244.3.0"])]),
    ];
    for (old, new, expected) in table {
        assert_eq!(changes(&update("w", old, new)), expected, "{old:?} to {new:?}");
    }
}

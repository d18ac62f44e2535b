use windlass_kernel::netfilter::contents::{ELEMENTS_IN_A_MESSAGE, renewal, update};
use windlass_kernel::netfilter::element;
use windlass_kernel::netfilter::message::{Batch, Content, replies};
use windlass_kernel::port::{Protocol, ProtocolPort};

use super::*;
use crate::balance::{Backends, Balancing, ClientSource};

fn contents(services: &[(&str, &[&str])]) -> Contents {
    let port = ProtocolPort { protocol: Protocol::Tcp, port: 6443 };
    let services = services.iter().map(|(vip, targets)| {
        let targets = targets.iter().map(|target| target.parse().unwrap()).collect();
        ((vip.parse().unwrap(), port), Backends { targets, source: ClientSource::Masquerade })
    });
    let own = ["192.0.2.11".parse().unwrap()].into();
    let balancing = Balancing { services: services.collect(), own, ..Balancing::default() };
    Contents { balancing, ..Contents::default() }
}

/// What a batch changes: the step's name and how many elements it has.
fn changes(batch: &Batch) -> Vec<(String, usize)> {
    let bytes = batch.encode(TableFamily::Inet, 0);
    let messages: Vec<_> = replies(&bytes).map(|message| message.content).collect();
    let count = |at: usize| {
        let Content::Object(attributes) = messages[at] else { panic!("{messages:?}") };
        element::read(attributes).len()
    };
    (1..=batch.last())
        .map(|at| (batch.what(at).unwrap().replace(" of the table inet w", ""), count(at)))
        .collect()
}

#[test]
fn only_what_differs_is_told() {
    let step = |what: &str, set: &str, count| (format!("{what} the set {set}"), count);
    let [delete, add] = ["delete elements from", "add elements to"];
    let none = contents(&[("192.0.2.5", &[])]);
    let one = contents(&[("192.0.2.5", &["192.0.2.11:6443"])]);
    let two = contents(&[("192.0.2.5", &["192.0.2.11:6443", "192.0.2.12:6443"])]);
    let exchanged = contents(&[("192.0.2.5", &["192.0.2.11:6443", "192.0.2.13:6443"])]);
    let six = contents(&[("192.0.2.5", &["192.0.2.11:6443"]), ("2001:db8::5", &["[2001:db8::11]:6443"])]);
    let table = [
        (&Contents::default(), &none, vec![step(add, "own4", 1)]),
        (&none, &one, vec![step(add, "lots4", 60), step(add, "masqueraded4", 1)]),
        (&one, &one, vec![]),
        (&one, &two, vec![step(delete, "lots4", 30), step(add, "lots4", 30)]),
        (&two, &exchanged, vec![step(delete, "lots4", 30), step(add, "lots4", 30)]),
        (&two, &none, vec![step(delete, "lots4", 60), step(delete, "masqueraded4", 1)]),
        (&one, &six, vec![step(add, "lots6", 60), step(add, "masqueraded6", 1)]),
    ];
    for (old, new, expected) in table {
        assert_eq!(changes(&update("w", old, new)), expected, "{old:?} to {new:?}");
    }
    let local = ["192.0.2.5".parse().unwrap()].into();
    let renewed = renewal("w", &Contents { local, ..Contents::default() });
    let step = |set: &str, count| (format!("renew the set {set}"), count);
    assert_eq!(changes(&renewed), [step("local4", 0), step("local6", 0), step("local4", 1)]);
}

/// An attribute longer than 65,535 bytes would be refused.
#[test]
fn many_services_are_told_in_pieces_that_an_attribute_can_hold() {
    let names: Vec<String> = (1..=50).map(|n| format!("2001:db8::{n:x}")).collect();
    let targets = ["[2001:db8:1::1]:6443", "[2001:db8:1::2]:6443"];
    let services: Vec<(&str, &[&str])> = names.iter().map(|name| (name.as_str(), &targets[..])).collect();
    let told = changes(&update("w", &Contents::default(), &contents(&services)));
    let pieces: Vec<usize> =
        told.iter().filter(|(what, _)| what.contains("lots6")).map(|(_, count)| *count).collect();
    assert_eq!(pieces, [500; 6]);
    let longest = Kind::Lots.sets()[1].members(&contents(&services));
    let piece: Vec<&Element> = longest.iter().take(ELEMENTS_IN_A_MESSAGE).collect();
    assert!(element::encode(piece).as_bytes().len() < usize::from(u16::MAX));
}

/// The kernel promises of one look-up that it finds what is before a change or after it, not of two.
#[test]
fn a_packet_finds_its_backend_by_one_look_up() {
    let chains = chains(MarkMask::LOWEST);
    let backends = chains.iter().find(|chain| chain.name == BACKENDS).unwrap();
    for set in Kind::Lots.sets() {
        let of_family = backends.rules.iter().filter(|rule| rule.starts_with(&is_of(set.family)));
        let maps: Vec<&Expression> = of_family.flatten().filter(|part| matches!(part, Map(_))).collect();
        assert!(matches!(maps[..], [Map(name)] if *name == set.name()), "{maps:?}");
    }
    assert_eq!(backends.rules.len(), 2, "{:?}", backends.rules);
}

#[test]
fn rules_refer_only_to_sets_and_chains_that_exist() {
    let chains = chains(MarkMask::LOWEST);
    let names: Vec<_> = chains.iter().map(|chain| chain.name).collect();
    for expression in chains.iter().flat_map(|chain| &chain.rules).flatten() {
        match expression {
            In(name) | NotIn(name) | Map(name) => {
                assert!(Set::all().any(|set| set.name() == *name), "{name}");
            }
            Verdict(Jump(name) | Goto(name)) => assert!(names.contains(name), "{name}"),
            _ => {}
        }
    }
    assert_eq!(Contents::default().rules(), 28);
}

use std::collections::BTreeMap;

use windlass_kernel::netfilter::attributes;
use windlass_kernel::port::Protocol;

use super::*;
use crate::balance::Returns;

fn shares(count: usize) -> Vec<usize> {
    let port = ProtocolPort { protocol: Protocol::Tcp, port: 6443 };
    let targets = (1..=count).map(|n| format!("192.0.2.{n}:6443").parse().unwrap()).collect();
    let service = ("198.51.100.5".parse().unwrap(), port);
    let backends = Backends { targets, source: ClientSource::Masquerade };
    let balancing = Balancing { services: [(service, backends)].into(), ..Balancing::default() };
    let contents = Contents { balancing, ..Contents::default() };
    let members = |kind: Kind| kind.sets().map(|set| set.members(&contents));
    let [all, of_other_family] = members(Kind::Lots);
    assert_eq!(of_other_family, [].into());
    let mut lots: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for element in all {
        *lots.entry(element.data).or_default() += 1;
    }
    lots.into_values().collect()
}

#[test]
fn backends_get_the_same_share_or_one_lot_less() {
    for (backends, expected) in [
        (0, vec![]),
        (1, vec![60]),
        (2, vec![30; 2]),
        (3, vec![20; 3]),
        (5, vec![12; 5]),
        (7, vec![9, 9, 9, 9, 8, 8, 8]),
        (60, vec![1; 60]),
    ] {
        let mut found = shares(backends);
        found.sort_unstable_by(|one, other| other.cmp(one));
        assert_eq!(found, expected, "{backends}");
    }
}

#[test]
fn answers_are_marked_by_where_their_questions_came_from() {
    let address = |text: &str| -> IpAddr { text.parse().unwrap() };
    let server = ProtocolPort { protocol: Protocol::Tcp, port: 6443 };
    let contents = |peers: &[(&str, u8, u32)]| Contents {
        balancing: Balancing {
            own: [address("192.0.2.1"), address("2001:db8::1")].into(),
            returns: Returns {
                servers: [(address("192.0.2.1"), server)].into(),
                peers: peers.iter().map(|(peer, ..)| address(peer)).collect(),
            },
            ..Balancing::default()
        },
        senders: peers
            .iter()
            .map(|(peer, last, mark)| {
                (address(peer), Sender { link_layer: [2, 0, 0, 0, 0, *last], mark: *mark })
            })
            .collect(),
        ..Contents::default()
    };
    let some = contents(&[("192.0.2.2", 2, 3), ("192.0.2.3", 3, 4), ("2001:db8::2", 2, 5)]);
    let count = |kind: Kind, contents: &Contents| kind.sets().map(|set| set.members(contents).len());
    for (kind, expected) in
        [(Kind::Servers, [1, 0]), (Kind::Nodes, [3, 2]), (Kind::Senders, [2, 1]), (Kind::Marks, [2, 1])]
    {
        assert_eq!(count(kind, &some), expected, "{kind:?}");
    }
    let [of_v4, _] = Kind::Senders.sets();
    let element = |last, mark: u32| Element {
        data: mark.to_ne_bytes().to_vec(),
        ..Element::of(vec![2, 0, 0, 0, 0, last])
    };
    assert_eq!(of_v4.members(&some), [element(2, 3), element(3, 4)].into());
    // The kernel would refuse a map with two answers to one question, and all else with it.
    let two_of_one = contents(&[("192.0.2.2", 2, 3), ("192.0.2.3", 2, 4)]);
    assert_eq!(of_v4.members(&two_of_one), [element(2, 3)].into());
}

#[test]
fn the_nodes_own_packets_go_to_backends_for_15_s_after_the_last_renewal() {
    let name = Attributes::new().text(1, "table");
    let [v4, v6] = Kind::Local.sets();
    // The key is an address. Elements expire (flag NFT_SET_TIMEOUT) after NFTA_SET_TIMEOUT, in milliseconds.
    for (set, kind, length) in [(v4, 7, 4), (v6, 8, 16)] {
        let expected = name.clone().number(4, kind).number(5, length).number(3, 0x10).long(11, 15_000);
        assert_eq!(set.definition(&name), expected, "{}", set.name());
    }
    for set in Set::all().filter(|set| set.kind != Kind::Local) {
        let definition = set.definition(&name);
        assert_eq!(attributes::find(definition.as_bytes(), 11), None, "{} lasts", set.name());
    }
}

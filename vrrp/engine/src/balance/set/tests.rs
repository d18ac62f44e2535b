use std::collections::BTreeMap;

use super::*;
use crate::restriction::Protocol;

fn shares(count: usize) -> Vec<usize> {
    let port = ProtocolPort { protocol: Protocol::Tcp, port: 6443 };
    let targets = (1..=count).map(|n| format!("192.0.2.{n}:6443").parse().unwrap()).collect();
    let service = ("198.51.100.5".parse().unwrap(), port);
    let backends = Backends { targets, source: ClientSource::Masquerade };
    let balancing = Balancing { services: [(service, backends)].into(), ..Balancing::default() };
    let members = |kind: Kind| kind.sets().map(|set| set.members(&balancing));
    let [shared, of_other_family] = members(Kind::Shared);
    assert_eq!(of_other_family, [].into());
    let [sole, _] = members(Kind::Sole);
    assert_eq!(sole.len(), usize::from(count == 1));
    let mut lots: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for element in shared {
        *lots.entry(element.data).or_default() += 1;
    }
    lots.into_values().collect()
}

#[test]
fn backends_get_the_same_share_or_one_lot_less() {
    // Of one alone and of none there are no lots.
    for (backends, expected) in [
        (0, vec![]),
        (1, vec![]),
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

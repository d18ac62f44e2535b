use super::*;
use crate::sharing::{LOTS, SharedBy};
use windlass_kernel::port::Protocol;

const OWN: &str = "192.0.2.1";
const PEERS: [&str; 3] = ["192.0.2.2", "192.0.2.3", "2001:db8::2"];

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn share(servers: &[&str]) -> Share {
    let mut lots = [0; LOTS];
    let indexes = (0..u8::try_from(servers.len()).unwrap()).cycle();
    lots.iter_mut().zip(indexes).for_each(|(lot, index)| *lot = index);
    Share {
        interface: "eth0".to_owned(),
        ports: [80, 443].into(),
        by: SharedBy::Connection,
        servers: servers.iter().map(|server| address(server)).collect(),
        lots,
        former: Vec::new(),
    }
}

/// This many addresses with these servers.
fn shares(count: u8, servers: &[&str]) -> Shares {
    let services =
        (0..count).map(|n| ((IpAddr::from([203, 0, 113, n]), Protocol::Tcp), Arc::new(share(servers))));
    Shares { services: services.collect(), ..Shares::default() }
}

/// The interface, with this index, and these peers.
fn links(index: u32, peers: &[&str]) -> BTreeMap<String, SharingLink> {
    let all = (1..).zip(PEERS).filter(|(_, peer)| peers.contains(peer));
    let peers = all.map(|(n, peer)| (address(peer), [2, 0, 0, 0, 0, n])).collect();
    [("eth0".to_owned(), SharingLink { index, peers, ..SharingLink::default() })].into()
}

/// The contents on a node that had none.
fn contents(shares: &Shares, links: &BTreeMap<String, SharingLink>) -> Contents {
    Contents::of(shares, links, &mut ByShare::default())
}

/// The contents after each transaction.
fn transactions(from: &Contents, to: &Contents) -> Vec<Contents> {
    let first = (from != to).then(|| from.next(to));
    std::iter::successors(first, |now| (now != to).then(|| now.next(to))).collect()
}

/// Elements that a transaction changes.
fn changes(from: &Contents, to: &Contents) -> usize {
    let of = |service: Service| {
        let [old, new] = [from, to].map(|contents| contents.services.get(&service));
        let [gone, come] = changed_elements(service, old, new);
        gone.len() + come.len()
    };
    from.changed_services(to).into_iter().map(of).sum()
}

#[test]
fn a_lot_is_directed_only_to_another_node_whose_link_layer_address_is_known() {
    let shares = shares(1, &[OWN, PEERS[0], PEERS[1], PEERS[2]]);
    let lots = |peers: &[&str]| -> Vec<(u8, IpAddr)> {
        let contents = contents(&shares, &links(2, peers));
        contents.services.values().flat_map(|one| one.lots.clone()).take(2).collect()
    };
    assert_eq!(lots(&[]), []);
    assert_eq!(lots(&PEERS[..1]), [(1, address(PEERS[0])), (5, address(PEERS[0]))]);
    // The one of IPv6 gets nothing that is sent to an address of IPv4.
    assert_eq!(lots(&PEERS), [(1, address(PEERS[0])), (2, address(PEERS[1]))]);
    let elsewhere = [("eth1".to_owned(), SharingLink::default())].into();
    assert_eq!(contents(&shares, &elsewhere).services, BTreeMap::new());
}

#[test]
fn many_changes_are_carried_out_in_transactions_of_two_thousand_elements_at_most() {
    let [before, after] = [&[PEERS[0]], &[PEERS[1]]]
        .map(|servers: &[&str; 1]| contents(&shares(100, servers), &links(2, &PEERS)));
    for (from, to, least) in
        [(&Contents::default(), &before, 7), (&before, &after, 12), (&after, &Contents::default(), 7)]
    {
        let steps = transactions(from, to);
        assert_eq!(steps.last(), Some(to));
        assert!(steps.len() >= least, "{}", steps.len());
        let mut last = from;
        for step in &steps {
            assert!(changes(last, step) <= ELEMENTS_IN_A_TRANSACTION);
            last = step;
        }
    }
}

#[test]
fn while_packets_are_directed_all_peers_are_known() {
    let before = contents(&shares(100, &PEERS[..1]), &links(2, &PEERS[..1]));
    let after = contents(&shares(100, &PEERS[1..2]), &links(2, &PEERS[1..2]));
    let both: BTreeSet<_> = before.peers.union(&after.peers).copied().collect();
    let steps = transactions(&before, &after);
    for step in &steps[..steps.len() - 1] {
        assert_eq!(step.peers, both);
    }
    assert_eq!(steps.last(), Some(&after));
}

#[test]
fn a_device_that_is_made_anew_is_looked_at_when_the_addresses_know_its_index() {
    let [old, new] = [2, 3].map(|index| contents(&shares(100, &PEERS[..1]), &links(index, &PEERS)));
    let moved = transactions(&old, &new);
    assert_eq!(moved.len(), 1, "200 ports each way");
    let begun = transactions(&Contents::default(), &new);
    assert!(begun[..begun.len() - 1].iter().all(|step| step.devices.is_empty()));
}

#[test]
fn one_lot_that_moves_changes_two_elements() {
    let wanted = shares(1, &PEERS[..2]);
    let mut moved = wanted.clone();
    moved.services.values_mut().for_each(|share| Arc::make_mut(share).lots[0] = 1);
    let [from, to] = [wanted, moved].map(|shares| contents(&shares, &links(2, &PEERS)));
    assert_eq!(changes(&from, &to), 2);
}

#[test]
fn udp_of_a_lot_with_former_servers_is_directed_to_the_node_after_its_server_and_tcp_to_its_server() {
    let [own, first, second] = [OWN, PEERS[0], PEERS[1]];
    let mut share = share(&[own, first, second]);
    share.lots = [1; LOTS];
    let lot = |share: &Share, protocol| {
        let shares = Shares {
            services: [((address("203.0.113.1"), protocol), Arc::new(share.clone()))].into(),
            ..Shares::default()
        };
        let mut links = links(2, &PEERS);
        for link in links.values_mut() {
            link.own = [address(own)].into();
        }
        let contents = contents(&shares, &links);
        contents.services.values().next().map(|directed| directed.lots[&0])
    };
    // Server, former servers, and where UDP goes: to the next one in the order of the lot, which is here that of the addresses.
    let (second_too, own_too, both) = (vec![[2; LOTS]], vec![[0; LOTS]], vec![[0; LOTS], [2; LOTS]]);
    let table = [
        (1, vec![], Some(first)),
        (1, second_too, Some(second)),
        (1, own_too, None),
        (1, both.clone(), Some(second)),
        (2, both, None),
        (2, vec![[1; LOTS]], Some(first)),
    ];
    for (server, former, udp) in table {
        share.lots = [server; LOTS];
        share.former = former;
        let tcp = share.servers[usize::from(server)];
        assert_eq!(lot(&share, Protocol::Tcp), Some(tcp), "{share:?}");
        assert_eq!(lot(&share, Protocol::Udp), udp.map(address), "{share:?}");
    }
}

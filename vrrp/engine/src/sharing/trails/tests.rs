use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

/// Hops that a packet from a client has, and fewest with which it is passed on (`dataplane::guard`).
const FROM_CLIENT: u8 = 64;
const FEWEST: u8 = 4;

fn node(n: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, n + 1).into()
}

/// One lot for all, with its former servers.
fn share(server: u8, former: &[u8]) -> Share {
    Share {
        interface: "eth0".to_owned(),
        ports: [80].into(),
        by: SharedBy::Connection,
        servers: (0..4).map(node).collect(),
        lots: [server; LOTS],
        former: former.iter().map(|server| [*server; LOTS]).collect(),
    }
}

/// The other nodes that a node asks.
fn asked(share: &Share, own: u8) -> Vec<u8> {
    let peers = (0..4).filter(|n| *n != own).map(|n| (node(n), [2, 0, 0, 0, 0, n])).collect();
    let link = SharingLink { index: 2, own: [node(own)].into(), peers };
    let lots = lots(share, Family::V4, &link, &BTreeSet::new());
    let index = |hop: &NextHop| (0..4).find(|n| node(*n) == hop.address).unwrap();
    lots.get(&0).into_iter().flatten().map(index).collect()
}

/// Nodes that a packet meets which only `knower` knows, from the one to which the director sends it.
fn walk(first: u8, tables: [&Share; 4], udp: bool, knower: Option<u8>) -> Vec<u8> {
    let (mut at, mut hops, mut met) = (first, FROM_CLIENT - 1, vec![first]);
    while Some(at) != knower && hops > FEWEST {
        let others = asked(tables[usize::from(at)], at);
        let Some(next) = others.first() else { break };
        if hops > FEWEST + 4 {
            hops = FEWEST + (u8::try_from(others.len()).unwrap() + u8::from(!udp)).min(4);
        }
        (at, hops) = (*next, hops - 1);
        met.push(at);
    }
    met
}

/// The table after one more change of the lot's server.
fn changed(old: &Share, server: u8) -> Share {
    let mut new = share(server, &[]);
    new.former = std::iter::once(old.lots).chain(old.former.iter().copied()).take(3).collect();
    new
}

fn directed(share: &Share, udp: bool) -> u8 {
    let server = share.server(0).unwrap();
    let first = if udp { share.after(0, server).first().copied().unwrap_or(server) } else { server };
    (0..4).find(|n| node(*n) == first).unwrap()
}

/// Servers of a table: the present one and the former ones that count.
fn servers(share: &Share) -> BTreeSet<u8> {
    std::iter::once(&share.lots).chain(&share.former).map(|lots| lots[0]).collect()
}

#[test]
fn a_lot_without_former_servers_has_no_trail() {
    for former in [vec![], vec![[1; LOTS]]] {
        let share = Share { former, ..share(1, &[]) };
        assert_eq!([0, 1, 2, 3].map(|own| asked(&share, own)), [const { vec![] }; 4]);
    }
}

#[test]
fn each_node_asks_the_others_of_the_lot_beginning_with_the_one_after_it() {
    let share = share(3, &[0, 1]);
    assert_eq!(
        [0, 1, 2, 3].map(|own| asked(&share, own)),
        [vec![3, 1], vec![0, 3], vec![0, 3, 1], vec![1, 0]],
        "the order of lot 0 is 2, 0, 3, 1"
    );
}

#[test]
fn a_node_whose_link_layer_address_is_unknown_is_asked_and_a_silent_one_is_not() {
    let link = SharingLink { index: 2, own: [node(0)].into(), peers: [(node(3), [2, 0, 0, 0, 0, 3])].into() };
    for (silent, asked) in [(None, &[3, 1][..]), (Some(1), &[3])] {
        let silent = silent.map(node).into_iter().collect();
        let lots = lots(&share(0, &[1, 3]), Family::V4, &link, &silent);
        let asked: Vec<_> = asked.iter().map(|n| NextHop { interface: 2, address: node(*n) }).collect();
        assert_eq!(lots[&0], asked);
    }
}

proptest! {
    /// Every interleaving: each node has the table of before or after the last change.
    #[test]
    fn a_packet_meets_every_node_that_may_know_it_within_four_hops_whichever_nodes_know_of_a_change(
        first in 0_u8..4, changes in proptest::collection::vec(0_u8..4, 1..6), udp: bool,
    ) {
        let (last, earlier) = changes.split_last().unwrap();
        let old = earlier.iter().fold(share(first, &[]), |old, server| changed(&old, *server));
        let new = changed(&old, *last);
        // A former server that is dropped is asked by some nodes only, in the place of another.
        let is_kept = servers(&old).is_subset(&servers(&new));
        for knows in 0..16_u8 {
            let tables = [0, 1, 2, 3].map(|n| if knows >> n & 1 == 1 { &new } else { &old });
            for by_new in [false, true] {
                // Packets are directed by a change when all know of it.
                if by_new && knows != 15 {
                    continue;
                }
                let first = directed(if by_new { &new } else { &old }, udp);
                let all = walk(first, tables, udp, None);
                prop_assert!(all.len() <= 5, "{all:?}");
                // A flow of UDP that was passed on before has marks, and takes its way by these.
                let is_asked = is_kept && (!udp || knows == 0 || knows == 15);
                for knower in servers(&old).iter().filter(|_| is_asked) {
                    let met = walk(first, tables, udp, Some(*knower));
                    prop_assert_eq!(met.last(), Some(knower), "{:?}", met);
                    let distinct: BTreeSet<_> = met.iter().collect();
                    prop_assert_eq!(distinct.len(), met.len(), "{:?}", met);
                }
            }
        }
    }

    #[test]
    fn a_packet_that_no_node_knows_meets_each_once_and_a_new_flow_ends_at_its_server(
        server in 0_u8..4, former in proptest::collection::vec(0_u8..4, 0..4),
    ) {
        let share = share(server, &former);
        for udp in [false, true] {
            let met = walk(directed(&share, udp), [&share; 4], udp, None);
            prop_assert_eq!(met.iter().copied().collect::<BTreeSet<_>>(), servers(&share).into_iter().take(4).collect());
            prop_assert!(met.len() <= 5, "{:?}", met);
            if udp {
                prop_assert_eq!(met.len(), servers(&share).len());
                prop_assert_eq!(met.last(), Some(&server));
            }
        }
    }
}

/// The address `number`, served by this node, with its former servers.
fn shares(of: &BTreeMap<u8, (u8, Vec<u8>)>) -> Arc<Shares> {
    let services = of.iter().map(|(number, (server, former))| {
        ((IpAddr::from([203, 0, 113, *number]), Protocol::Tcp), Arc::new(share(*server, former)))
    });
    Arc::new(Shares { services: services.collect(), ..Shares::default() })
}

proptest! {
    /// Shares, silent nodes and an absence, one after the other.
    #[test]
    fn trails_that_are_followed_are_those_that_are_found_from_nothing(
        changes in proptest::collection::vec(
            (proptest::collection::btree_map(0_u8..3, (0_u8..4, proptest::collection::vec(0_u8..4, 0..3)), 0..3),
             proptest::option::of(1_u8..4), any::<bool>()),
            1..12,
        ),
    ) {
        let peers = (1..4).map(|n| (node(n), [2, 0, 0, 0, 0, n])).collect();
        let link = SharingLink { index: 2, own: [node(0)].into(), peers };
        let mut tracer = Tracer::default();
        for (of, silent, was_away) in changes {
            let shares = shares(&of);
            let silent = silent.map(node).into_iter().collect();
            let links = [("eth0".to_owned(), link.clone())].into();
            let surroundings = Surroundings { links, silent, was_away };
            let mut anew = Tracer::default();
            for one in [&mut tracer, &mut anew] {
                one.note_moves(&shares);
                one.follow(surroundings.clone());
            }
            prop_assert_eq!(&tracer.trails.services, &anew.trails.services);
            prop_assert!(tracer.trails.addresses.keys().eq(anew.trails.addresses.keys()));
        }
    }
}

#[test]
fn an_address_has_moved_when_lots_with_former_servers_have_another_server() {
    let mut tracer = Tracer::default();
    let mut moves = |server: u8, former: &[u8]| {
        let shares = shares(&[(1, (server, former.to_vec()))].into());
        let is_moved = tracer.note_moves(&shares);
        tracer.follow(Surroundings::default());
        (is_moved, tracer.trails.addresses.values().copied().next())
    };
    assert_eq!(moves(0, &[]), (false, Some(0)), "new, served by one node all the time");
    assert_eq!(moves(0, &[1]), (false, Some(0)), "the same server");
    assert_eq!(moves(1, &[0]), (true, Some(1)));
    assert_eq!(moves(1, &[0]), (false, Some(1)));
    assert_eq!(moves(2, &[1, 0]), (true, Some(2)));
    assert_eq!(moves(0, &[]), (false, Some(2)), "no node has connections of its lots");
}

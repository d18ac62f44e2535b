use proptest::prelude::*;

use super::*;
use crate::sharing::SharedBy;

fn node(n: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, n])
}

/// Servers by this order of their numbers, and the number of each lot's server.
fn share(order: &[u8], server_of: impl Fn(u8) -> u8) -> Share {
    let mut lots = [NONE; LOTS];
    for (lot, index) in (0..).zip(&mut lots) {
        let place = order.iter().position(|n| *n == server_of(lot));
        *index = place.map_or(NONE, |place| u8::try_from(place).unwrap());
    }
    Share {
        interface: "eth0".to_owned(),
        ports: [80].into(),
        by: SharedBy::Connection,
        servers: order.iter().map(|n| node(*n)).collect(),
        lots,
        former: Vec::new(),
    }
}

fn servers(share: &Share) -> Vec<Option<IpAddr>> {
    (0..).take(LOTS).map(|lot| share.server(lot)).collect()
}

proptest! {
    #[test]
    fn only_lots_of_nodes_that_are_out_move_and_they_move_to_nodes_with_lots_that_are_not(
        count in 2_u8..9, out in proptest::collection::btree_set((0_u8..9).prop_map(node), 0..8),
    ) {
        // The last one has no lots.
        let order: Vec<u8> = (0..=count).collect();
        let whole = share(&order, |lot| lot % count);
        let without = whole.without(&out, &BTreeSet::new());
        for (before, after) in servers(&whole).into_iter().zip(servers(&without)) {
            if out.contains(&before.unwrap()) {
                prop_assert!(after.is_none_or(|node| !out.contains(&node) && whole.serving().contains_key(&node)));
                prop_assert_eq!(after.is_none(), whole.serving().keys().all(|node| out.contains(node)));
            } else {
                prop_assert_eq!(before, after);
            }
        }
    }

    #[test]
    fn nodes_that_know_of_the_same_servers_agree_whatever_the_order_in_which_they_are_declared(
        count in 2_u8..9, turn in 0_usize..9, out in proptest::collection::btree_set((0_u8..9).prop_map(node), 0..8),
    ) {
        let order: Vec<u8> = (0..count).collect();
        let mut other = order.clone();
        other.rotate_left(turn % order.len());
        let [one, other] = [order, other].map(|order| servers(&share(&order, |lot| lot % count).without(&out, &BTreeSet::new())));
        prop_assert_eq!(one, other);
    }

    #[test]
    fn of_two_that_die_one_after_the_other_the_lots_end_where_they_do_if_both_die_at_once(a in 0_u8..5, b in 0_u8..5) {
        let whole = share(&[0, 1, 2, 3, 4], |lot| lot % 5);
        let (first, both) = ([node(a)].into(), [node(a), node(b)].into());
        let moved: Vec<_> = servers(&whole.without(&first, &BTreeSet::new())).into_iter().zip(servers(&whole.without(&both, &BTreeSet::new()))).collect();
        // Only lots that the second one has move again.
        for (one, two) in moved {
            prop_assert_eq!(one != two, one == Some(node(b)) && a != b);
        }
    }
}

#[test]
fn the_lots_of_a_dead_node_are_spread_over_the_others() {
    let spread = servers(&share(&[0, 1, 2, 3], |lot| lot % 4).without(&[node(0)].into(), &BTreeSet::new()));
    for n in 1..4 {
        let more = spread.iter().filter(|server| **server == Some(node(n))).count() - LOTS / 4;
        assert!((4..=18).contains(&more), "{more} of 30 to {n}");
    }
}

#[test]
fn a_node_that_was_away_asks_the_substitute_first() {
    for n in 0..4 {
        let whole = share(&[0, 1, 2, 3], |_| n);
        assert_eq!(whole.with_substitutes(), Share { former: vec![[NONE; LOTS]; ASKED], ..whole });
        let whole = share(&[0, 1, 2, 3], |lot| lot % 4);
        let (asks, without) = (whole.with_substitutes(), whole.without(&[node(n)].into(), &BTreeSet::new()));
        for lot in (0..).take(LOTS).filter(|lot| lot % 4 == n) {
            let after = asks.after(lot, node(n));
            assert_eq!((after.len(), after.first().copied()), (ASKED, without.server(lot)));
            let [first, second] = after.try_into().unwrap();
            let both = whole.without(&[node(n), first].into(), &BTreeSet::new());
            assert_eq!(both.server(lot), Some(second));
            // The substitute, if it was away as well, asks the next one.
            assert_eq!(asks.after(lot, first).first(), Some(&second));
        }
    }
}

#[test]
fn a_former_server_that_is_out_is_none() {
    let mut whole = share(&[0, 1, 2], |_| 0);
    whole.former = vec![[1; LOTS], [2; LOTS]];
    assert_eq!(whole.without(&[node(1)].into(), &BTreeSet::new()).former, [[NONE; LOTS], [2; LOTS]]);
}

#[test]
fn lots_of_filtered_servers_move_to_servers_that_are_neither_filtered_nor_silent_and_stay_if_there_is_none() {
    let whole = share(&[0, 1, 2], |lot| lot % 3);
    // Numbers of silent and of filtered servers, and of those that serve; 9: where packets arrive.
    let rows: [[&[u8]; 3]; 6] = [
        [&[], &[1], &[0, 2]],
        [&[2], &[1], &[0]],
        [&[], &[1, 2], &[0]],
        [&[], &[0, 1, 2], &[0, 1, 2]],
        [&[0], &[1, 2], &[1, 2]],
        [&[0, 1, 2], &[0, 1, 2], &[9]],
    ];
    for [silent, filtered, expected] in rows {
        let nodes = |numbers: &[u8]| numbers.iter().map(|n| node(*n)).collect::<BTreeSet<_>>();
        let without = whole.without(&nodes(silent), &nodes(filtered));
        let serve = servers(&without).into_iter().map(|server| server.unwrap_or(node(9))).collect();
        assert_eq!(nodes(expected), serve, "silent {silent:?}, filtered {filtered:?}");
    }
}

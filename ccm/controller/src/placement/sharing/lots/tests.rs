use proptest::prelude::*;

use super::*;

const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 200));
const NAMES: [&str; 12] = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9", "n10", "n11"];

fn weights(of: &[usize]) -> Weights<'static> {
    NAMES.into_iter().zip(of.iter().copied()).filter(|(_, weight)| *weight > 0).collect()
}

fn shared(of: &[usize]) -> Lots<'static> {
    let mut lots = Lots::of_one(ADDRESS, None);
    lots.share(&weights(of));
    lots
}

fn count(lots: &Lots<'_>, node: &str) -> usize {
    lots.all.iter().filter(|lot| lot.server.is_some_and(|server| lots.nodes[server] == node)).count()
}

fn servers<'a>(lots: &Lots<'a>) -> Vec<&'a str> {
    lots.all.iter().map(|lot| lots.nodes[lot.server.expect("served")]).collect()
}

/// The nodes that may have connections of a lot.
fn ring<'a>(lots: &Lots<'a>, number: usize) -> Vec<&'a str> {
    let lot = &lots.all[number];
    let mut ring: Vec<_> = lot.server.into_iter().chain(lot.former.into_iter().flatten()).collect();
    ring.sort_unstable();
    assert!(ring.windows(2).all(|two| two[0] < two[1]), "a node twice: {lot:?}");
    ring.into_iter().map(|node| lots.nodes[node]).collect()
}

#[test]
fn each_node_has_its_exact_share() {
    let rows: [(&[usize], &[usize]); 6] = [
        (&[1], &[120]),
        (&[1, 1], &[60, 60]),
        (&[1, 1, 2], &[30, 30, 60]),
        (&[3, 0, 1], &[90, 0, 30]),
        (&[1, 1000], &[0, 120]),
        (&[100, 100, 1], &[60, 60, 0]),
    ];
    for (of, expected) in rows {
        let lots = shared(of);
        let counts: Vec<usize> = NAMES.iter().zip(of).map(|(node, _)| count(&lots, node)).collect();
        assert_eq!(counts, expected, "{of:?}");
    }
}

#[test]
fn a_node_that_served_alone_keeps_its_share_and_is_the_former_server_of_all_other_lots() {
    let mut lots = Lots::of_one(ADDRESS, Some("n1"));
    lots.share(&weights(&[0, 1, 1, 1]));
    for (number, server) in servers(&lots).into_iter().enumerate() {
        let expected: &[&str] = if server == "n1" { &["n1"] } else { &["n1", server] };
        assert_eq!(ring(&lots, number), expected);
    }
    assert_eq!(count(&lots, "n1"), 40);
}

#[test]
fn nothing_moves_while_no_node_can_serve() {
    let mut lots = shared(&[1, 1]);
    let before = lots.clone();
    lots.share(&weights(&[]));
    assert_eq!(lots, before);
}

#[test]
fn a_fourth_change_drops_the_oldest_former_server() {
    let mut lots = shared(&[1]);
    for node in 1..=4 {
        let mut one = [0; 5];
        one[node] = 1;
        lots.share(&weights(&one));
    }
    for number in 0..LOTS {
        let former = lots.all[number].former.map(|node| node.map(|node| lots.nodes[node]));
        assert_eq!(former, [Some("n3"), Some("n2"), Some("n1")]);
    }
}

#[test]
fn shares_are_uneven_from_a_quarter_on() {
    let lots = shared(&[4, 4, 4]);
    let rows: [(&[usize], bool); 5] = [
        (&[4, 4, 4], false),
        (&[4, 4, 5], false),
        (&[4, 4, 6], false),
        (&[4, 4, 7], true),
        (&[4, 2, 4], true),
    ];
    for (of, expected) in rows {
        assert_eq!(lots.is_uneven(&weights(of)), expected, "{of:?}");
        assert!(!lots.lacks(&weights(of)), "{of:?}");
    }
    assert!(lots.lacks(&weights(&[4, 4])), "a node serves no more");
    assert!(lots.lacks(&weights(&[4, 4, 4, 4])), "a node begins to serve");
    assert!(!shared(&[100, 100, 1]).lacks(&weights(&[100, 100, 1])), "its share is less than half a lot");
}

#[test]
fn the_object_has_at_most_sixty_nodes_and_those_that_serve_come_first() {
    let names: Vec<String> = (0..70).map(|number| format!("node{number}")).collect();
    let of = |range: std::ops::Range<usize>| -> Weights<'_> {
        names[range].iter().map(|name| (name.as_str(), 1)).collect()
    };
    let mut lots = Lots::of_one(ADDRESS, None);
    lots.share(&of(0..50));
    lots.share(&of(40..70));
    let object = lots.write(SharedBy::Connection, |_| Some(ADDRESS)).expect("nodes with addresses");
    assert_eq!(object.nodes.len(), SHARING_NODES);
    let again = Lots::read(ADDRESS, &object).expect("valid");
    assert_eq!(servers(&again), servers(&lots));
    assert_eq!(again.write(SharedBy::Connection, |_| Some(ADDRESS)), Some(object));
}

#[test]
fn a_former_server_without_an_address_is_left_out_and_a_server_without_one_makes_no_object() {
    let mut lots = Lots::of_one(ADDRESS, Some("n9"));
    lots.share(&weights(&[1, 1]));
    let address_of = |without: &'static str| move |node: &str| (node != without).then_some(ADDRESS);
    let object = lots.write(SharedBy::Client, address_of("n9")).expect("servers with addresses");
    assert_eq!((object.nodes.len(), object.former_lots.len()), (2, 0));
    assert_eq!(lots.write(SharedBy::Client, address_of("n0")), None);
}

fn some_weights() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![Just(0), 1..4_usize, 1..30_usize], 12)
        .prop_filter("a node that serves", |of| of.iter().any(|weight| *weight > 0))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))] // 1.5 ms each

    #[test]
    fn shares_are_exact_and_a_change_moves_the_fewest_lots_whatever_came_before(
        history in prop::collection::vec(some_weights(), 1..8),
    ) {
        let mut lots = Lots::of_one(ADDRESS, Some("n3"));
        for of in history {
            let (before, weights) = (lots.clone(), weights(&of));
            lots.share(&weights);
            let total: usize = weights.values().sum();
            let mut fewest = 0;
            for node in NAMES {
                let wanted = weights.get(node).copied().unwrap_or(0) * LOTS;
                let has = count(&lots, node);
                prop_assert!(has == wanted / total || has == wanted.div_ceil(total), "{} has {}", node, has);
                fewest += count(&before, node).saturating_sub(has);
            }
            let moved = servers(&before).iter().zip(servers(&lots)).filter(|(was, is)| **was != *is).count();
            prop_assert_eq!(moved, fewest, "no lot moves between nodes that keep their number");
            for number in 0..LOTS {
                let (was, is) = (ring(&before, number), ring(&lots, number));
                prop_assert!(is.len() <= 1 + FORMER_SERVERS);
                prop_assert!(is.iter().filter(|node| !was.contains(node)).count() <= 1, "{:?} to {:?}", was, is);
            }
            let again = { let mut again = lots.clone(); again.share(&weights); again };
            prop_assert_eq!(&again, &lots, "a second time");
            prop_assert!(!lots.lacks(&weights) && !lots.is_uneven(&weights));
            let object = lots.write(SharedBy::Connection, |_| Some(ADDRESS)).expect("nodes with addresses");
            let read = Lots::read(ADDRESS, &object).expect("valid");
            prop_assert_eq!(read.write(SharedBy::Connection, |_| Some(ADDRESS)), Some(object));
        }
    }

    #[test]
    fn lots_go_home_when_the_weights_are_what_they_were(
        of in prop::sample::select(vec![vec![1, 1, 1], vec![1, 1, 1, 1, 1], vec![2, 1, 1], vec![5, 3, 2], vec![1; 12]]),
        other in some_weights(),
    ) {
        let mut lots = shared(&of);
        let before = servers(&lots);
        lots.share(&weights(&other));
        lots.share(&weights(&of));
        prop_assert_eq!(servers(&lots), before);
    }
}

use super::*;

const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

fn vip(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

#[test]
fn what_another_node_had_before_is_new_once_for_each_takeover() {
    let mut arrivals = Arrivals::default();
    let mut new = |served: &[(u8, u64, HandedOverBy)]| {
        let served = served.iter().map(|(last, takeover, by)| ServedVip {
            vip: vip(*last),
            interface: 1,
            takeover: *takeover,
            by: *by,
        });
        arrivals.follow(served, Time::default());
        let new = arrivals.take_new();
        arrivals.forgotten();
        new.into_iter().collect::<Vec<_>>()
    };
    let (peer, silent) = (HandedOverBy::Peer(PEER), HandedOverBy::SilentPeer(PEER));
    assert_eq!(new(&[(50, 1, HandedOverBy::Nobody), (51, 2, peer), (52, 3, silent)]), [vip(51), vip(52)]);
    assert_eq!(new(&[(50, 1, HandedOverBy::Nobody), (51, 2, peer)]), Vec::<IpAddr>::new(), "they are known");
    assert_eq!(new(&[(51, 2, peer), (52, 4, silent)]), [vip(52)], "it was away");
    assert_eq!(new(&[(51, 5, HandedOverBy::ThisNode), (52, 6, peer)]), [vip(52)]);
}

#[test]
fn an_announcement_waits_until_closed_connections_are_forgotten_but_not_for_long() {
    let at = |ms| Time::default() + Duration::from_millis(ms);
    let by = HandedOverBy::Peer(PEER);
    let served = |last, takeover| ServedVip { vip: vip(last), interface: 1, takeover, by };
    let mut arrivals = Arrivals::default();
    arrivals.follow([served(50, 1)], at(0));
    assert!(arrivals.has_new(at(0)) && arrivals.hold_up([vip(49), vip(50)].into_iter(), at(0)));
    assert!(!arrivals.hold_up([vip(49)].into_iter(), at(0)), "another's");
    assert_eq!(arrivals.take_new(), [vip(50)].into());
    arrivals.follow([served(50, 1), served(51, 2)], at(300));
    assert!(arrivals.hold_up([vip(50)].into_iter(), at(499)), "it is under way");
    assert_eq!(arrivals.due(at(300)), Some(at(500)));
    assert!(!arrivals.hold_up([vip(50)].into_iter(), at(500)), "it took too long");
    assert_eq!(arrivals.due(at(500)), Some(at(800)));
    arrivals.forgotten();
    assert!(
        arrivals.has_new(at(500)) && arrivals.hold_up([vip(51)].into_iter(), at(500)),
        "it came meanwhile"
    );
    assert_eq!(arrivals.take_new(), [vip(51)].into());
    arrivals.forgotten();
    assert!(!arrivals.has_new(at(500)) && !arrivals.hold_up([vip(51)].into_iter(), at(500)));
    assert_eq!(arrivals.due(at(500)), None);
}

#[test]
fn vips_that_join_others_are_gathered_for_a_second_and_hold_nothing_up() {
    let at = |ms| Time::default() + Duration::from_millis(ms);
    let served = |last: u8, takeover| ServedVip {
        vip: vip(last),
        interface: 1,
        takeover,
        by: HandedOverBy::Peer(PEER),
    };
    let mut arrivals = Arrivals::default();
    arrivals.follow([served(50, 1)], at(0));
    arrivals.take_new();
    arrivals.forgotten();
    arrivals.follow([served(50, 1), served(51, 1)], at(100));
    arrivals.follow([served(50, 1), served(51, 1), served(52, 1)], at(900));
    assert!(!arrivals.has_new(at(1099)) && !arrivals.hold_up([vip(51)].into_iter(), at(100)));
    assert_eq!(arrivals.due(at(900)), Some(at(1100)));
    assert!(arrivals.has_new(at(1100)));
    assert_eq!((arrivals.take_new(), arrivals.due(at(1100))), ([vip(51), vip(52)].into(), None));
    arrivals.forgotten();
    // With a takeover they go at once.
    arrivals.follow([served(50, 1), served(51, 1), served(52, 1), served(53, 1), served(60, 2)], at(2000));
    assert!(arrivals.has_new(at(2000)));
    assert_eq!(arrivals.take_new(), [vip(53), vip(60)].into());
    arrivals.forgotten();
    assert!(!arrivals.has_new(at(9000)));
}

#[test]
fn shared_addresses_whose_lots_have_moved_are_new_a_moment_later_and_hold_nothing_up() {
    let at = |ms| Time::default() + Duration::from_millis(ms);
    let moves = |moves: &[(u8, u32)]| moves.iter().map(|(last, moves)| (vip(*last), *moves)).collect();
    let mut arrivals = Arrivals::default();
    arrivals.follow_lots(&moves(&[(50, 0), (51, 1)]), at(0));
    arrivals.follow_lots(&moves(&[(50, 1), (51, 1)]), at(100));
    assert!(!arrivals.has_new(at(199)) && !arrivals.hold_up([vip(50), vip(51)].into_iter(), at(100)));
    assert_eq!(arrivals.due(at(100)), Some(at(200)));
    assert!(arrivals.has_new(at(200)));
    assert_eq!((arrivals.take_new(), arrivals.due(at(200))), ([vip(50), vip(51)].into(), None));
    arrivals.forgotten();
    arrivals.follow_lots(&moves(&[(50, 1), (51, 2)]), at(1000));
    arrivals.follow_lots(&moves(&[(50, 1), (51, 2)]), at(1100));
    assert!(arrivals.has_new(at(1200)), "gathered since the first of them");
    assert_eq!(arrivals.take_new(), [vip(51)].into());
    arrivals.forgotten();
    // It is shared no more, and is again.
    arrivals.follow_lots(&BTreeMap::new(), at(2000));
    arrivals.follow_lots(&moves(&[(51, 2)]), at(3000));
    assert!(!arrivals.has_new(at(2000)) && arrivals.has_new(at(3200)));
}

use super::*;

const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));
const BY_PEER: HandedOverBy = HandedOverBy::Peer(PEER);

fn vip(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

fn served(one: &(u8, u64, HandedOverBy)) -> ServedVip {
    ServedVip { vip: vip(one.0), interface: 1, takeover: one.1, by: one.2 }
}

#[test]
fn what_another_node_had_before_is_new_once_for_each_takeover() {
    let mut arrivals = Arrivals::default();
    let mut new = |now: &[(u8, u64, HandedOverBy)]| {
        arrivals.follow(now.iter().map(served), Time::default());
        let new = arrivals.new_vips();
        arrivals.closed_forgotten(&new);
        new.into_keys().collect::<Vec<IpAddr>>()
    };
    let silent = HandedOverBy::SilentPeer(PEER);
    assert_eq!(new(&[(50, 1, HandedOverBy::Nobody), (51, 2, BY_PEER), (52, 3, silent)]), [vip(51), vip(52)]);
    assert_eq!(
        new(&[(50, 1, HandedOverBy::Nobody), (51, 2, BY_PEER)]),
        Vec::<IpAddr>::new(),
        "they are known"
    );
    assert_eq!(new(&[(51, 2, BY_PEER), (52, 4, silent)]), [vip(52)], "it was away");
    assert_eq!(new(&[(51, 5, HandedOverBy::ThisNode), (52, 6, BY_PEER)]), [vip(52)]);
}

#[test]
fn what_came_again_meanwhile_is_not_forgotten_and_nobody_waits_for_longer_than_the_limit() {
    let mut arrivals = Arrivals::default();
    let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
    let waits = |arrivals: &Arrivals, millis: u64| arrivals.waits([vip(50), vip(51)].into_iter(), at(millis));
    arrivals.follow([served(&(51, 2, BY_PEER))], at(1000));
    let asked = arrivals.new_vips();
    assert!(waits(&arrivals, 1099) && !waits(&arrivals, 1100));
    assert!(!arrivals.waits([vip(50)].into_iter(), at(1000)), "it did not come");
    assert_eq!(arrivals.due(at(1000)), Some(at(1100)));
    assert_eq!(arrivals.due(at(1100)), None);
    arrivals.follow([served(&(51, 3, BY_PEER))], at(1050));
    arrivals.closed_forgotten(&asked);
    assert!(waits(&arrivals, 1100), "for what is known since the first time");
    arrivals.closed_forgotten(&arrivals.new_vips());
    assert!(!waits(&arrivals, 1100) && arrivals.new_vips().is_empty());
}

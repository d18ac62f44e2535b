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
        arrivals.follow(served);
        let new: Vec<IpAddr> = arrivals.new_vips().iter().copied().collect();
        arrivals.closed_forgotten();
        new
    };
    let (peer, silent) = (HandedOverBy::Peer(PEER), HandedOverBy::SilentPeer(PEER));
    assert_eq!(new(&[(50, 1, HandedOverBy::Nobody), (51, 2, peer), (52, 3, silent)]), [vip(51), vip(52)]);
    assert_eq!(new(&[(50, 1, HandedOverBy::Nobody), (51, 2, peer)]), Vec::<IpAddr>::new(), "they are known");
    assert_eq!(new(&[(51, 2, peer), (52, 4, silent)]), [vip(52)], "it was away");
    assert_eq!(new(&[(51, 5, HandedOverBy::ThisNode), (52, 6, peer)]), [vip(52)]);
}

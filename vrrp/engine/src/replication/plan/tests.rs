use windlass_vrrp::auth::KeyId;

use super::*;

fn ip(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

fn router(vips: &[u8], active: bool, peers: &[u8], replicas: &[u8]) -> ReplicatedRouter {
    ReplicatedRouter {
        vips: vips.iter().map(|last| ip(*last)).collect(),
        active,
        source: ip(1),
        interface: 7,
        peers: peers.iter().map(|last| ip(*last)).collect(),
        replicas: Arc::new(replicas.iter().map(|last| ip(*last)).collect()),
        keys: None,
    }
}

fn ips(all: &[u8]) -> BTreeSet<IpAddr> {
    all.iter().map(|last| ip(*last)).collect()
}

#[test]
fn replicas_are_told_what_this_node_serves_and_every_peer_is_believed_of_what_it_may_serve() {
    let routers = [
        router(&[50, 51], true, &[2, 3, 4], &[2, 3]),
        router(&[60], false, &[2, 3], &[3]),
        // Nothing is shared of it.
        router(&[70], true, &[2, 5], &[]),
    ];
    let plan = plan(&routers);
    assert_eq!(plan.followed, ips(&[50, 51]));
    assert_eq!(plan.active, ips(&[50, 51, 70]), "its own all the same");
    let of = |peer| &plan.peers[&Ends { own: ip(1), interface: 7, peer: ip(peer) }];
    assert_eq!(plan.peers.len(), 3);
    for (peer, is_replica, told, believed) in [
        (2, true, &[50, 51][..], &[50, 51, 60][..]),
        (3, true, &[50, 51], &[50, 51, 60]),
        (4, false, &[], &[50, 51]),
    ] {
        let expected = PeerPlan { is_replica, told: ips(told), believed: ips(believed), keys: None };
        assert_eq!(*of(peer), expected, "{peer}");
    }
}

#[test]
fn what_is_signed_in_one_virtual_router_is_signed_to_its_peers() {
    let keyring = Keyring::new(KeyId::new(1).unwrap(), format!("hex:{}", "17".repeat(32)).parse().unwrap());
    let keys = Some((keyring, AuthMode::Enforce));
    let signed = ReplicatedRouter { keys: keys.clone(), ..router(&[51], false, &[2], &[2]) };
    for routers in
        [[router(&[50], true, &[2], &[2]), signed.clone()], [signed, router(&[50], true, &[2], &[2])]]
    {
        let plan = plan(&routers);
        assert!(plan.peers.values().map(|peer| &peer.keys).eq([&keys]));
    }
}

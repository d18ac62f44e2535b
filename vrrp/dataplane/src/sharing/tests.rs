use std::net::IpAddr;
use std::process::Command;

use windlass_kernel::port::Protocol;

use super::*;
use crate::lab::in_namespace;

/// This many addresses whose lots are spread over the first `servers` of ten peers.
fn shares(addresses: u16, servers: u8) -> Shares {
    let mut lots = [0; LOTS];
    lots.iter_mut().zip((0..servers).cycle()).for_each(|(lot, server)| *lot = server);
    let share = Arc::new(Share {
        interface: "lo".to_owned(),
        ports: [80, 443].into(),
        by: SharedBy::Connection,
        servers: (0..10).map(peer).collect(),
        lots,
        former: Vec::new(),
    });
    let vips = (0..addresses).map(|n| IpAddr::from([10, 1, n.to_be_bytes()[0], n.to_be_bytes()[1]]));
    Shares {
        services: vips.map(|vip| ((vip, Protocol::Tcp), Arc::clone(&share))).collect(),
        ..Shares::default()
    }
}

fn peer(n: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, n])
}

fn links(peers: u8) -> BTreeMap<String, SharingLink> {
    let peers = (0..peers).map(|n| (peer(n), [2, 0, 0, 0, 0, n])).collect();
    [("lo".to_owned(), SharingLink { index: 1, peers, ..SharingLink::default() })].into()
}

fn nft(arguments: &str) {
    assert!(Command::new("nft").args(arguments.split(' ')).status().unwrap().success(), "{arguments}");
}

#[test]
fn after_many_changes_the_kernel_has_what_was_written_and_damage_is_repaired() {
    in_namespace(|| {
        let mut sharing = Sharing::install("shared", &shares(60, 2), &links(10)).unwrap();
        for (addresses, servers, peers) in [(60, 3, 10), (60, 10, 4), (0, 2, 10), (80, 7, 10)] {
            sharing.update(&shares(addresses, servers), &links(peers)).unwrap();
            nft("add table inet other");
            assert_eq!(sharing.full_check().unwrap(), Checked::Intact, "{addresses} {servers} {peers}");
        }
        let damages = [
            ("flush ruleset", "it was gone or being changed"),
            ("delete chain netdev shared from-lo", "it was gone or being changed"),
            (
                "delete element netdev shared peers { 02:00:00:00:00:03 }",
                "the elements of a set were changed",
            ),
            ("flush map netdev shared lots4", "the elements of a set were changed"),
        ];
        for (damage, found) in damages {
            nft(damage);
            assert_eq!(sharing.full_check().unwrap(), Checked::Restored { found }, "{damage}");
            assert_eq!(sharing.full_check().unwrap(), Checked::Intact, "{damage}");
        }
        // Noticed by an update first.
        nft("flush ruleset");
        sharing.update(&shares(80, 2), &links(10)).unwrap();
        assert_eq!(sharing.full_check().unwrap(), Checked::Intact);
        sharing.remove().unwrap();
    });
}

#[test]
fn a_trial_of_the_kernel_succeeds_and_leaves_no_table() {
    in_namespace(|| {
        let tables = || Command::new("nft").args(["list", "tables"]).output().unwrap().stdout;
        let before = tables();
        try_sharing("trial").unwrap();
        assert_eq!(tables(), before);
        assert_eq!(Sharing::directed_packets("trial").unwrap(), 0);
    });
}

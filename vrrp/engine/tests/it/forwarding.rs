//! What becomes of a packet to a VIP that nothing takes (RFC 9568 §6.4.3, T24).

use std::net::IpAddr;

use windlass_engine::State;

use crate::lab::{Capture, Lan, VIP, await_some, require_root, router};
use crate::lab6::{VIP6, ask_for, number, router6};

/// What says that nobody has the address: ICMP host unreachable, ICMPv6 address unreachable.
fn is_unreachable(frame: &[u8]) -> Option<()> {
    let at = |range: std::ops::Range<usize>| frame.get(range).unwrap_or_default();
    let v4 = at(12..14) == [0x08, 0x00] && at(23..24) == [1] && at(34..36) == [3, 1];
    let v6 = at(12..14) == [0x86, 0xdd] && at(20..21) == [58] && at(54..56) == [1, 3];
    (v4 || v6).then_some(())
}

// shows: rfc9568 T24
/// Without a guard and without a rule that takes it, the Active's kernel asks the LAN who has the VIP. A Backup that answered
/// would get the packet, and send it back.
#[test]
fn a_packet_to_a_vip_that_nothing_takes_does_not_go_round_between_the_nodes() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(3);
    let client = &lan.hosts[2];
    number(client, 3);
    for (n, host) in lan.hosts[..2].iter().enumerate() {
        number(host, u16::try_from(n + 1).unwrap());
        for (setting, value) in [
            ("ipv4/ip_forward", "1"),
            ("ipv6/conf/all/forwarding", "1"),
            // Nobody answers: three questions, each after this many milliseconds.
            ("ipv4/neigh/eth0/retrans_time_ms", "100"),
            ("ipv6/neigh/eth0/retrans_time_ms", "100"),
            // A redirect, sent first, would use up the limit of ICMP.
            ("ipv4/icmp_ratelimit", "0"),
            ("ipv6/icmp/ratelimit", "0"),
        ] {
            host.run(move || std::fs::write(format!("/proc/sys/net/{setting}"), value).unwrap());
        }
    }
    let nodes = [lan.hosts[0].engine(), lan.hosts[1].engine()];
    for (n, node) in nodes.iter().enumerate() {
        node.engine.apply(vec![router(n, 2), router6(&lan, n, 2)]);
    }
    await_some("one Active for both families", || {
        let states =
            nodes.each_ref().map(|node| node.engine.snapshot().iter().map(|s| s.state).collect::<Vec<_>>());
        (states == [vec![State::Active; 2], vec![State::Backup; 2]]).then_some(())
    });
    for vip in [IpAddr::from(VIP), VIP6.into()] {
        let capture = Capture::on(client);
        ask_for(client, vip);
        capture.await_frame("word that the VIP is unreachable", is_unreachable);
    }
    let replies =
        |node: usize| nodes[node].engine.snapshot().iter().map(|s| s.counters.replies).collect::<Vec<_>>();
    assert!(replies(0).iter().all(|count| *count > 0), "the client was answered: {:?}", replies(0));
    assert_eq!(replies(1), [0, 0], "the Backup answered nobody");
}

//! The peers among themselves: what they say without Windlass, and that the harness tells it.

use crate::interop::claims::{await_answers, await_sole_answer};
use crate::interop::dialect::Dialect;
use crate::interop::router::Router;
use crate::interop::setup::{Implementation, group};
use crate::interop::wire::{Covers, PacketTap};
use crate::interop::{each, pairs, site};

#[test]
fn keepalived_and_frr_replace_each_other_and_say_what_they_are_told() {
    let orders = [
        [Implementation::Keepalived, Implementation::Frr],
        [Implementation::Frr, Implementation::Keepalived],
    ];
    each(pairs(&Dialect::ALL, &orders), |case, (dialect, [first, second])| {
        let lan = site::lan(3);
        let client = &lan.hosts[2];
        let packet_tap = PacketTap::on(client);
        let [active, backup] = group(dialect, [(first, 200), (second, 120)]);
        let mut active = Router::start(&lan, &active);
        let backup = Router::start(&lan, &backup);
        let seen = packet_tap.sole_speaker(case, dialect, active.source);
        assert_eq!((seen.priority, seen.interval_ms, seen.hops), (200, dialect.interval_ms(), 255), "{case}");
        // In IPv6 no link-local address comes first, as erratum 8300 of RFC 9568 wants it.
        assert_eq!(seen.addresses, [dialect.vip()], "{case}");
        // Both read RFC 5798 as asking for a pseudo header in IPv4, too.
        let covers = if dialect.version() == 2 { Covers::Message } else { Covers::MessageAndPseudoHeader };
        assert_eq!(seen.covers, Some(covers), "{case}");
        await_sole_answer(case, client, dialect.vip(), active.answers);

        let goodbye = PacketTap::on(client);
        active.stop();
        goodbye.resignation(case, dialect, active.source);
        goodbye.sole_speaker(case, dialect, backup.source);
        await_sole_answer(case, client, dialect.vip(), backup.answers);
    });
}

/// Neither daemon's addresses have a lifetime: a fault of that host alone, the same with any other router as successor.
#[test]
fn the_host_of_a_killed_peer_answers_on_beside_its_successor() {
    let orders = [
        [Implementation::Keepalived, Implementation::Frr],
        [Implementation::Frr, Implementation::Keepalived],
    ];
    each(pairs(&[Dialect::V3Ipv4, Dialect::V3Ipv6], &orders), |case, (dialect, [first, second])| {
        let lan = site::lan(3);
        let client = &lan.hosts[2];
        let [mut active, backup] =
            group(dialect, [(first, 200), (second, 120)]).map(|s| Router::start(&lan, &s));
        PacketTap::on(client).sole_speaker(case, dialect, active.source);
        active.sigkill();
        PacketTap::on(client).sole_speaker(case, dialect, backup.source);
        await_answers(case, client, dialect.vip(), [active.answers, backup.answers]);
    });
}

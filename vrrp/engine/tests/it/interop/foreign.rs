//! The peers among themselves: what they say without Windlass, and that the harness tells it.

use crate::interop::claims::{await_answers, await_sole_answer};
use crate::interop::dialect::Dialect;
use crate::interop::router::Router;
use crate::interop::setup::{Maker, group};
use crate::interop::wire::{Covers, Wire};
use crate::interop::{each, pairs, site};

#[test]
fn keepalived_and_frr_replace_each_other_and_say_what_they_are_told() {
    let orders = [[Maker::Keepalived, Maker::Frr], [Maker::Frr, Maker::Keepalived]];
    each(pairs(&Dialect::ALL, &orders), |case, (dialect, [first, second])| {
        let lan = site::lan(3);
        let client = &lan.hosts[2];
        let wire = Wire::tap(client);
        let [active, backup] = group(dialect, [(first, 200), (second, 120)]);
        let mut active = Router::start(&lan, &active);
        let backup = Router::start(&lan, &backup);
        let said = wire.sole_speaker(case, dialect, active.source);
        assert_eq!((said.priority, said.interval_ms, said.hops), (200, dialect.interval_ms(), 255), "{case}");
        // In IPv6 no link-local address comes first, as erratum 8300 of RFC 9568 wants it.
        assert_eq!(said.addresses, [dialect.vip()], "{case}");
        // Both read RFC 5798 as asking for a pseudo header in IPv4, too.
        let covers = if dialect.version() == 2 { Covers::Message } else { Covers::MessageAndPseudoHeader };
        assert_eq!(said.covers, Some(covers), "{case}");
        await_sole_answer(case, client, dialect.vip(), active.answers);

        let goodbye = Wire::tap(client);
        active.stop();
        goodbye.resignation(case, dialect, active.source);
        goodbye.sole_speaker(case, dialect, backup.source);
        await_sole_answer(case, client, dialect.vip(), backup.answers);
    });
}

/// Neither daemon's addresses have a lifetime: a fault of that host alone, the same with any other router as successor.
#[test]
fn the_host_of_a_killed_peer_answers_on_beside_its_successor() {
    let orders = [[Maker::Keepalived, Maker::Frr], [Maker::Frr, Maker::Keepalived]];
    each(pairs(&[Dialect::V3Ipv4, Dialect::V3Ipv6], &orders), |case, (dialect, [first, second])| {
        let lan = site::lan(3);
        let client = &lan.hosts[2];
        let [mut active, backup] =
            group(dialect, [(first, 200), (second, 120)]).map(|s| Router::start(&lan, &s));
        Wire::tap(client).sole_speaker(case, dialect, active.source);
        active.sigkill();
        Wire::tap(client).sole_speaker(case, dialect, backup.source);
        await_answers(case, client, dialect.vip(), [active.answers, backup.answers]);
    });
}

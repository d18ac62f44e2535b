//! Routers of one group that are told different things.

use windlass_engine::{Checksum, State};

use crate::interop::dialect::Dialect;
use crate::interop::router::Router;
use crate::interop::setup::{Implementation, group};
use crate::interop::wire::{Covers, PacketTap};
use crate::interop::{each, pairs, site};

// shows: interop I-07
/// RFC 9568 §6.4.2: a Backup waits by the interval of the Active.
#[test]
fn in_version_3_a_backup_waits_by_the_interval_of_the_active() {
    let dialects = [Dialect::V3Ipv4, Dialect::V3Ipv6];
    each(
        pairs(&pairs(&dialects, &Implementation::FOREIGN), &[true, false]),
        |case, ((dialect, implementation), windlass_is_active)| {
            let lan = site::lan(3);
            let client = &lan.hosts[2];
            let implementations = if windlass_is_active {
                (Implementation::Windlass, implementation)
            } else {
                (implementation, Implementation::Windlass)
            };
            let [mut active, mut backup] =
                group(dialect, [(implementations.0, 200), (implementations.1, 120)]);
            // Twice the Backup's own down timer and more.
            (active.interval_ms, backup.interval_ms) = (1000, 100);
            let active = Router::start(&lan, &active);
            PacketTap::on(client).sole_speaker(case, dialect, active.source);
            let backup = Router::start(&lan, &backup);
            // It may not have heard the Active before its own timer fires for the first time.
            let packet_tap = PacketTap::on(client);
            for _ in 0..2 {
                packet_tap.sole_speaker(case, dialect, active.source);
            }
            if !windlass_is_active {
                let status = backup.engine().status();
                assert_eq!((status.state, status.active), (State::Backup, Some(active.source)), "{case}");
                assert!(status.counters.interval_mismatches > 0, "{case}");
            }
        },
    );
}

// shows: interop I-08
/// RFC 3768 §7.1: a version 2 router discards adverts of another interval than its own. Nothing copes but equal intervals.
#[test]
fn in_version_2_routers_of_different_intervals_are_both_active() {
    each(Implementation::FOREIGN, |case, implementation| {
        let dialect = Dialect::V2Ipv4;
        let lan = site::lan(3);
        let [mut own, peer] = group(dialect, [(Implementation::Windlass, 200), (implementation, 120)]);
        own.interval_ms = 2000;
        let [own, peer] = [own, peer].map(|setup| Router::start(&lan, &setup));
        PacketTap::on(&lan.hosts[2]).both_speak(case, dialect, [own.source, peer.source]);
        assert!(own.engine().status().counters.interval_refused > 0, "{case}");
    });
}

// shows: interop I-09
/// Windlass reads both forms. keepalived does, too; FRR understands its own alone.
#[test]
fn frr_is_a_second_active_unless_checksums_have_a_pseudo_header() {
    each(Implementation::FOREIGN, |case, implementation| {
        let dialect = Dialect::V3Ipv4;
        let lan = site::lan(3);
        let client = &lan.hosts[2];
        let [own, peer] = group(dialect, [(Implementation::Windlass, 200), (implementation, 120)]);
        let mut of_rfc9568 = own.clone();
        of_rfc9568.checksum = Checksum::Rfc9568;
        let peer = Router::start(&lan, &peer);
        let seen = PacketTap::on(client).sole_speaker(case, dialect, peer.source);
        assert_eq!(seen.covers, Some(Covers::MessageAndPseudoHeader), "{case}");
        {
            let own = Router::start(&lan, &of_rfc9568);
            let packet_tap = PacketTap::on(client);
            match implementation {
                Implementation::Frr => packet_tap.both_speak(case, dialect, [own.source, peer.source]),
                Implementation::Keepalived | Implementation::Windlass => {
                    let seen = packet_tap.sole_speaker(case, dialect, own.source);
                    assert_eq!(seen.covers, Some(Covers::Message), "{case}");
                }
            }
            assert!(own.engine().status().counters.rfc5798_checksums > 0, "{case}");
        }
        let own = Router::start(&lan, &own);
        let seen = PacketTap::on(client).sole_speaker(case, dialect, own.source);
        assert_eq!(seen.covers, Some(Covers::MessageAndPseudoHeader), "{case}");
    });
}

// shows: field-reports F-28; interop I-10
/// R12: the list informs and decides nothing.
#[test]
fn another_list_of_addresses_keeps_no_backup_from_following() {
    let orders = [true, false];
    each(
        pairs(&pairs(&Dialect::ALL, &Implementation::FOREIGN), &orders),
        |case, ((dialect, implementation), windlass_is_active)| {
            let lan = site::lan(3);
            let client = &lan.hosts[2];
            let implementations = if windlass_is_active {
                (Implementation::Windlass, implementation)
            } else {
                (implementation, Implementation::Windlass)
            };
            let group = group(dialect, [(implementations.0, 200), (implementations.1, 120)]);
            let [active, _backup] = group.map(|mut setup| {
                setup.second_vip = true;
                // A keepalived that was not run for three intervals finds Windlass Active and never speaks again: each advert
                // with another list makes it wait for one more interval.
                setup.interval_ms = 1000;
                Router::start(&lan, &setup)
            });
            let seen = PacketTap::on(client).sole_speaker(case, dialect, active.source);
            assert_eq!(seen.addresses.len(), if windlass_is_active { 2 } else { 1 }, "{case}");
        },
    );
}

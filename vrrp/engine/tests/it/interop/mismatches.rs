//! Routers of one group that are told different things.

use windlass_engine::{Checksum, State};

use crate::interop::dialect::Dialect;
use crate::interop::router::Router;
use crate::interop::setup::{Maker, group};
use crate::interop::wire::{Covers, Wire};
use crate::interop::{each, pairs, site};

/// RFC 9568 §6.4.2: a Backup waits by the interval of the Active.
#[test]
fn in_version_3_a_backup_waits_by_the_interval_of_the_active() {
    let dialects = [Dialect::V3Ipv4, Dialect::V3Ipv6];
    each(
        pairs(&pairs(&dialects, &Maker::FOREIGN), &[true, false]),
        |case, ((dialect, maker), windlass_is_active)| {
            let lan = site::lan(3);
            let client = &lan.hosts[2];
            let makers = if windlass_is_active { (Maker::Windlass, maker) } else { (maker, Maker::Windlass) };
            let [mut active, mut backup] = group(dialect, [(makers.0, 200), (makers.1, 120)]);
            // Twice the Backup's own down timer and more.
            (active.interval_ms, backup.interval_ms) = (1000, 100);
            let active = Router::start(&lan, &active);
            Wire::tap(client).sole_speaker(case, dialect, active.source);
            let backup = Router::start(&lan, &backup);
            // It may not have heard the Active before its own timer fires for the first time.
            let wire = Wire::tap(client);
            for _ in 0..2 {
                wire.sole_speaker(case, dialect, active.source);
            }
            if !windlass_is_active {
                let status = backup.engine().status();
                assert_eq!((status.state, status.active), (State::Backup, Some(active.source)), "{case}");
                assert!(status.counters.interval_mismatches > 0, "{case}");
            }
        },
    );
}

/// RFC 3768 §7.1: a version 2 router discards adverts of another interval than its own. Nothing copes but equal intervals.
#[test]
fn in_version_2_routers_of_different_intervals_are_both_active() {
    each(Maker::FOREIGN, |case, maker| {
        let dialect = Dialect::V2Ipv4;
        let lan = site::lan(3);
        let [mut own, peer] = group(dialect, [(Maker::Windlass, 200), (maker, 120)]);
        own.interval_ms = 2000;
        let [own, peer] = [own, peer].map(|setup| Router::start(&lan, &setup));
        Wire::tap(&lan.hosts[2]).both_speak(case, dialect, [own.source, peer.source]);
        assert!(own.engine().status().counters.interval_refused > 0, "{case}");
    });
}

/// Windlass reads both forms. keepalived does, too; FRR understands its own alone.
#[test]
fn frr_is_a_second_active_unless_checksums_have_a_pseudo_header() {
    each(Maker::FOREIGN, |case, maker| {
        let dialect = Dialect::V3Ipv4;
        let lan = site::lan(3);
        let client = &lan.hosts[2];
        let [own, peer] = group(dialect, [(Maker::Windlass, 200), (maker, 120)]);
        let mut of_rfc9568 = own.clone();
        of_rfc9568.checksum = Checksum::Rfc9568;
        let peer = Router::start(&lan, &peer);
        let said = Wire::tap(client).sole_speaker(case, dialect, peer.source);
        assert_eq!(said.covers, Some(Covers::MessageAndPseudoHeader), "{case}");
        {
            let own = Router::start(&lan, &of_rfc9568);
            let wire = Wire::tap(client);
            match maker {
                Maker::Frr => wire.both_speak(case, dialect, [own.source, peer.source]),
                Maker::Keepalived | Maker::Windlass => {
                    let said = wire.sole_speaker(case, dialect, own.source);
                    assert_eq!(said.covers, Some(Covers::Message), "{case}");
                }
            }
            assert!(own.engine().status().counters.rfc5798_checksums > 0, "{case}");
        }
        let own = Router::start(&lan, &own);
        let said = Wire::tap(client).sole_speaker(case, dialect, own.source);
        assert_eq!(said.covers, Some(Covers::MessageAndPseudoHeader), "{case}");
    });
}

/// R12: the list informs and decides nothing.
#[test]
fn another_list_of_addresses_keeps_no_backup_from_following() {
    let orders = [true, false];
    each(
        pairs(&pairs(&Dialect::ALL, &Maker::FOREIGN), &orders),
        |case, ((dialect, maker), windlass_is_active)| {
            let lan = site::lan(3);
            let client = &lan.hosts[2];
            let makers = if windlass_is_active { (Maker::Windlass, maker) } else { (maker, Maker::Windlass) };
            let group = group(dialect, [(makers.0, 200), (makers.1, 120)]);
            let [active, _backup] = group.map(|mut setup| {
                setup.second_vip = true;
                // A keepalived that was not run for three intervals finds Windlass Active and never speaks again: each advert
                // with another list makes it wait for one more interval.
                setup.interval_ms = 1000;
                Router::start(&lan, &setup)
            });
            let said = Wire::tap(client).sole_speaker(case, dialect, active.source);
            assert_eq!(said.addresses.len(), if windlass_is_active { 2 } else { 1 }, "{case}");
        },
    );
}

//! Windlass and one peer: who is Active, and who replaces it.

use windlass_engine::{State, TransitionReason};

use crate::interop::claims::{await_answers, await_sole_answer};
use crate::interop::dialect::Dialect;
use crate::interop::router::Router;
use crate::interop::setup::{Implementation, group};
use crate::interop::wire::PacketTap;
use crate::interop::{each, pairs, site};

// shows: interop I-01 to I-04, I-06
#[test]
fn windlass_of_higher_priority_is_active_and_hands_over_to_the_peer() {
    each(pairs(&Dialect::ALL, &Implementation::FOREIGN), |case, (dialect, implementation)| {
        let lan = site::lan(3);
        let client = &lan.hosts[2];
        let packet_tap = PacketTap::on(client);
        let [own, peer] = group(dialect, [(Implementation::Windlass, 200), (implementation, 120)]);
        let peer = Router::start(&lan, &peer);
        let mut own = Router::start(&lan, &own);
        let seen = packet_tap.sole_speaker(case, dialect, own.source);
        assert_eq!((seen.priority, seen.interval_ms, seen.hops), (200, dialect.interval_ms(), 255), "{case}");
        await_sole_answer(case, client, dialect.vip(), own.answers);

        let goodbye = PacketTap::on(client);
        own.stop();
        goodbye.resignation(case, dialect, own.source);
        goodbye.sole_speaker(case, dialect, peer.source);
        await_sole_answer(case, client, dialect.vip(), peer.answers);
    });
}

// shows: interop I-01 to I-04, I-06
#[test]
fn a_peer_of_higher_priority_is_active_and_windlass_replaces_it_when_it_resigns_or_dies() {
    each(pairs(&Dialect::ALL, &Implementation::FOREIGN), |case, (dialect, implementation)| {
        let lan = site::lan(3);
        let client = &lan.hosts[2];
        let [peer_setup, own] = group(dialect, [(implementation, 200), (Implementation::Windlass, 120)]);
        let own = Router::start(&lan, &own);
        let mut peer = Router::start(&lan, &peer_setup);
        PacketTap::on(client).sole_speaker(case, dialect, peer.source);
        own.engine().await_status("Backup", |status| {
            status.state == State::Backup && status.active == Some(peer.source)
        });
        await_sole_answer(case, client, dialect.vip(), peer.answers);

        let active = own.engine().status().counters.became_active;
        let goodbye = PacketTap::on(client);
        peer.stop();
        goodbye.resignation(case, dialect, peer.source);
        goodbye.sole_speaker(case, dialect, own.source);
        assert_eq!(own.engine().status().counters.resignations_received, 1, "{case}");
        assert_eq!(own.engine().status().counters.became_active, active + 1, "{case}");
        await_sole_answer(case, client, dialect.vip(), own.answers);

        drop(peer);
        let mut peer = Router::start(&lan, &peer_setup);
        PacketTap::on(client).sole_speaker(case, dialect, peer.source);
        own.engine().await_status("Backup", |status| status.state == State::Backup);
        peer.sigkill();
        PacketTap::on(client).sole_speaker(case, dialect, own.source);
        assert_eq!(own.engine().status().counters.resignations_received, 1, "{case}: it died silently");
        // The dead peer's kernel answers on: Windlass announces the VIP, but cannot silence it.
        await_answers(case, client, dialect.vip(), [peer.answers, own.answers]);
    });
}

// shows: interop I-04
#[test]
fn of_equal_priorities_the_higher_address_is_active_after_a_parting() {
    let orders = [true, false];
    each(
        pairs(&pairs(&Dialect::ALL, &Implementation::FOREIGN), &orders),
        |case, ((dialect, implementation), windlass_is_higher)| {
            let lan = site::lan(3);
            let seats = if windlass_is_higher {
                [(implementation, 150), (Implementation::Windlass, 150)]
            } else {
                [(Implementation::Windlass, 150), (implementation, 150)]
            };
            (0..2).for_each(|host| lan.part(host, true));
            let [lower, higher] = group(dialect, seats).map(|setup| Router::start(&lan, &setup));
            PacketTap::on(&lan.hosts[2]).both_speak(case, dialect, [lower.source, higher.source]);
            (0..2).for_each(|host| lan.part(host, false));
            PacketTap::on(&lan.hosts[2]).sole_speaker(case, dialect, higher.source);
            await_sole_answer(case, &lan.hosts[2], dialect.vip(), higher.answers);
            let own = if windlass_is_higher { &higher } else { &lower };
            let state = if windlass_is_higher { State::Active } else { State::Backup };
            own.engine().await_status("end of the election", |status| status.state == state);
            if !windlass_is_higher {
                own.engine().await_event("loss", |event| match event {
                    windlass_engine::Event::StateChanged {
                        reason: TransitionReason::SuperiorActive { source, .. },
                        ..
                    } => {
                        assert_eq!(*source, higher.source, "{case}");
                        Some(())
                    }
                    _ => None,
                });
            }
        },
    );
}

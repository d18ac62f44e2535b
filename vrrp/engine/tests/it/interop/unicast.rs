//! Adverts to each peer by itself. Only keepalived can.

use crate::interop::claims::await_sole_answer;
use crate::interop::dialect::Dialect;
use crate::interop::router::Router;
use crate::interop::setup::{AdvertDelivery, Implementation, group};
use crate::interop::wire::PacketTap;
use crate::interop::{each, pairs, site};

// shows: field-reports F-30; interop I-11
#[test]
fn windlass_and_keepalived_elect_and_replace_each_other_by_unicast() {
    let orders = [
        [Implementation::Windlass, Implementation::Keepalived],
        [Implementation::Keepalived, Implementation::Windlass],
    ];
    each(pairs(&Dialect::ALL, &orders), |case, (dialect, [first, second])| {
        let lan = site::lan(3);
        let client = &lan.hosts[2];
        // What is said to a peer does not reach a third host: listen at the Backup's.
        let backups = &lan.hosts[1];
        let group = group(dialect, [(first, 200), (second, 120)]);
        let [mut active, backup] = group.map(|mut setup| {
            setup.delivery = AdvertDelivery::Unicast { keepalived_ttl: Some(255), accept_ttl: 255 };
            Router::start(&lan, &setup)
        });
        let seen = PacketTap::on(backups).sole_speaker(case, dialect, active.source);
        assert_eq!((seen.destination, seen.hops), (backup.source, 255), "{case}");
        await_sole_answer(case, client, dialect.vip(), active.answers);

        let goodbye = PacketTap::on(backups);
        active.stop();
        goodbye.resignation(case, dialect, active.source);
        let seen = goodbye.sole_speaker(case, dialect, backup.source);
        assert_eq!(seen.destination, active.source, "{case}");
        await_sole_answer(case, client, dialect.vip(), backup.answers);
    });
}

#[test]
fn keepalived_sends_ipv6_unicast_with_a_hop_limit_that_windlass_has_to_be_told() {
    each([255, 64], |case, accept_ttl| {
        let dialect = Dialect::V3Ipv6;
        let lan = site::lan(2);
        let group = group(dialect, [(Implementation::Keepalived, 200), (Implementation::Windlass, 120)]);
        let [active, backup] = group.map(|mut setup| {
            setup.delivery = AdvertDelivery::Unicast { keepalived_ttl: None, accept_ttl };
            Router::start(&lan, &setup)
        });
        let packet_tap = PacketTap::on(&lan.hosts[1]);
        if accept_ttl == 255 {
            packet_tap.both_speak(case, dialect, [active.source, backup.source]);
        } else {
            assert_eq!(packet_tap.sole_speaker(case, dialect, active.source).hops, 64, "{case}");
        }
    });
}

//! The virtual router's MAC address, which moves from router to router.

use crate::interop::claims::await_sole_answer;
use crate::interop::dialect::Dialect;
use crate::interop::router::Router;
use crate::interop::setup::{Implementation, group};
use crate::interop::wire::PacketTap;
use crate::interop::{each, pairs, site};

// shows: interop I-12
#[test]
fn the_virtual_mac_address_moves_between_windlass_and_the_peer() {
    let orders = [true, false];
    each(
        pairs(&pairs(&Dialect::ALL, &Implementation::FOREIGN), &orders),
        |case, ((dialect, implementation), windlass_is_first)| {
            let lan = site::lan(3);
            let client = &lan.hosts[2];
            let implementations = if windlass_is_first {
                (Implementation::Windlass, implementation)
            } else {
                (implementation, Implementation::Windlass)
            };
            let group = group(dialect, [(implementations.0, 200), (implementations.1, 120)]);
            let [mut active, backup] = group.map(|mut setup| {
                setup.virtual_mac = true;
                Router::start(&lan, &setup)
            });
            for router in [&active, &backup] {
                assert_eq!(router.answers, dialect.virtual_mac(), "{case}");
            }
            let seen = PacketTap::on(client).sole_speaker(case, dialect, active.source);
            assert_eq!(seen.mac, dialect.virtual_mac(), "{case}");
            await_sole_answer(case, client, dialect.vip(), dialect.virtual_mac());
            active.stop();
            let seen = PacketTap::on(client).sole_speaker(case, dialect, backup.source);
            assert_eq!(seen.mac, dialect.virtual_mac(), "{case}");
            await_sole_answer(case, client, dialect.vip(), dialect.virtual_mac());
        },
    );
}

// shows: interop I-12
#[test]
fn of_one_router_of_each_maker_the_best_that_lives_has_the_virtual_mac_address() {
    each(
        pairs(&[Dialect::V3Ipv4, Dialect::V3Ipv6], &Implementation::ORDERS),
        |case, (dialect, [first, second, third])| {
            let lan = site::lan(4);
            let client = &lan.hosts[3];
            let setups = group(dialect, [(first, 200), (second, 150), (third, 100)]);
            let routers = setups.map(|mut setup| {
                setup.virtual_mac = true;
                Router::start(&lan, &setup)
            });
            let await_active = |what: &str, router: &Router| {
                let case = format!("{case}, {what}");
                let seen = PacketTap::on(client).sole_speaker(&case, dialect, router.source);
                assert_eq!(seen.mac, dialect.virtual_mac(), "{case}");
                await_sole_answer(&case, client, dialect.vip(), dialect.virtual_mac());
            };
            await_active("all alive", &routers[0]);
            lan.pull_cable(0);
            await_active("the Active died", &routers[1]);
            lan.pull_cable(1);
            await_active("the second died", &routers[2]);
            lan.plug_cable(1);
            await_active("the second is back", &routers[1]);
            lan.plug_cable(0);
            await_active("all are back", &routers[0]);
        },
    );
}

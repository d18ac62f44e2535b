//! One router of each maker in one group.

use crate::interop::claims::await_sole_answer;
use crate::interop::dialect::Dialect;
use crate::interop::router::Router;
use crate::interop::setup::{Implementation, group};
use crate::interop::wire::PacketTap;
use crate::interop::{each, pairs, site};

// shows: field-reports F-30; interop I-13
#[test]
fn of_one_router_of_each_maker_the_best_that_lives_is_active() {
    each(pairs(&Dialect::ALL, &Implementation::ORDERS), |case, (dialect, [first, second, third])| {
        let lan = site::lan(4);
        let client = &lan.hosts[3];
        let setups = group(dialect, [(first, 200), (second, 150), (third, 100)]);
        let routers = setups.map(|setup| Router::start(&lan, &setup));
        let await_active = |what: &str, router: &Router| {
            let case = format!("{case}, {what}");
            PacketTap::on(client).sole_speaker(&case, dialect, router.source);
            await_sole_answer(&case, client, dialect.vip(), router.answers);
        };
        await_active("all alive", &routers[0]);
        lan.pull_cable(2);
        await_active("a Backup died", &routers[0]);
        lan.plug_cable(2);
        await_active("the Backup is back", &routers[0]);
        lan.pull_cable(0);
        await_active("the Active died", &routers[1]);
        lan.pull_cable(1);
        await_active("the second died", &routers[2]);
        lan.plug_cable(1);
        await_active("the second is back", &routers[1]);
        lan.plug_cable(0);
        await_active("all are back", &routers[0]);
    });
}

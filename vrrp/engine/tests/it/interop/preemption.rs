//! Whether a router of higher priority takes over from one that is Active.

use crate::interop::dialect::Dialect;
use crate::interop::router::Router;
use crate::interop::setup::{Implementation, group};
use crate::interop::wire::PacketTap;
use crate::interop::{each, pairs, site};

// shows: interop I-05
#[test]
fn a_higher_priority_takes_over_if_it_may_preempt_and_else_waits() {
    let newcomers = pairs(&[false, true], &[true, false]);
    each(
        pairs(&pairs(&Dialect::ALL, &Implementation::FOREIGN), &newcomers),
        |case, ((dialect, implementation), (windlass_comes, preempt))| {
            let lan = site::lan(3);
            let client = &lan.hosts[2];
            let (old, new) = if windlass_comes {
                (implementation, Implementation::Windlass)
            } else {
                (Implementation::Windlass, implementation)
            };
            let [old, mut new] = group(dialect, [(old, 120), (new, 200)]);
            new.preempt = preempt;
            let old = Router::start(&lan, &old);
            PacketTap::on(client).sole_speaker(case, dialect, old.source);
            let new = Router::start(&lan, &new);
            if preempt {
                PacketTap::on(client).sole_speaker(case, dialect, new.source);
                return;
            }
            // Longer than any down timer: three intervals, and one more.
            let packet_tap = PacketTap::on(client);
            for _ in 0..2 {
                packet_tap.sole_speaker(case, dialect, old.source);
            }
            drop(old);
            packet_tap.sole_speaker(case, dialect, new.source);
        },
    );
}

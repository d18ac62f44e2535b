//! Whether a router of higher priority takes over from one that is Active.

use crate::interop::dialect::Dialect;
use crate::interop::router::Router;
use crate::interop::setup::{Maker, group};
use crate::interop::wire::Wire;
use crate::interop::{each, pairs, site};

#[test]
fn a_higher_priority_takes_over_if_it_may_preempt_and_else_waits() {
    let newcomers = pairs(&[false, true], &[true, false]);
    each(
        pairs(&pairs(&Dialect::ALL, &Maker::FOREIGN), &newcomers),
        |case, ((dialect, maker), (windlass_comes, preempt))| {
            let lan = site::lan(3);
            let client = &lan.hosts[2];
            let (old, new) = if windlass_comes { (maker, Maker::Windlass) } else { (Maker::Windlass, maker) };
            let [old, mut new] = group(dialect, [(old, 120), (new, 200)]);
            new.preempt = preempt;
            let old = Router::start(&lan, &old);
            Wire::tap(client).sole_speaker(case, dialect, old.source);
            let new = Router::start(&lan, &new);
            if preempt {
                Wire::tap(client).sole_speaker(case, dialect, new.source);
                return;
            }
            // Longer than any down timer: three intervals, and one more.
            let wire = Wire::tap(client);
            for _ in 0..2 {
                wire.sole_speaker(case, dialect, old.source);
            }
            drop(old);
            wire.sole_speaker(case, dialect, new.source);
        },
    );
}

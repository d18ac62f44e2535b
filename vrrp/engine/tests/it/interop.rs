//! keepalived and FRR as peers of Windlass. What happens is read on the wire by a host that takes no part.

mod claims;
mod dialect;
mod elections;
mod foreign;
mod frr;
mod keepalived;
mod mismatches;
mod preemption;
pub(crate) mod process;
mod router;
mod semaphore;
mod setup;
pub(crate) mod site;
mod trios;
mod unicast;
mod virtual_mac;
mod windlass;
mod wire;

use std::fmt::Debug;

use crate::lab::require_root;
use semaphore::Semaphore;

/// Whether the test can run here: as root, with the peers installed. A skipped test says so, and fails where CI=true.
fn require_peers() -> bool {
    if !require_root() {
        return false;
    }
    let missing: Vec<_> =
        [keepalived::PROGRAM, frr::VRRPD].into_iter().filter(|program| !process::there(program)).collect();
    if missing.is_empty() {
        return true;
    }
    assert!(
        std::env::var("CI").is_err(),
        "{missing:?} missing; CI=true, so this test must not be skipped: run e2e/tools/packages"
    );
    eprintln!("skipped: {missing:?} missing (run e2e/tools/packages)");
    false
}

/// Most LANs at a time, of all tests: with many more, the peers' daemons get in each other's way.
static FREE_LANS: Semaphore = Semaphore::new(16);

/// Runs the cases beside each other, each on a LAN of its own, and names those that failed.
fn each<C: Debug + Send>(cases: impl IntoIterator<Item = C>, run: impl Fn(&str, C) + Sync) {
    if !require_peers() {
        return;
    }
    let failed: Vec<String> = std::thread::scope(|scope| {
        let run = &run;
        let running: Vec<_> = cases
            .into_iter()
            .map(|case| {
                let name = format!("{case:?}");
                let thread = name.clone();
                (
                    name,
                    scope.spawn(move || {
                        let _place = FREE_LANS.take();
                        run(&thread, case);
                    }),
                )
            })
            .collect();
        running.into_iter().filter_map(|(name, case)| case.join().is_err().then_some(name)).collect()
    });
    assert!(failed.is_empty(), "failed: {failed:#?}");
}

/// Every combination of two lists.
fn pairs<A: Copy, B: Copy>(first: &[A], second: &[B]) -> Vec<(A, B)> {
    first.iter().flat_map(|&a| second.iter().map(move |&b| (a, b))).collect()
}

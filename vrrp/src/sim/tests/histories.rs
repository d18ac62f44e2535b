//! Thousands of random histories. `WINDLASS_SIM_SEED=4711` plays that one alone, `WINDLASS_SIM_CASES=100000` plays more, and both
//! together play so many from that one on.

use crate::sim::history::{History, report};

/// How many a plain test run plays.
const CASES: u64 = 4000;

/// Seeds beyond these that found something.
const FOUND: [u64; 1] = [
    // The checks blamed a node that was frozen right after it had been suspended.
    4_711_158_445,
];

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().unwrap())
}

// shows: rfc9568 B12
/// Looked at after every step of every history: see [`crate::sim::invariants`].
#[test]
fn the_invariants_hold_through_random_histories() {
    let (first, cases) = (number("WINDLASS_SIM_SEED"), number("WINDLASS_SIM_CASES"));
    let cases = cases.unwrap_or(if first.is_some() { 1 } else { CASES });
    let first = first.unwrap_or(0);
    let seeds = first..first.checked_add(cases).unwrap();
    println!("seeds {seeds:?} and {FOUND:?}");
    for seed in seeds.chain(FOUND) {
        let history = History::random(seed);
        assert!(history.play().violation().is_none(), "{}", report(&history));
    }
}

#[test]
fn a_history_plays_the_same_each_time() {
    for seed in 0..20 {
        let history = History::random(seed);
        assert_eq!(history, History::random(seed));
        assert_eq!(history.play().trace(), history.play().trace(), "seed {seed}");
    }
}

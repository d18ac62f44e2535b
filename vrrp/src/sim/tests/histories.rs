//! Thousands of random histories. `WINDLASS_SIM_SEED=4711` plays that one alone, `WINDLASS_SIM_CASES=100000` plays more.

use crate::sim::history::{History, report};

/// How many a plain test run plays.
const CASES: u64 = 4000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().unwrap())
}

/// Looked at after every step of every history: see [`crate::sim::watch`].
#[test]
fn the_invariants_hold_through_random_histories() {
    let seeds = match number("WINDLASS_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("WINDLASS_SIM_CASES").unwrap_or(CASES),
    };
    println!("seeds {seeds:?}");
    for seed in seeds {
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

//! Everything that breaks and is edited, at once. `make soak` does the same for longer.

use windlass_e2e::soak::{self, Row};

/// Seed of every run. More of them, for longer: `make soak`.
const SEED: u64 = 202;
/// Time of its storms and calms, in seconds, at least.
const SECONDS: u64 = 20;
/// The same for the seed that nobody tried before: a random test with fixed seeds is a recording.
const SECONDS_OF_NEW: u64 = 40;

#[test]
fn with_everything_failing_at_once_no_address_changes_and_all_is_in_order_at_each_calm() -> anyhow::Result<()>
{
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let (known, new) = match number("WINDLASS_SEED") {
        Some(seed) => (vec![], seed),
        None => (vec![SEED], soak::new_seed()?),
    };
    let known = known.into_iter().map(|seed| (seed, SECONDS));
    for (seed, seconds) in known.chain([(new, SECONDS_OF_NEW)]) {
        let seconds = number("WINDLASS_CHAOS_SECONDS").unwrap_or(seconds);
        println!("chaos: WINDLASS_SEED={seed} WINDLASS_CHAOS_SECONDS={seconds}");
        let mut row = Row { seed, seconds, ..Row::default() };
        windlass_e2e::scenario("chaos", soak::lab(seconds), async |lab| soak::soak(lab, &mut row).await)?;
        println!("chaos: {row:?}");
    }
    Ok(())
}

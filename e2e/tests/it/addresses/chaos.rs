//! Everything that breaks and is edited, at once. `make soak` does the same for longer.

use windlass_e2e::soak::{self, Row};

/// Seeds of every run. One that nobody tried is for `make soak`, and comes on top here once long soaks have passed.
const SEEDS: [u64; 3] = [101, 202, 303];
/// How long the storms and calms of each last, at least.
const SECONDS: u64 = 20;

#[test]
fn with_everything_failing_at_once_no_address_changes_and_all_is_in_order_at_each_calm() -> anyhow::Result<()>
{
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seconds = number("WINDLASS_CHAOS_SECONDS").unwrap_or(SECONDS);
    let seeds = number("WINDLASS_SEED").map_or_else(|| SEEDS.to_vec(), |seed| vec![seed]);
    for seed in seeds {
        println!("chaos: WINDLASS_SEED={seed} WINDLASS_CHAOS_SECONDS={seconds}");
        let mut row = Row { seed, seconds, ..Row::default() };
        windlass_e2e::scenario("chaos", soak::lab(seconds), async |lab| soak::soak(lab, &mut row).await)?;
        println!("chaos: {row:?}");
    }
    Ok(())
}

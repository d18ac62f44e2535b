//! Faults that overlap, as a client of the LAN sees them. `make chaos` does the same for longer, and each fault alone.

use windlass_e2e::{
    chaos::{self, StormRow},
    scenario,
    soak::new_seed,
};

/// Seeds of every run.
const SEEDS: [u64; 2] = [404, 505];
/// How long the storms and calms of each last, in seconds, at least.
const SECONDS: u64 = 15;
/// The same for the seed that nobody tried before: a random test with fixed seeds is a recording.
const SECONDS_OF_NEW: u64 = 60;

#[test]
fn whatever_faults_overlap_one_node_answers_for_each_address_and_all_services_answer_at_each_calm()
-> anyhow::Result<()> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let (known, new) = match number("WINDLASS_SEED") {
        Some(seed) => (vec![], seed),
        None => (SEEDS.to_vec(), new_seed()?),
    };
    let known = known.into_iter().map(|seed| (seed, SECONDS));
    for (seed, seconds) in known.chain([(new, SECONDS_OF_NEW)]) {
        let seconds = number("WINDLASS_CHAOS_SECONDS").unwrap_or(seconds);
        println!("chaos: WINDLASS_SEED={seed} WINDLASS_CHAOS_SECONDS={seconds}");
        let mut row = StormRow { seed, seconds, ..StormRow::default() };
        scenario("faults-overlap", chaos::lab(seconds), async |lab| chaos::storms(lab, &mut row).await)?;
        println!("chaos: {row:?}");
    }
    Ok(())
}

//! Faults that overlap, as a client of the LAN sees them, and a few that cost it nothing. `make chaos` does the same for longer, and
//! each fault alone.

use windlass_e2e::{
    chaos::{self, Kind, Scene},
    scenario,
    soak::new_seed,
};

/// Seed of every run. More of them, for longer: `make chaos`.
const SEED: u64 = 505;
/// Time of its storms and calms, in seconds, at least.
const SECONDS: u64 = 20;
/// The same for the seed that nobody tried before: a random test with fixed seeds is a recording.
const SECONDS_OF_NEW: u64 = 40;

// shows: field-reports F-16
#[test]
fn whatever_faults_overlap_one_node_answers_for_each_address_and_all_services_answer_at_each_calm()
-> anyhow::Result<()> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seconds = |seconds| number("WINDLASS_CHAOS_SECONDS").unwrap_or(seconds);
    let named = number("WINDLASS_SEED");
    let known = if named.is_none() { vec![SEED] } else { vec![] };
    let new = named.map_or_else(new_seed, Ok)?;
    let runs: Vec<(u64, u64)> = known
        .into_iter()
        .map(|seed| (seed, seconds(SECONDS)))
        .chain([(new, seconds(SECONDS_OF_NEW))])
        .collect();
    let limit = runs.iter().map(|(_, seconds)| seconds).sum();
    scenario("faults", chaos::lab(limit), async |lab| {
        let scene = Scene::set(lab).await?;
        if named.is_none() {
            chaos::alone(&scene, &Kind::HARMLESS, |row| println!("chaos: {row:?}")).await?;
        }
        for (seed, seconds) in runs {
            println!("chaos: WINDLASS_SEED={seed} WINDLASS_CHAOS_SECONDS={seconds}");
            chaos::storms(&scene, seed, seconds, |row| println!("chaos: {row:?}")).await?;
        }
        Ok(())
    })
}

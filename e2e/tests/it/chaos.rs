//! Faults that overlap, as a client of the LAN sees them. `make chaos` does the same for longer, and each fault alone.

use std::{net::IpAddr, time::Duration};

use anyhow::ensure;
use windlass_e2e::{
    Keepalived, await_that,
    chaos::{self, StormRow},
    scenario,
    soak::new_seed,
};

use crate::setup::{LIMIT, lab, other, router_of, served};

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

/// The node that was away knows the old virtual router only, on which it hears nobody.
#[test]
#[ignore = "both nodes answer until the API server tells the one that was away"]
fn a_node_that_was_cut_off_while_the_vrid_changed_makes_no_second_owner_without_the_api_server()
-> anyhow::Result<()> {
    scenario("vrid-cut-off", lab().client("c2"), async |lab| {
        let vip = served(lab).await?;
        let IpAddr::V4(v4) = vip else { anyhow::bail!("{vip} is no IPv4 address") };
        let owner = lab.await_owner("c1", vip).await?;
        let vrid = router_of(lab, vip).await?.spec.vrid;
        let away = lab.node(other(&owner))?;
        away.pull_cable()?;
        let address = "192.0.2.190".parse()?;
        lab.start_keepalived("c2", Keepalived { vrid, priority: 255, interval_ms: 100, address })?;
        await_that(&format!("{vip} leaves VRID {vrid}"), LIMIT, async || {
            let now = router_of(lab, vip).await?;
            let active = now.status.and_then(|status| status.active_node);
            ensure!(
                now.spec.vrid != vrid && active.is_some(),
                "it is on {}, {active:?} is Active",
                now.spec.vrid
            );
            Ok(Some(()))
        })
        .await?;
        lab.stop_keepalived("c2").await?;
        // Nobody can tell it. (With the API server it takes less than a second.)
        lab.stop_api_server().await?;
        let answering = lab.answering("c1", &[v4])?;
        away.plug_cable()?;
        // What is looked at, not what is waited for.
        tokio::time::sleep(Duration::from_secs(10)).await;
        let seen = answering.stop()?;
        let longest = seen.longest_doubled();
        ensure!(longest < Duration::from_secs(1), "two nodes answered for {} ms", longest.as_millis());
        Ok(())
    })
}

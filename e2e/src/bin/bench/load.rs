//! `make bench-load`: thousands of clients that think and ask, and three nodes that are taken down one by one and brought back: by
//! their cable, by the death of the host, by a drain.
//!
//! n1, n2 and n3 share six addresses, of which each has two while all is well; the only backend is on n4, which stays, so that
//! what a phase costs is what the moves of addresses cost. With load sharing, n1, n2 and n3 have a backend each, which dies with its
//! node. The systems have a lab each, one after the other: the same hosts, priorities as alike as can be, the same clients who think
//! for the same times.

mod keepalived;
mod phases;
mod report;
mod run;
mod windlass;

use std::time::Duration;

use clap::ValueEnum as _;
use windlass_e2e::{CrowdOptions, Lab, soak::new_seed};

use crate::{results::publish, settings, system::System};

/// The nodes that share the addresses.
const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// The node of the backend, without load sharing.
const BACKEND: &str = "n4";
/// Services, all before the same backend; the first has its name. Two for each node.
const SERVICES: [&str; 6] = ["web", "web2", "web3", "web4", "web5", "web6"];
/// Limit of the wait for a change: a check that failed counts for a minute, and a server that was silent often has its lots again five
/// minutes after its return at the latest.
const LIMIT: Duration = Duration::from_mins(6);
/// Clients.
const CLIENTS: usize = 10_000;
/// Pauses of a client between an answer and its next question: 7 s on average, which makes 1,430 requests a second of 10,000 clients. See
/// docs/dev/benchmarks.md for what a machine of two cores takes.
const THOUGHT: [Duration; 2] = [Duration::from_secs(4), Duration::from_secs(10)];

/// Runs the benchmark.
pub(crate) fn bench() -> anyhow::Result<()> {
    let clients = settings::number("CLIENTS", CLIENTS, &(1..=50_000))?;
    let seed = match settings::number("SEED", 0, &(0..=u64::MAX))? {
        0 => new_seed()?,
        seed => seed,
    };
    let [least_thought, most_thought] = THOUGHT;
    let options = CrowdOptions { clients, least_thought, most_thought, seed };
    println!("bench: {clients} clients, SEED={seed}");
    let mut rows = Vec::new();
    for system in settings::some_of("SYSTEMS", System::value_variants())? {
        println!("bench: starting the lab of {}", system.name());
        let lab = run::HOSTS.iter().fold(Lab::builder().nodes(4), |lab, host| lab.client(host));
        let name = format!("bench-load-{}", system.name());
        let lab = lab.light().interactive();
        rows.extend(Lab::run(&name, lab, async |lab| run::run(lab, system, options).await)?);
    }
    let [system, phase] = ["system", "phase"];
    let title = format!("  {system:10} {phase:12} requests failed broken  p50 ms   p99 ms   max ms");
    publish("load", &title, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_name_the_systems_by_the_names_in_their_rows() {
        let names: Vec<_> = System::value_variants().iter().map(|system| system.name()).collect();
        assert_eq!(names, ["windlass", "forward", "sharing", "keepalived"]);
        assert_eq!(settings::keys::<System>(), names);
    }
}

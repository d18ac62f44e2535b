//! `make bench-load`: thousands of clients that think and ask, and three nodes that are taken down one by one and brought back: by
//! their cable, by the death of the host, by a drain.
//!
//! n1, n2 and n3 share six addresses, of which each has two while all is well; the only backend is on n4, which stays, so that
//! what a phase costs is what the moves of addresses cost. Windlass and keepalived have a lab each, one after the other: the same
//! hosts, priorities as alike as can be, the same clients who think for the same times.

mod keepalived;
mod phases;
mod report;
mod run;
mod system;
mod windlass;

use std::time::Duration;

use windlass_e2e::{CrowdOptions, Lab, command, soak::new_seed};

use self::{run::run, system::System};

/// Clients.
const CLIENTS: usize = 10_000;
/// What they think, in seconds: 7 on average, which makes 1,430 requests a second of 10,000 clients. See docs/dev/benchmarks.md for
/// what a machine of two cores takes.
const THOUGHT: [Duration; 2] = [Duration::from_secs(4), Duration::from_secs(10)];

/// Runs the benchmark.
pub(crate) fn bench() -> anyhow::Result<()> {
    let clients = command::number("CLIENTS", CLIENTS, 1, 50_000)?;
    let seed = match command::number("SEED", 0, 0, usize::MAX)? {
        0 => new_seed()?,
        seed => seed as u64,
    };
    let [least_thought, most_thought] = THOUGHT;
    let options = CrowdOptions { clients, least_thought, most_thought, seed };
    println!("bench: {clients} clients, SEED={seed}");
    let mut rows = Vec::new();
    for system in System::wanted()? {
        println!("bench: starting the lab of {}", system.name());
        let lab = run::CLIENTS.iter().fold(Lab::builder().nodes(4), |lab, client| lab.client(client));
        let name = format!("bench-load-{}", system.name());
        rows.extend(Lab::run(&name, lab.light().interactive(), async |lab| run(lab, system, options).await)?);
    }
    report::write(&rows)
}

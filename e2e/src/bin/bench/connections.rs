//! `make bench-connections`: which established connections outlive the node that has their address, and how long they stall.
//!
//! n1 has the addresses and n2 takes them over; backends are on both, on n3, and on n3's own network. Before each fault connections
//! are opened to each backend, half of them busy and half idle. When all are older than a second the fault comes; two seconds after
//! the address has moved each is asked once more. A connection is kept if it was answered to the end without being opened again.
//!
//! Systems that leave each other alone run beside each other, with an address each, so that the same fault befalls them: Windlass with
//! and without replication; keepalived with conntrackd, with and without the source address that Windlass gives. keepalived without
//! conntrackd has a lab of its own.

mod fault;
mod keepalived;
mod place;
mod report;
mod scene;
mod setup;
mod started;
mod windlass;

use std::time::Duration;

use clap::ValueEnum as _;
use windlass_e2e::{KeptOptions, Lab, ProxyMode};

use self::{
    fault::{Backend, Fault},
    place::Family,
    scene::Plan,
    setup::{Setup, Site},
};
use crate::{results::publish, settings, system::CLIENT};

/// Connections of each system, to all backends together.
const CONNECTIONS: usize = 200;
const ROUNDS: usize = 2;
/// Interval between the requests of a busy one: with two systems at once 1,000 requests a second, which a machine of two cores answers.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs the benchmark.
pub(crate) fn bench() -> anyhow::Result<()> {
    let connections = settings::number("CONNECTIONS", CONNECTIONS, &(8..=10_000))?;
    let rounds = settings::number("ROUNDS", ROUNDS, &(1..=1000))?;
    let setups = settings::some_of("SYSTEMS", Setup::value_variants())?;
    let faults = settings::some_of("FAULTS", Fault::value_variants())?;
    let families = settings::some_of("FAMILIES", &[Family::V4])?;
    let modes = settings::some_of("MODES", &[ProxyMode::Nftables])?;
    let kept = KeptOptions { connections: connections / Backend::ALL.len(), pause: PAUSE };
    let mut rows = Vec::new();
    for mode in modes {
        for family in families.iter().copied() {
            for site in Site::ALL {
                let setups: Vec<Setup> =
                    setups.iter().copied().filter(|setup| setup.site() == site).collect();
                if setups.is_empty() {
                    continue;
                }
                let plan = Plan { site, setups, faults: faults.clone(), family, rounds, kept };
                println!("bench: starting the lab of {}", site.name());
                let name = format!("bench-connections-{}", site.name());
                let lab = Lab::builder().nodes(3).client(CLIENT).proxy_mode(mode).light().interactive();
                let samples = Lab::run(&name, lab, async |lab| scene::run(lab, &plan).await)?;
                rows.extend(report::rows(&samples, family, mode.as_str()));
            }
        }
    }
    let [system, fault, backend] = ["system", "fault", "backend"];
    let title =
        format!("  {system:35} {fault:12} {backend:12} connections  kept    median       max    outage");
    publish("connections", &title, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_name_setups_faults_and_families_by_these_keys() {
        let setups = settings::keys::<Setup>().join(" ");
        assert_eq!(setups, "windlass forward keepalived conntrackd conntrackd-vip");
        assert_eq!(settings::keys::<Fault>(), ["cable", "frozen", "drain", "killed", "back"]);
        assert_eq!(settings::keys::<Family>(), ["v4", "v6"]);
        assert_eq!(serde_json::to_string(&Family::V6).unwrap(), "\"v6\"");
    }
}

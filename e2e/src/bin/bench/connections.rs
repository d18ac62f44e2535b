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
mod report;
mod scene;
mod system;
mod windlass;

use std::time::Duration;

use windlass_e2e::{KeptOptions, Lab, ProxyMode, command};

use self::{
    fault::{Backend, Family, Fault},
    scene::Plan,
    system::{Site, System},
};

/// Connections of each system, to all backends together.
const CONNECTIONS: usize = 200;
const ROUNDS: usize = 2;
/// How often a busy one asks: with two systems at once 1,000 requests a second, which a machine of two cores answers.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs the benchmark.
pub(crate) fn bench() -> anyhow::Result<()> {
    let connections = command::number("CONNECTIONS", CONNECTIONS, 8, 10_000)?;
    let rounds = command::number("ROUNDS", ROUNDS, 1, 1000)?;
    let systems = command::wanted("SYSTEMS", &System::ALL, &System::ALL, System::key)?;
    let faults = command::wanted("FAULTS", &Fault::ALL, &Fault::ALL, Fault::key)?;
    let families = command::wanted("FAMILIES", &Family::ALL, &[Family::V4], Family::key)?;
    let all_modes = [ProxyMode::Nftables, ProxyMode::Iptables];
    let modes = command::wanted("MODES", &all_modes, &[ProxyMode::Nftables], ProxyMode::as_str)?;
    let kept = KeptOptions { connections: connections / Backend::ALL.len(), pause: PAUSE };
    let mut rows = Vec::new();
    for mode in modes {
        for family in families.iter().copied() {
            for site in Site::ALL {
                let systems: Vec<System> =
                    systems.iter().copied().filter(|system| system.site() == site).collect();
                if systems.is_empty() {
                    continue;
                }
                let plan = Plan { site, systems, faults: faults.clone(), family, rounds, kept };
                println!("bench: starting the lab of {}", site.name());
                let name = format!("bench-connections-{}", site.name());
                let lab = Site::lab().proxy_mode(mode);
                let samples = Lab::run(&name, lab, async |lab| scene::run(lab, &plan).await)?;
                rows.extend(report::rows(&samples, family, mode.as_str()));
            }
        }
    }
    report::write(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_names_some_of_all_and_nothing_else() {
        let faults = |text| command::named(text, &Fault::ALL, Fault::key);
        assert_eq!(faults(" drain cable ").unwrap(), [Fault::Cable, Fault::Drain]);
        let error = faults("cable fire").unwrap_err().to_string();
        assert_eq!(error, "fire is none of cable, frozen, drain, killed, back");
    }
}

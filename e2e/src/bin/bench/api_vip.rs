//! `make bench-api-vip`: how long the API server of a cluster is not answered at its VIP when something happens to one of the nodes of
//! its control plane, by `windlass vip` and by keepalived with the usual script.
//!
//! Three nodes, each with a member of etcd and an API server. A client asks `/readyz` at the VIP each 10 ms, each time on a new connection,
//! and another one watches an object that is written ten times a second. What happens befalls the node that has the VIP; when all is in
//! order again it is the next one's turn. The node does not lead etcd but where the fault says so: until etcd has another leader no API
//! server is ready, wherever the VIP is.

mod fault;
mod report;
mod scene;
mod system;

use anyhow::Context as _;
use windlass_e2e::{Lab, command};

use self::{fault::Fault, system::System};

const ROUNDS: usize = 5;
const NODES: usize = 3;

/// Runs the benchmark.
pub(crate) fn bench() -> anyhow::Result<()> {
    let rounds = command::number("ROUNDS", ROUNDS, 1, 1000)?;
    let nodes = u8::try_from(command::number("NODES", NODES, 2, 5)?)?;
    let systems = command::wanted("SYSTEMS", &System::ALL, &System::ALL, System::key)?;
    let faults = command::wanted("FAULTS", &Fault::ALL, &Fault::ALL, Fault::key)?;
    println!("bench: starting the lab");
    let lab = Lab::builder().control_plane_nodes(nodes).client("c1").client("c2").light().interactive();
    let samples = Lab::run("bench-api-vip", lab, async |lab| {
        let mut samples = Vec::new();
        for system in systems {
            scene::run(lab, system, &faults, rounds, &mut samples)
                .await
                .with_context(|| system.name().to_owned())?;
        }
        Ok(samples)
    })?;
    report::write(&report::rows(&samples, nodes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_names_some_of_all_and_nothing_else() {
        let faults = |text| command::named(text, &Fault::ALL, Fault::key);
        assert_eq!(faults(" hangs cable ").unwrap(), [Fault::Cable, Fault::ApiHangs]);
        let error = faults("cable fire").unwrap_err().to_string();
        assert!(error.starts_with("fire is none of cable, leader-cable, "), "{error}");
    }
}

//! `make bench-api-vip`: how long the API server of a cluster is not answered at its VIP when something happens to one of the nodes of
//! its control plane, by `windlass vip` and by keepalived with the usual script.
//!
//! Three nodes, each with a member of etcd and an API server. A client asks `/readyz` at the VIP each 10 ms, each time on a new connection,
//! and another one watches an object that is written ten times a second. What happens befalls the node that has the VIP; when all is in
//! order again it is the next one's turn. The node does not lead etcd but where the fault says so: until etcd has another leader no API
//! server is ready, wherever the VIP is.

mod fault;
mod holder;
mod report;
mod scene;

use anyhow::Context as _;
use clap::ValueEnum as _;
use windlass_e2e::Lab;

pub(crate) use self::scene::observe;
use self::{fault::Fault, holder::Holder};
use crate::{results::publish, settings};

const ROUNDS: usize = 5;
const NODES: u8 = 3;

/// Runs the benchmark.
pub(crate) fn bench() -> anyhow::Result<()> {
    let rounds = settings::number("ROUNDS", ROUNDS, &(1..=1000))?;
    let nodes = settings::number("NODES", NODES, &(2..=5))?;
    let holders = settings::some_of("SYSTEMS", Holder::value_variants())?;
    let faults = settings::some_of("FAULTS", Fault::value_variants())?;
    println!("bench: starting the lab");
    let lab = Lab::builder().control_plane_nodes(nodes).client("c1").client("c2").light().interactive();
    let samples = Lab::run("bench-api-vip", lab, async |lab| {
        let mut samples = Vec::new();
        for holder in holders {
            scene::run(lab, holder, &faults, rounds, &mut samples)
                .await
                .with_context(|| holder.name().to_owned())?;
        }
        Ok(samples)
    })?;
    let [system, fault] = ["system", "fault"];
    let title = format!(
        "  {system:18} {fault:23} rounds outage: min    median       max   failed requests    watch broken"
    );
    publish("api-vip", &title, &report::rows(&samples, nodes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_name_holders_and_faults_by_these_keys() {
        assert_eq!(settings::keys::<Holder>(), ["windlass", "balanced", "ipv6", "keepalived"]);
        let faults = settings::keys::<Fault>().join(" ");
        assert_eq!(faults, "cable leader-cable killed frozen api-killed hangs etcd-killed restart upgrade");
    }
}

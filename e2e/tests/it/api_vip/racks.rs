//! API servers in two racks, behind routers that know their VIP by BGP. The client uses nothing but the VIP.

use anyhow::ensure;
use windlass_e2e::{ApiConnections, Detection, Lab, Signal, await_that, scenario};

use super::API_SERVER;
use crate::setup::LIMIT;

const NODES: [&str; 3] = ["cp1", "cp2", "cp3"];
/// Number of answers that a client has had when all is well.
const ANSWERS: u64 = 50;

#[test]
fn the_vip_of_api_servers_in_two_racks_answers_whatever_befalls_a_node_a_rack_a_server_or_a_router()
-> anyhow::Result<()> {
    let builder = Lab::builder().control_plane_nodes(3).racks().client("c1").light();
    scenario("api-vip-racks", builder, async |lab| {
        for node in NODES {
            lab.start_api_bgp(node, Detection::Bfd(300))?;
        }
        lab.await_racks().await?;
        lab.await_bfd().await?;
        lab.lead_etcd("cp2").await?;

        // A node dies, then a rack, and no router sees a link go down: BFD finds it, long before the hold time has passed.
        lab.node("cp1")?.pull_cable()?;
        lab.await_avoided("cp1").await?;
        await_answers(lab, "node dead").await?;
        lab.node("cp1")?.plug_cable()?;
        lab.await_racks().await?;
        lab.await_bfd().await?;
        lab.cut_rack("leaf2", true)?;
        lab.await_avoided("leaf2").await?;
        await_answers(lab, "rack cut off").await?;
        lab.cut_rack("leaf2", false)?;
        lab.await_racks().await?;

        for node in NODES {
            restart(lab, node).await?;
        }
        hang_all(lab).await?;
        lab.restart_bgp("leaf1").await?;
        await_answers(lab, "router restarted").await?;
        lab.await_racks().await
    })
}

/// Restarts the `windlass vip` of a node in order: it serves until its router sends nothing to it. Connections under way may be reset,
/// because the router's hash leads them elsewhere.
async fn restart(lab: &Lab, node: &str) -> anyhow::Result<()> {
    let client = lab.api_probe("c1", lab.api_vip(), ApiConnections::New)?;
    client.await_answers(ANSWERS).await?;
    lab.stop_vip(node, Signal::SIGTERM).await?;
    lab.await_avoided(node).await?;
    lab.start_vip_again(node)?;
    lab.await_racks().await?;
    client.await_answers(ANSWERS).await?;
    let seen = client.stop()?;
    println!("{}: {node} restarted: {} requests, {:?}", lab.name(), seen.requests, seen.errors);
    // A rack that is left without a node sends packets back to the router before it until that one knows.
    let is_refused =
        |error: &String| ["refused", "route", "unreachable"].iter().any(|word| error.contains(word));
    ensure!(node == "cp3" || !seen.errors.keys().any(is_refused), "{node} restarted: {seen:?}");
    Ok(())
}

/// One API server after the other hangs: routers use the others while there are any, then all, so that the first that answers again is
/// reached.
async fn hang_all(lab: &Lab) -> anyhow::Result<()> {
    for node in ["cp1", "cp2"] {
        lab.signal_process(node, API_SERVER, Signal::SIGSTOP)?;
        lab.await_avoided(node).await?;
        await_answers(lab, &format!("API server of {node} hangs")).await?;
    }
    lab.signal_process("cp3", API_SERVER, Signal::SIGSTOP)?;
    for (leaf, nodes) in [("leaf1", &["cp1", "cp2"] as &[&str]), ("leaf2", &["cp3"])] {
        await_that(&format!("{leaf} uses degraded routes of {nodes:?}"), LIMIT, async || {
            let used = lab.vip_next_hops(leaf).await?;
            ensure!(used.iter().eq(nodes), "it uses {used:?}");
            Ok(lab.vip_paths(leaf).await?.iter().any(|path| path.length > 5).then_some(()))
        })
        .await?;
    }
    for node in NODES {
        lab.signal_process(node, API_SERVER, Signal::SIGCONT)?;
    }
    lab.await_racks().await
}

/// A client gets answers at the VIP, each on a connection of its own.
async fn await_answers(lab: &Lab, fault: &str) -> anyhow::Result<()> {
    let client = lab.api_probe("c1", lab.api_vip(), ApiConnections::New)?;
    client.await_answers(ANSWERS).await?;
    let seen = client.stop()?;
    println!("{}: {fault}: {} requests, {:?}", lab.name(), seen.requests, seen.errors);
    Ok(())
}

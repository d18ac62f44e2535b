//! A node whose link comes and goes takes addresses back at once, and then later and later.

use std::net::IpAddr;

use anyhow::ensure;
use serde_json::json;
use windlass_e2e::{Answering, Lab, await_that, scenario};

use crate::setup::{LIMIT, settled_owner};

/// So many questions are answered in six seconds: a node that need not wait preempts within half a one, and what is lost within five
/// is lost once.
const QUESTIONS: u64 = 600;

// shows: field-reports F-45; placement P-03
#[test]
fn a_node_whose_link_flaps_takes_addresses_back_at_once_and_then_only_when_it_has_been_back_for_a_while()
-> anyhow::Result<()> {
    let builder = Lab::builder().nodes(2).client("c1").light().without_proxy();
    scenario("flapping", builder, async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        // Without kube-proxy, a node would wait until it is sure that there are no connections to wait for.
        lab.announcement("forward", json!({"connections": "Forward"})).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
        lab.load_balancer("web", |_| ()).await?;
        let vip = lab.ingress("web", LIMIT).await?;
        let owner = settled_owner(lab, vip).await?;
        let (answering, node) = (lab.answering("c1", &[vip])?, lab.node(&owner)?);
        for is_first in [true, false] {
            await_served_by(&answering, vip, &owner).await?;
            node.pull_cable()?;
            let other = lab.await_owner_other_than("c1", vip, &owner).await?;
            node.plug_cable()?;
            if !is_first {
                await_served_by(&answering, vip, &other).await?;
            }
            lab.await_owner_other_than("c1", vip, &other).await?;
        }
        let seen = answering.stop()?;
        ensure!(seen.moves.get(&vip) == Some(&4), "{vip} moved {:?} times", seen.moves.get(&vip));
        Ok(())
    })
}

/// Waits until a node alone has answered for six seconds.
async fn await_served_by(answering: &Answering, vip: IpAddr, node: &str) -> anyhow::Result<()> {
    await_that(&format!("{node} answers for six seconds"), LIMIT, async || {
        let owners = answering.seen()?.owners;
        let owner = owners.get(&vip);
        ensure!(owner.is_some_and(|owner| owner.node == node && owner.answered >= QUESTIONS), "{owner:?}");
        Ok(Some(()))
    })
    .await
}

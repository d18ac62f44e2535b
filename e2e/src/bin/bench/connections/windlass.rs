//! Windlass' side: two addresses of the same agents, one with `connections: Replicate`, one with the default.

use std::{net::IpAddr, time::Duration};

use anyhow::ensure;
use kube::ResourceExt as _;
use serde_json::json;
use windlass_api::{ANNOTATION_SHARING_KEY, CONDITION_CONNECTIONS_REPLICATED, connections_replicated};
use windlass_e2e::{Lab, await_that};

use crate::connections::{
    fault::{FIRST, Family, Fault, Place, SECOND},
    scene::{offer, start_servers_again},
    system::System,
};

const LIMIT: Duration = Duration::from_mins(2);
/// Label of the Services of a system.
const LABEL: &str = "bench.example/system";

/// Announcements, which prefer the first node, and a Service for each place and system.
pub(crate) async fn start(
    lab: &Lab,
    family: Family,
    systems: &[System],
) -> anyhow::Result<Vec<(System, IpAddr)>> {
    lab.deploy_windlass(&[FIRST, SECOND]).await?;
    let range = format!("{}-{}", family.address(200)?, family.address(209)?);
    lab.pool("default", &[&range]).await?;
    let mut addresses = Vec::new();
    for &system in systems {
        let key = system.key();
        let mut announcement = json!({
            "serviceSelectors": [{"matchLabels": {LABEL: key}}],
            "preferredNodes": [
                {"weight": 100, "selector": {"matchLabels": {"kubernetes.io/hostname": FIRST}}},
            ],
        });
        if system == System::Windlass {
            announcement["connections"] = json!("Replicate");
        }
        lab.announcement(key, announcement).await?;
        for place in Place::ALL {
            let name = format!("{key}-{}", place.backend());
            lab.same_backend(&name, place.backend())?;
            lab.load_balancer(&name, |service| {
                offer(service, family, place);
                service.labels_mut().insert(LABEL.into(), key.into());
                service.annotations_mut().insert(ANNOTATION_SHARING_KEY.into(), key.into());
            })
            .await?;
            let address = lab.ingress(&name, LIMIT).await?;
            if place == Place::ALL[0] {
                addresses.push((system, address));
            }
            ensure!(addresses.last() == Some(&(system, address)), "{name} has {address}: {addresses:?}");
        }
    }
    Ok(addresses)
}

/// Waits until the address whose connections are replicated says that `node` has them.
pub(crate) async fn await_replicated(
    lab: &Lab,
    addresses: &[(System, IpAddr)],
    node: &str,
) -> anyhow::Result<()> {
    for (system, vip) in addresses.iter().filter(|(system, _)| *system == System::Windlass) {
        await_that(&format!("{node} has the connections of {system:?}"), LIMIT, async || {
            let status = lab.virtual_ip(*vip).await?.and_then(|vip| vip.status).unwrap_or_default();
            let is_told = status.conditions.iter().any(|one| {
                one.type_ == CONDITION_CONNECTIONS_REPLICATED
                    && one.reason == connections_replicated::REPLICATED
                    && one.message.contains(node)
            });
            ensure!(is_told, "the conditions of {vip} are {:?}", status.conditions);
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}

pub(crate) async fn inflict(lab: &Lab, fault: Fault) -> anyhow::Result<()> {
    let node = lab.node(FIRST)?;
    match fault {
        Fault::Cable => node.pull_cable(),
        Fault::Frozen => node.freeze_agent(),
        Fault::Drain => node.exclude(true).await,
        Fault::Killed => node.kill_all().await,
        Fault::Back => {
            node.power_on().await?;
            start_servers_again(lab)?;
            lab.start_agent(FIRST)
        }
    }
}

pub(crate) async fn undo(lab: &Lab, fault: Fault) -> anyhow::Result<()> {
    let node = lab.node(FIRST)?;
    match fault {
        Fault::Cable => node.plug_cable(),
        Fault::Frozen => node.thaw_agent(),
        Fault::Drain => node.exclude(false).await,
        // It stays off until it comes back; and what came back has come back.
        Fault::Killed => node.pull_cable(),
        Fault::Back => Ok(()),
    }
}

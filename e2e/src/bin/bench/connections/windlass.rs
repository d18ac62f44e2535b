//! Windlass' side: two addresses of the same agents, one with the default, one with `connections: Forward`.

use std::net::IpAddr;

use anyhow::ensure;
use kube::ResourceExt as _;
use serde_json::json;
use windlass_api::{ANNOTATION_SHARING_KEY, CONDITION_CONNECTIONS_REPLICATED, connections_replicated};
use windlass_e2e::{Lab, await_that};

use super::{
    place::{FIRST, Family, LIMIT, Place, SECOND, offer},
    setup::Setup,
};
use crate::settings;

/// Label of the Services of a setup.
const LABEL: &str = "bench.example/system";

/// Announcements, which prefer the first node, and a Service for each place and setup.
pub(crate) async fn start(
    lab: &Lab,
    family: Family,
    setups: &[Setup],
) -> anyhow::Result<Vec<(Setup, IpAddr)>> {
    lab.deploy_windlass(&[FIRST, SECOND]).await?;
    let range = format!("{}-{}", family.address(200)?, family.address(209)?);
    lab.pool("default", &[&range]).await?;
    let mut addresses = Vec::new();
    for &setup in setups {
        let key = settings::key(&setup);
        let mut announcement = json!({
            "serviceSelectors": [{"matchLabels": {LABEL: &key}}],
            "preferredNodes": [
                {"weight": 100, "selector": {"matchLabels": {"kubernetes.io/hostname": FIRST}}},
            ],
        });
        if setup != Setup::Windlass {
            announcement["connections"] = json!("Forward");
        }
        lab.announcement(&key, announcement).await?;
        for place in Place::ALL {
            let name = format!("{key}-{}", place.backend());
            lab.same_backend(&name, place.backend())?;
            lab.load_balancer(&name, |service| {
                offer(service, family, place);
                service.labels_mut().insert(LABEL.into(), key.clone());
                service.annotations_mut().insert(ANNOTATION_SHARING_KEY.into(), key.clone());
            })
            .await?;
            let address = lab.ingress(&name, LIMIT).await?;
            if place == Place::ALL[0] {
                addresses.push((setup, address));
            }
            ensure!(addresses.last() == Some(&(setup, address)), "{name} has {address}: {addresses:?}");
        }
    }
    Ok(addresses)
}

/// Waits until the address whose connections are replicated says that `node` has them.
pub(crate) async fn await_replicated(
    lab: &Lab,
    addresses: &[(Setup, IpAddr)],
    node: &str,
) -> anyhow::Result<()> {
    for (setup, vip) in addresses.iter().filter(|(setup, _)| *setup == Setup::Windlass) {
        await_that(&format!("{node} has the connections of {setup:?}"), LIMIT, async || {
            let condition = lab.condition(*vip, CONDITION_CONNECTIONS_REPLICATED).await?;
            let is_told = condition.as_ref().is_some_and(|one| {
                one.reason == connections_replicated::REPLICATED && one.message.contains(node)
            });
            ensure!(is_told, "{vip} has {condition:?}");
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}

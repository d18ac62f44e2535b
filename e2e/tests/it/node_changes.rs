//! What changes of nodes cost the API server: what really changes, and nothing for each Service.

use std::{collections::BTreeMap, net::IpAddr};

use anyhow::ensure;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use windlass_api::VirtualIP;
use windlass_e2e::{Bystander, Lab, Writes, await_that, scenario};

use crate::setup::LIMIT;

const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
const NODES: u16 = 30;
const SERVICES: usize = 40;

#[test]
fn changes_of_nodes_write_nothing_to_services_and_move_only_what_a_node_announces() -> anyhow::Result<()> {
    let builder = Lab::builder().nodes(2).light().without_proxy();
    scenario("node-changes", builder, async |lab| {
        let lab = &*lab;
        let client = lab.client();
        lab.deploy_windlass(&["n1", "n2"]).await?;
        let bystanders =
            (0..NODES).map(|number| Bystander::new(&client, number)).collect::<Result<Vec<_>, _>>()?;
        for (number, node) in bystanders.iter().enumerate() {
            node.join(number > 0).await?;
            node.report(&[]).await?;
        }
        lab.pool("p", &["192.0.2.200-192.0.2.250"]).await?;
        try_join_all((0..SERVICES).map(|number| async move {
            let name = format!("s{number}");
            lab.load_balancer(&name, |_| ()).await?;
            lab.ingress(&name, LIMIT).await
        }))
        .await?;

        let before = Writes::settled(&client).await?;
        let told = events(lab).await?;
        bystanders[0].become_known().await?;
        bystanders[1].label("rack", "7").await?;
        bystanders[2].label(EXCLUDE, "").await?;
        bystanders[3].report(&[200]).await?;
        let newcomer = Bystander::new(&client, NODES)?;
        newcomer.join(true).await?;
        newcomer.report(&[]).await?;
        bystanders[4].leave().await?;
        for minute in 1..=3 {
            try_join_all(bystanders[5..].iter().map(|node| node.heartbeat(minute))).await?;
        }
        let after = Writes::settled(&client).await?;
        let ours = [
            ("PATCH nodes", 3),
            ("POST nodes", 1),
            ("DELETE nodes", 1),
            ("APPLY nodenetworks", 2),
            ("PATCH nodes/status", 3 * 25),
        ];
        let ours: BTreeMap<String, u64> = ours.map(|(what, count)| (what.to_owned(), count)).into();
        ensure!(after.since(&before) == ours, "beside {ours:?} was written {:?}", after.since(&before));
        ensure!(events(lab).await? == told, "Services were told of nodes");

        // Whoever announces addresses: its own move, and each virtual router changes once. Of each address the new node is written, and
        // shortly after whether connections are replicated.
        let held = announced_by(lab, "n1").await?;
        ensure!(!held.is_empty() && held.len() < SERVICES, "n1 announces {held:?}");
        let nodes: Api<Node> = Api::all(client.clone());
        let exclude = json!({"metadata": {"labels": {EXCLUDE: ""}}});
        nodes.patch("n1", &PatchParams::default(), &Patch::Merge(exclude)).await?;
        await_that("n2 announces everything", LIMIT, async || {
            let moved = announced_by(lab, "n2").await?.len();
            ensure!(moved == SERVICES, "it announces {moved}");
            Ok(Some(()))
        })
        .await?;
        let excluded = Writes::settled(&client).await?;
        let most = [
            ("PATCH nodes", 1),
            // Two nodes have six, and each is first in three.
            ("PATCH virtualrouters", 6),
            ("PATCH virtualrouters/status", 3),
            // n1 may hear of its new place before n2 does: n2 then reports on a list that is no longer in force, and once more.
            ("PATCH virtualrouters/status 409", 3),
            ("PATCH virtualips/status", 2 * u64::try_from(held.len())?),
            // Each Service is told which node announces its address now.
            ("POST events", u64::try_from(held.len())?),
        ];
        for (what, count) in excluded.since(&after) {
            let limit = most.iter().find(|(known, _)| *known == what).map_or(0, |(_, limit)| *limit);
            ensure!(count <= limit, "{count} times {what}, {limit} at most, as n1 announced {}", held.len());
        }
        let more = events(lab).await?.len() - told.len();
        ensure!(more == held.len(), "{more} events on Services, of which n1 announced {}", held.len());
        Ok(())
    })
}

/// What a node announces, as the agents say.
async fn announced_by(lab: &Lab, node: &str) -> anyhow::Result<Vec<IpAddr>> {
    let vips: Api<VirtualIP> = Api::all(lab.client());
    let vips = vips.list(&ListParams::default()).await?.items.into_iter();
    let is_its = |vip: &VirtualIP| vip.status.as_ref().and_then(|s| s.active_node.as_deref()) == Some(node);
    Ok(vips.filter(is_its).map(|vip| vip.spec.address).collect())
}

/// The events on Services, each with its version: it has another one when it is told again.
async fn events(lab: &Lab) -> anyhow::Result<Vec<(String, Option<String>)>> {
    let events: Api<Event> = Api::all(lab.client());
    let about = ListParams::default().fields("involvedObject.kind=Service");
    let events = events.list_metadata(&about).await?.items;
    Ok(events.iter().map(|event| (event.name_any(), event.resource_version())).collect())
}

//! A node that not all of the others know: no two answer, however slowly a change of a virtual router's nodes is rolled out.

use std::net::IpAddr;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use windlass_api::NodeNetwork;
use windlass_e2e::{Lab, await_that, scenario};

use crate::setup::{CUT_OFF, LIMIT, lab, other, router_of, served};

// shows: field-reports F-22
#[test]
fn no_two_nodes_answer_while_only_some_have_heard_of_a_node_that_comes_first() -> anyhow::Result<()> {
    scenario("joining", lab(), async |lab| {
        let lab = &*lab;
        let vip = served(lab).await?;
        let edge = json!({"matchLabels": {"edge": "yes"}});
        lab.announcement("default", json!({"preferredNodes": [{"weight": 10, "selector": edge}]})).await?;
        let owner = lab.await_owner("c1", vip).await?;
        lab.exec(&owner, &["nft", CUT_OFF]).await?;
        let change = Patch::Merge(json!({"metadata": {"labels": {"edge": "yes"}}}));
        Api::<Node>::all(lab.client()).patch("n3", &PatchParams::default(), &change).await?;
        let answering = lab.answering("c1", &[vip])?;
        lab.start_agent("n3")?;
        let networks: Api<NodeNetwork> = Api::all(lab.client());
        await_that("the other node has heard of n3", LIMIT, async || {
            let known = networks.get(other(&owner)).await?.spec.known_routers;
            Ok((!known.is_empty()).then_some(()))
        })
        .await?;
        // With an agent that takes part: it is ready once it has heard who is Active.
        await_that("n3 is in the list", LIMIT, async || Ok(is_joining(lab, vip).await?.map(|_| ()))).await?;
        let seen = answering.seen()?;
        ensure!(seen.doubled.is_empty(), "two answered while {owner} was cut off: {:?}", seen.doubled);
        ensure!(is_joining(lab, vip).await? == Some(true), "{owner} cannot have told that it knows n3");
        ensure!(lab.await_owner("c1", vip).await? == owner, "the address moved");

        lab.exec(&owner, &["nft", "delete table inet cut-off"]).await?;
        await_that("n3 has the address", LIMIT, async || {
            ensure!(lab.await_owner("c1", vip).await? == "n3");
            Ok((is_joining(lab, vip).await? == Some(false)).then_some(()))
        })
        .await?;
        let seen = answering.stop()?;
        println!("{:?} and {:?}", seen.most, seen.doubled);
        ensure!(seen.lasting_doubled().is_empty(), "two answered: {:?}", seen.doubled);
        Ok(())
    })
}

/// Whether `n3` is joining the address' virtual router, if it is in its list.
async fn is_joining(lab: &Lab, vip: IpAddr) -> anyhow::Result<Option<bool>> {
    let router = router_of(lab, vip).await.context("its virtual router")?;
    Ok(router.spec.nodes.iter().find(|node| node.name == "n3").map(|node| node.joining))
}

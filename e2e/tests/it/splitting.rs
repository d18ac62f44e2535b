//! An address that leaves its virtual router by itself, while the node that has it hears of nothing.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;
use windlass_e2e::{Lab, await_that, scenario, state_folder};

use crate::setup::{CUT_OFF, LIMIT, lab, other, router_of, served};

/// So many that some share a virtual router.
const MORE: usize = 8;
/// Much longer than an election takes.
const WHILE: Duration = Duration::from_secs(2);
/// Within which two that were parted have to find each other.
const MEETING: Duration = Duration::from_secs(1);

#[test]
fn one_node_answers_for_an_address_whose_service_changes_its_announcement_though_that_node_is_cut_off()
-> anyhow::Result<()> {
    scenario("splitting", lab(), async |lab| {
        let lab = &*lab;
        served(lab).await?;
        let alone = json!([{"matchLabels": {"alone": "yes"}}]);
        lab.announcement("alone", json!({"serviceSelectors": alone})).await?;
        let (service, vip) = with_company(lab).await?;
        let (old, owner) = (router_of(lab, vip).await?.name_any(), lab.await_owner("c1", vip).await?);
        lab.exec(&owner, &["nft", CUT_OFF]).await?;
        let answering = lab.answering("c1", &[vip])?;

        let change = Patch::Merge(json!({"metadata": {"labels": {"alone": "yes"}}}));
        let services: Api<Service> = Api::default_namespaced(lab.client());
        services.patch(&service, &PatchParams::default(), &change).await?;
        let new = await_that("the address has left its virtual router", LIMIT, async || {
            let new = router_of(lab, vip).await?;
            Ok((new.name_any() != old).then_some(new.name_any()))
        })
        .await?;
        let state = format!("{}/state.json", state_folder(other(&owner)));
        await_that("the other node has heard of it", LIMIT, async || {
            Ok(lab.exec(other(&owner), &["cat", &state]).await?.contains(&new).then_some(()))
        })
        .await?;
        await_alone(&answering, vip, &owner).await?;
        let seen = answering.seen()?;
        ensure!(seen.doubled.is_empty(), "two answered while {owner} was cut off: {:?}", seen.doubled);

        lab.exec(&owner, &["nft", "delete table inet cut-off"]).await?;
        await_that(&format!("{owner} has the address in the new virtual router"), LIMIT, async || {
            let active = router_of(lab, vip).await?.status.and_then(|status| status.active_node);
            ensure!(active.as_deref() == Some(owner.as_str()), "{active:?} has it");
            Ok(Some(()))
        })
        .await?;
        await_alone(&answering, vip, &owner).await?;
        let seen = answering.stop()?;
        ensure!(seen.lasting_doubled().is_empty(), "two answered: {:?}", seen.doubled);
        Ok(())
    })
}

/// Nor once it is back: it hears what the others say, and asks before it goes on.
#[test]
fn one_node_answers_for_an_address_that_changed_its_vrid_while_another_was_cut_off_also_before_that_is_told()
-> anyhow::Result<()> {
    scenario("behind", lab(), async |lab| {
        let lab = &*lab;
        let vip = served(lab).await?;
        let old = router_of(lab, vip).await?.spec.vrid;
        let behind = lab.await_owner("c1", vip).await?;
        let ahead = other(&behind);
        lab.exec(&behind, &["nft", CUT_OFF]).await?;
        lab.partition(&[&behind])?;
        lab.announcement("others", json!({"vrrp": {"vridRange": {"first": 200, "last": 210}}})).await?;
        await_that(
            &format!("{ahead} has the address with another VRID, and has left the old one"),
            LIMIT,
            async || {
                let router = router_of(lab, vip).await?;
                let active = router.status.and_then(|status| status.active_node);
                ensure!(
                    router.spec.vrid != old && active.as_deref() == Some(ahead),
                    "{active:?} is Active of {}",
                    router.spec.vrid
                );
                let metrics = lab.agent_metrics(ahead).await?;
                let is_of_old = |line: &&str| {
                    line.starts_with("windlass_vrrp_state{") && line.contains(&format!("vrid=\"{old}\""))
                };
                Ok(metrics.lines().all(|line| !is_of_old(&line)).then_some(()))
            },
        )
        .await?;

        let answering = lab.answering("c1", &[vip])?;
        await_alone(&answering, vip, ahead).await?;
        lab.heal()?;
        // Each goes on as Active, in a router of its own. Who leaves the address to the other does not matter.
        await_that("both hear each other", LIMIT, async || {
            let seen = answering.seen()?;
            let alone = seen.alone.get(&vip).with_context(|| format!("{:?} answer", seen.last.get(&vip)))?;
            Ok((alone.since.elapsed() >= WHILE).then_some(()))
        })
        .await?;
        lab.exec(&behind, &["nft", "delete table inet cut-off"]).await?;
        await_that("one has the address again, as is told, and none the old VRID", LIMIT, async || {
            let active = router_of(lab, vip).await?.status.and_then(|status| status.active_node);
            let seen = answering.seen()?;
            let alone = seen.alone.get(&vip).with_context(|| format!("{:?} answer", seen.last.get(&vip)))?;
            ensure!(active.as_ref() == Some(&alone.node), "{active:?} is Active, {} answers", alone.node);
            let is_old = lab.agent_metrics(&behind).await?.contains(&format!("vrid=\"{old}\""));
            Ok((!is_old && alone.since.elapsed() >= WHILE).then_some(()))
        })
        .await?;
        let doubled = answering.stop()?.doubled;
        let longest = doubled.iter().map(|one| one.end - one.begin).max().unwrap_or_default();
        println!(
            "{behind} was behind: two answered {} times, {} ms at most",
            doubled.len(),
            longest.as_millis()
        );
        ensure!(longest < MEETING, "two answered: {doubled:?}");
        Ok(())
    })
}

/// A Service whose address shares its virtual router, and the address.
async fn with_company(lab: &Lab) -> anyhow::Result<(String, IpAddr)> {
    let mut all: Vec<(String, IpAddr, String)> = Vec::new();
    for number in 0..MORE {
        let name = format!("more-{number}");
        lab.same_backend(&name, "web")?;
        lab.load_balancer(&name, |_| ()).await?;
        let vip = lab.ingress(&name, LIMIT).await?;
        all.push((name, vip, router_of(lab, vip).await?.name_any()));
    }
    let shared =
        all.iter().find(|(name, _, router)| all.iter().any(|(other, _, its)| other != name && its == router));
    let (name, vip, _) = shared.with_context(|| format!("none share a virtual router: {all:?}"))?;
    Ok((name.clone(), *vip))
}

async fn await_alone(answering: &windlass_e2e::Answering, vip: IpAddr, owner: &str) -> anyhow::Result<()> {
    await_that(&format!("{owner} alone answers for a while"), LIMIT, async || {
        let seen = answering.seen()?;
        let alone = seen.alone.get(&vip).with_context(|| format!("{:?} answer", seen.last.get(&vip)))?;
        ensure!(alone.node == owner, "{} does", alone.node);
        Ok((alone.since.elapsed() >= WHILE).then_some(()))
    })
    .await
}

//! The manifests in `manifests/examples`, applied as they are and all at once, and the commands of the pages about them.

use std::{collections::BTreeSet, net::IpAddr};

use anyhow::{Context as _, ensure};
use kube::{Api, ResourceExt as _, api::ListParams};
use windlass_api::{Announcement, CONDITION_APPLIED, CONDITION_READY, VirtualIPPool, applied};
use windlass_e2e::{Lab, await_that, scenario, workspace};

use crate::release::{Release, assert_only_the_image_differs};
use crate::setup::{LIMIT, await_verdict, run_commands, services};

/// The addresses that a Service shows.
async fn shown(lab: &Lab, service: &str) -> anyhow::Result<Vec<IpAddr>> {
    let status = services(lab, "default").get(service).await?.status;
    let ingress = status.and_then(|status| status.load_balancer?.ingress).unwrap_or_default();
    let parse = |text: String| text.parse().with_context(|| format!("Service {service} shows {text:?}"));
    ingress.into_iter().filter_map(|entry| entry.ip).map(parse).collect()
}

#[test]
fn every_example_is_accepted_and_its_services_get_what_they_ask_for() -> anyhow::Result<()> {
    scenario("examples", Lab::builder().nodes(3).light(), async |lab| {
        lab.deploy_windlass(&["n1", "n2", "n3"]).await?;
        // What the Announcement selects nodes by.
        lab.kubectl(&["label", "nodes", "--all", "example.com/lan=true"]).await?;
        lab.apply(workspace().join("manifests/examples").display().to_string()).await?;

        let balancers = services(lab, "default").list(&ListParams::default()).await?.items;
        let is_balancer = |type_: Option<String>| type_.as_deref() == Some("LoadBalancer");
        let balancers: Vec<String> = balancers
            .into_iter()
            .filter(|one| is_balancer(one.spec.as_ref().and_then(|spec| spec.type_.clone())))
            .map(|one| one.name_any())
            .collect();
        ensure!(balancers.len() >= 5, "Services {balancers:?}");
        for service in &balancers {
            await_verdict(lab, "default", service, "True Allocated", &[]).await?;
        }

        let both = shown(lab, "web-dual-stack").await?;
        ensure!(matches!(both[..], [IpAddr::V4(_), IpAddr::V6(_)]), "both families: {both:?}");
        let shared = shown(lab, "dns-tcp").await?;
        ensure!(shared.len() == 1 && shared == shown(lab, "dns-udp").await?, "shared: {shared:?}");
        let several = shown(lab, "web-several-addresses").await?;
        ensure!(several.len() == 3, "three addresses: {several:?}");
        await_that("each of the three addresses is on a node of its own", LIMIT, async || {
            let mut nodes = BTreeSet::new();
            for address in &several {
                let vip = lab.virtual_ip(*address).await?.context("it has no VirtualIP")?;
                nodes.extend(vip.status.and_then(|status| status.active_node));
            }
            ensure!(nodes.len() == 3, "they are on {nodes:?}");
            Ok(Some(()))
        })
        .await?;

        let pools: Api<VirtualIPPool> = Api::all(lab.client());
        await_that("every pool is usable as a whole", LIMIT, async || {
            for pool in pools.list(&ListParams::default()).await? {
                let conditions = pool.status.iter().flat_map(|status| &status.conditions);
                let ready = conditions.into_iter().find(|one| one.type_ == CONDITION_READY);
                let reason = ready.map(|one| one.reason.as_str());
                ensure!(reason == Some("Usable"), "pool {}: {ready:?}", pool.name_any());
            }
            Ok(Some(()))
        })
        .await?;

        // No Service gets an address of its pool.
        let announcements: Api<Announcement> = Api::all(lab.client());
        await_that("the Announcement is read, and selects nothing", LIMIT, async || {
            let status = announcements.get("production").await?.status.unwrap_or_default();
            let applied = status.conditions.iter().find(|one| one.type_ == CONDITION_APPLIED);
            let reason = applied.map(|one| one.reason.as_str());
            ensure!(reason == Some(applied::NOTHING_SELECTED), "it says {applied:?}");
            Ok(Some(()))
        })
        .await?;

        for page in ["docs/pools.md", "docs/services.md", "docs/announcements.md"] {
            run_commands(lab, page, &[]).await?;
        }

        let release = Release::manifests()?;
        let said = lab.apply(release.file("install.yaml").display().to_string()).await?;
        assert_only_the_image_differs(&said)
    })
}

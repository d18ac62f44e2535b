//! Services with several addresses: of both families, and several of one.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use anyhow::ensure;
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use windlass_api::{ANNOTATION_ADDRESS_COUNT, ANNOTATION_POOL, VirtualIPPool};
use windlass_e2e::{Lab, LabBuilder, Protocol, SERVICE_PORT, await_that, scenario};

use crate::setup::{LIMIT, annotate, await_ingresses, await_verdict, dual_stack, ingresses, services};

const AGENTS: [&str; 3] = ["n1", "n2", "n3"];

/// Three nodes with agents; a fourth, whose backend outlives their faults.
fn lab() -> LabBuilder {
    Lab::builder().nodes(4).client("c1").light()
}

#[test]
fn second_family_is_added_when_it_can_be_had_and_each_fails_over_alone() -> anyhow::Result<()> {
    scenario("families", lab(), async |lab| {
        lab.deploy_windlass(&AGENTS).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.210"]).await?;
        lab.backend("web", &["n4"]).await?;
        lab.load_balancer("web", prefer_dual_stack).await?;
        let v4 = lab.ingress("web", LIMIT).await?;
        await_verdict(lab, "default", "web", "True FamilyMissing", &["IPv6"]).await?;
        lab.load_balancer("both", dual_stack).await?;
        await_verdict(lab, "default", "both", "False NoFreeAddress", &["IPv6", "default"]).await?;

        let wider =
            json!({"spec": {"addresses": ["192.0.2.200-192.0.2.210", "2001:db8::200-2001:db8::210"]}});
        let pools: Api<VirtualIPPool> = Api::all(lab.client());
        pools.patch("default", &PatchParams::default(), &Patch::Merge(wider)).await?;
        let shown = await_ingresses(lab, "web", 2).await?;
        ensure!(shown[0] == v4 && shown[1].is_ipv6(), "it had {v4} and has {shown:?}");
        await_verdict(lab, "default", "web", "True Allocated", &[]).await?;
        let both = await_ingresses(lab, "both", 2).await?;
        ensure!(both[0].is_ipv4() && both[1].is_ipv6(), "both has {both:?}");

        for address in &shown {
            await_answer(lab, *address).await?;
            let owner = lab.await_owner("c1", *address).await?;
            let probe = lab.probe("c1", Protocol::Udp, *address, SERVICE_PORT, Duration::from_millis(2))?;
            lab.node(&owner)?.pull_cable()?;
            lab.await_owner_other_than("c1", *address, &owner).await?;
            for address in &shown {
                await_answer(lab, *address).await?;
            }
            println!("{address}: {} ms without an answer", probe.stop()?.longest_gap.as_millis());
            lab.node(&owner)?.plug_cable()?;
            lab.await_owner("c1", *address).await?;
        }
        let still = ingresses(lab, "web").await?;
        ensure!(still == shown, "it had {shown:?} and has {still:?}");
        Ok(())
    })
}

// shows: field-reports F-33
#[test]
fn addresses_of_one_service_are_on_different_nodes() -> anyhow::Result<()> {
    scenario("address-count", lab(), async |lab| {
        lab.deploy_windlass(&AGENTS).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.210", "2001:db8::200-2001:db8::210"]).await?;
        lab.pool("small", &["192.0.2.220-192.0.2.221"]).await?;
        lab.backend("web", &["n4"]).await?;
        lab.load_balancer("web", |service| annotate(service, ANNOTATION_ADDRESS_COUNT, "3")).await?;
        let shown = await_ingresses(lab, "web", 3).await?;
        await_that("each address is announced by another node", LIMIT, async || {
            let mut owners = BTreeSet::new();
            for address in &shown {
                owners.insert(lab.await_owner("c1", *address).await?);
                await_answer(lab, *address).await?;
            }
            ensure!(owners.len() == shown.len(), "{shown:?} are announced by {owners:?} only");
            Ok(Some(()))
        })
        .await?;

        // More than a pool has: none at all.
        let greedy = |service: &mut Service| {
            annotate(service, ANNOTATION_ADDRESS_COUNT, "3");
            annotate(service, ANNOTATION_POOL, "small");
        };
        lab.load_balancer("greedy", greedy).await?;
        await_verdict(lab, "default", "greedy", "False NoFreeAddress", &["small"]).await?;
        ensure!(lab.virtual_ip("192.0.2.220".parse()?).await?.is_none(), "it holds what is of no use to it");

        // Fewer, later: the others stay as they were.
        let modest = json!({"metadata": {"annotations": {ANNOTATION_ADDRESS_COUNT: "2"}}});
        services(lab, "default").patch("web", &PatchParams::default(), &Patch::Merge(modest)).await?;
        let left = await_ingresses(lab, "web", 2).await?;
        ensure!(left == shown[..2], "of {shown:?} are left {left:?}");
        for address in left {
            await_answer(lab, address).await?;
        }
        Ok(())
    })
}

fn prefer_dual_stack(service: &mut Service) {
    service.spec.get_or_insert_default().ip_family_policy = Some("PreferDualStack".into());
}

/// Waits until the backend of `n4` answers the client.
async fn await_answer(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    await_that(&format!("web-n4 answers the client over {vip}"), LIMIT, async || {
        let answer = lab.curl("c1", vip, SERVICE_PORT).await?;
        ensure!(answer == "web-n4", "{answer:?} answered");
        Ok(Some(()))
    })
    .await
}

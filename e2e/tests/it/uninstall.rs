//! Windlass is taken off a cluster, and nothing of it is left that holds anything up.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;
use windlass_api::{NodeNetwork, VirtualIP, VirtualIPPool, VirtualRouter};
use windlass_e2e::{Lab, Signal, await_that, scenario, workspace};

use crate::setup::{LIMIT, ingresses, services};

const FOREIGN: &str = "example.org/theirs";

// shows: threats T-29
#[test]
fn what_windlass_leaves_is_kept_until_it_is_uninstalled_and_then_holds_up_no_deletion() -> anyhow::Result<()>
{
    let builder = Lab::builder().nodes(2).client("c1").light().without_proxy();
    scenario("uninstall", builder, async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
        lab.load_balancer("web", |service| service.finalizers_mut().push(FOREIGN.to_owned())).await?;
        let vip = lab.ingress("web", LIMIT).await?;
        lab.await_owner("c1", vip).await?;
        let refused = uninstall(lab, &[]).await.err().context("it is uninstalled although it works")?;
        ensure!(format!("{refused:#}").contains("a running controller"), "{refused:#}");

        // The controller dies without giving its lease up: its last words hold for a while.
        lab.stop_controller("controller", Signal::SIGKILL).await?;
        for node in ["n1", "n2"] {
            lab.stop_agent(node, Signal::SIGTERM).await?;
        }
        let manifests = workspace().join("manifests").display().to_string();
        // (Nobody here sees a namespace off.)
        lab.kubectl(&["delete", "--wait=false", "-k", &manifests]).await?;
        let pools: Api<VirtualIPPool> = Api::all(lab.client());
        ensure!(pools.get_opt("default").await?.is_some(), "the pool has gone with what runs");
        ensure!(lab.virtual_ip(vip).await?.is_some(), "the address has gone with what runs");

        let api = services(lab, "default");
        let before = api.get("web").await?;
        let said = await_that("nobody is believed to work any more", LIMIT, async || {
            uninstall(lab, &["--dry-run"]).await.map(Some)
        })
        .await?;
        ensure!(said.contains("would be removed") && said.contains(&vip.to_string()), "{said}");
        let after = api.get("web").await?;
        ensure!(after.resource_version() == before.resource_version(), "a dry run has written {after:?}");

        let said = uninstall(lab, &[]).await?;
        for words in [
            &*format!("address {vip}"),
            "default/web",
            "1 VirtualIPs",
            "2 NodeNetworks",
            "kept: 1 VirtualIPPools",
        ] {
            ensure!(said.contains(words), "{words:?} is not in: {said}");
        }
        let web = api.get("web").await?;
        ensure!(web.finalizers() == [FOREIGN], "{:?}", web.finalizers());
        ensure!(ingresses(lab, "web").await?.is_empty(), "{web:?}");
        let conditions = web.status.and_then(|status| status.conditions).unwrap_or_default();
        ensure!(conditions.is_empty(), "{conditions:?}");
        let all = ListParams::default();
        let left = [
            Api::<VirtualIP>::all(lab.client()).list_metadata(&all).await?.items.len(),
            Api::<VirtualRouter>::all(lab.client()).list_metadata(&all).await?.items.len(),
            Api::<NodeNetwork>::all(lab.client()).list_metadata(&all).await?.items.len(),
        ];
        ensure!(left == [0, 0, 0], "{left:?} are left");

        lab.kubectl(&["delete", "-f", &format!("{manifests}/crds")]).await?;
        let again = uninstall(lab, &[]).await?;
        ensure!(again.is_empty(), "it found more: {again}");
        let theirs = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        api.patch("web", &PatchParams::default(), &theirs).await?;
        api.delete("web", &DeleteParams::default()).await?;
        await_that("the Service is gone", LIMIT, async || {
            let left: Option<Service> = api.get_opt("web").await?;
            Ok(left.is_none().then_some(()))
        })
        .await
    })
}

/// Runs the command as an admin.
async fn uninstall(lab: &Lab, flags: &[&str]) -> anyhow::Result<String> {
    lab.windlass(&[&["uninstall"], flags].concat()).await
}

//! The condition of docs/services.md that users wait for, with the tool that they wait with.

use std::net::IpAddr;

use anyhow::{Context as _, ensure};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;
use windlass_api::VirtualRouter;
use windlass_e2e::{Lab, await_that, scenario};

use crate::setup::{LIMIT, await_answer, await_verdict, code_lines, ingresses, lab};

/// `kubectl wait` as docs/services.md has it, for the Service `web`; returns what the status shows then.
async fn wait(lab: &Lab) -> anyhow::Result<Vec<IpAddr>> {
    let lines = code_lines("docs/services.md")?;
    let line =
        lines.iter().find(|line| line.starts_with("kubectl wait ")).context("the page waits no more")?;
    let limit = format!("--timeout={}s", LIMIT.as_secs());
    let arguments: Vec<&str> = line.split_whitespace().skip(1).chain([&*limit]).collect();
    lab.kubectl(&arguments).await?;
    ingresses(lab, "web").await
}

/// Lets this interface announce, whatever its subnets are.
async fn announce_on(lab: &Lab, interface: &str) -> anyhow::Result<()> {
    lab.change_announcement("far", json!({ "interfaces": [interface] })).await.map(drop)
}

#[test]
fn who_waits_for_the_condition_waits_until_clients_reach_the_service() -> anyhow::Result<()> {
    scenario("reached", lab(), async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        // No node is in this subnet.
        lab.pool("default", &["10.77.0.1-10.77.0.9"]).await?;
        lab.announcement("far", json!({ "pools": ["default"] })).await?;
        lab.backend("web", &["n3"]).await?;
        lab.load_balancer("web", |_| ()).await?;
        let mend = async || {
            await_verdict(lab, "default", "web", "False NotAnnounced", &["10.77.0.1", "interface"]).await?;
            ensure!(ingresses(lab, "web").await?.is_empty(), "what nobody announces is shown");
            announce_on(lab, "eth0").await
        };
        let (shown, ()) = futures::try_join!(wait(lab), mend())?;
        ensure!(shown == ["10.77.0.1".parse::<IpAddr>()?], "the wait is over, and {shown:?} are shown");
        await_verdict(lab, "default", "web", "True Allocated", &["10.77.0.1"]).await?;
        lab.await_owner("c1", shown[0]).await?;

        // It cannot be announced any more: it stays, and who waits now waits for it. (On its virtual router it would stay
        // announced, whatever its Announcement says.)
        announce_on(lab, "nope0").await?;
        let routers: Api<VirtualRouter> = Api::all(lab.client());
        await_that("no virtual router carries it", LIMIT, async || {
            routers.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
            let vip = lab.virtual_ip(shown[0]).await?.context("its VirtualIP is gone")?;
            Ok(vip.spec.virtual_router.is_none().then_some(()))
        })
        .await?;
        await_verdict(lab, "default", "web", "False NotAnnounced", &["nope0"]).await?;
        ensure!(ingresses(lab, "web").await? == shown, "its address has gone");
        let (after, ()) = futures::try_join!(wait(lab), announce_on(lab, "eth0"))?;
        ensure!(after == shown, "it had {shown:?} and shows {after:?}");
        lab.await_owner("c1", shown[0]).await?;

        // A Service of the nodes' own subnet is waited for as well, and answers then.
        lab.pool("near", &["192.0.2.200-192.0.2.209"]).await?;
        let named = json!({ "metadata": { "annotations": { "windlass.dev/pool": "near" } } });
        crate::setup::services(lab, "default")
            .patch("web", &PatchParams::default(), &Patch::Merge(named))
            .await?;
        await_verdict(lab, "default", "web", "True Allocated", &["192.0.2.200"]).await?;
        let shown = wait(lab).await?;
        await_answer(lab, shown[0]).await
    })
}

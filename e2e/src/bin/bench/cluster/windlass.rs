//! Windlass' side: a pool of one address, with an Announcement, per advertisement interval.

use anyhow::{Context as _, ensure};
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use serde_json::json;
use windlass_api::{Announcement, VirtualIPPool, VirtualRouter};
use windlass_e2e::{Lab, await_that};

use super::{Contender, LIMIT};
use crate::system::System;

fn name(interval_ms: u32) -> String {
    format!("windlass-{interval_ms}")
}

/// An Announcement, its pool and a Service whose virtual router has this interval.
pub(crate) async fn start(lab: &Lab, interval_ms: u32) -> anyhow::Result<Contender> {
    let name = name(interval_ms);
    let vrrp = json!({"advertisementIntervalMilliseconds": interval_ms});
    lab.announcement(&name, json!({"pools": [name], "vrrp": vrrp})).await?;
    lab.pool(&name, &["192.0.2.200/32"]).await?;
    lab.same_backend(&name, "web")?;
    lab.load_balancer(&name, |_| ()).await?;
    let address = lab.ingress(&name, LIMIT).await?;
    let routers: Api<VirtualRouter> = Api::all(lab.client());
    let routers = routers.list(&ListParams::default()).await?.items;
    ensure!(routers.len() == 1, "one virtual router was expected, there are {}", routers.len());
    let router = &routers[0].spec;
    let has = router.advertisement_interval_milliseconds;
    ensure!(has == interval_ms, "the virtual router has an interval of {has} ms, not {interval_ms} ms");
    let [preferred, backup] = router.nodes.as_slice() else {
        anyhow::bail!("two candidates were expected: {:?}", router.nodes)
    };
    Ok(Contender {
        system: System::Windlass,
        address,
        vrid: router.vrid,
        preferred: preferred.name.clone(),
        backup_priority: backup.priority,
        preferred_priority: preferred.priority,
    })
}

/// Takes all away, so that the next interval starts anew.
pub(crate) async fn stop(lab: &Lab, interval_ms: u32) -> anyhow::Result<()> {
    let name = name(interval_ms);
    let pools: Api<VirtualIPPool> = Api::all(lab.client());
    let routers: Api<VirtualRouter> = Api::all(lab.client());
    lab.remove_service(&name).await?;
    await_that("the virtual router is gone", LIMIT, async || {
        let left = routers.list(&ListParams::default()).await?.items.len();
        ensure!(left == 0, "{left} are there");
        Ok(Some(()))
    })
    .await?;
    pools.delete(&name, &DeleteParams::default()).await.context("removing the pool")?;
    let announcements: Api<Announcement> = Api::all(lab.client());
    announcements.delete(&name, &DeleteParams::default()).await.context("removing the Announcement")?;
    Ok(())
}

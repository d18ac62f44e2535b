//! An etcd that is restored from a backup without a word to anybody: its versions begin again where they were.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use anyhow::ensure;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use windlass_api::ANNOTATION_ADDRESSES;
use windlass_e2e::{ControllerOptions, Lab, await_that, scenario};

use super::{await_served, make, names};
use crate::setup::{LIMIT, annotate, await_event, ingresses, lab, services};

/// Of a pool without quarantine: it has passed from one Service to another since the backup.
const PASSED_ON: &str = "192.0.2.199";
/// Objects made after the backup: versions that the cluster needs long for to get to again.
const FORGOTTEN: usize = 400;

// shows: ccm-contract E-11; threats T-28
#[test]
fn agents_and_controller_go_by_what_a_restored_etcd_holds_and_not_by_what_it_has_forgotten()
-> anyhow::Result<()> {
    scenario("restored", lab(), async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
        let at_once = json!({"quarantineSeconds": 0, "autoAssign": false});
        lab.pool_with("passed-on", &[PASSED_ON], at_once).await?;
        for name in ["former", "heir"] {
            lab.load_balancer(name, |service| annotate(service, ANNOTATION_ADDRESSES, PASSED_ON)).await?;
            if name == "former" {
                lab.ingress(name, LIMIT).await?;
            }
        }
        await_event(lab, "heir", "SyncLoadBalancerFailed", &["held by Service default/former"]).await?;
        let kept = names("kept", 6);
        make(lab, &kept).await?;
        await_served(lab, &kept).await?;
        let before = addresses(lab, &kept).await?;
        lab.back_up_etcd().await?;

        services(lab, "default").delete("former", &DeleteParams::default()).await?;
        lab.ingress("heir", LIMIT).await?;
        lab.await_owner("c1", PASSED_ON.parse()?).await?;
        let forgotten = names("forgotten", 2);
        make(lab, &forgotten).await?;
        await_served(lab, &forgotten).await?;
        let lost = addresses(lab, &forgotten).await?;
        try_join_all(lost.iter().map(|address| lab.await_owner("c1", *address))).await?;
        write_much(lab).await?;
        lab.restore_etcd().await?;

        // The controller, which has acted on what is undone, ends; kubelet would start it again.
        await_that("the controller has ended", LIMIT, async || {
            Ok((!lab.controller_runs("controller")?).then_some(()))
        })
        .await?;
        let log = tokio::fs::read_to_string(lab.logs().join("cp-controller.log")).await?;
        ensure!(log.contains("is older than the state shown before"), "its last words are another's: {log}");
        lab.start_controller(ControllerOptions::default())?;

        let new = names("new", 6);
        make(lab, &new).await?;
        await_served(lab, &new).await?;
        let given = addresses(lab, &new).await?;
        ensure!(given.len() == new.len() && given.is_disjoint(&before), "{given:?} and {before:?}");
        ensure!(addresses(lab, &kept).await? == before, "Services of the backup have other addresses");
        await_one_service(lab, PASSED_ON.parse()?).await?;
        try_join_all(before.union(&given).map(|address| lab.await_owner("c1", *address))).await?;
        for address in lost.difference(&given) {
            await_that(&format!("nobody answers for {address}, which no Service has"), LIMIT, async || {
                let nodes = lab.neighbours("c1", *address).await?;
                ensure!(nodes.is_empty(), "{nodes:?}");
                Ok(Some(()))
            })
            .await?;
        }
        Ok(())
    })
}

/// Waits until it is as it was at the time of the backup: no two Services show an address, and this one is its former owner's.
async fn await_one_service(lab: &Lab, passed_on: IpAddr) -> anyhow::Result<()> {
    await_that("no two Services show one address", LIMIT, async || {
        let all = services(lab, "default").list(&ListParams::default()).await?;
        let mut shown = BTreeMap::new();
        for service in all {
            for address in ingresses(lab, &service.name_any()).await? {
                let other = shown.insert(address, service.name_any());
                ensure!(other.is_none(), "{address} is shown by {other:?} and by {}", service.name_any());
            }
        }
        ensure!(shown.get(&passed_on).is_some_and(|owner| owner == "former"), "{shown:?}");
        Ok(Some(()))
    })
    .await?;
    lab.await_owner("c1", passed_on).await?;
    Ok(())
}

async fn addresses(lab: &Lab, names: &[String]) -> anyhow::Result<BTreeSet<IpAddr>> {
    let all = try_join_all(names.iter().map(|name| lab.ingress(name, LIMIT))).await?;
    Ok(all.into_iter().collect())
}

async fn write_much(lab: &Lab) -> anyhow::Result<()> {
    let api: Api<ConfigMap> = Api::default_namespaced(lab.client());
    for number in 0..FORGOTTEN {
        let object = serde_json::from_value(json!({"metadata": {"name": format!("filler-{number}")}}))?;
        api.create(&PostParams::default(), &object).await?;
    }
    Ok(())
}

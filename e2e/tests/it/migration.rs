//! The way from MetalLB, as docs/migration.md tells it: its pools converted, both side by side, addresses kept.

mod leftovers;
mod others;
mod pipelines;

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use nix::sys::signal::Signal;
use serde_json::json;
use windlass_api::{Announcement, CONDITION_ADDRESS_ALLOCATED, LOAD_BALANCER_CLASS, VirtualIPPool};
use windlass_e2e::{ControllerOptions, Lab, await_that, scenario};

use crate::setup::LIMIT;

/// What MetalLB has, with every field that is converted.
const METALLB: &str = r#"
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: first, namespace: metallb-system}
spec:
  addresses: [192.0.2.200-192.0.2.250, "2001:db8:9::/120"]
---
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: every-field, namespace: metallb-system, labels: {lan: far}}
spec:
  addresses: [198.51.100.77/24, 198.51.100.10/32, 203.0.113.16/28, "2001:db8:1::/64", "2001:db8:2::1-2001:db8:2::9"]
  autoAssign: false
  avoidBuggyIPs: true
  serviceAllocation:
    priority: 150
    namespaces: [red, blue]
    namespaceSelectors: [{matchLabels: {example.com/team: red}}]
    serviceSelectors: [{matchExpressions: [{key: tier, operator: NotIn, values: [web]}]}]
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: on-one-interface, namespace: metallb-system}
spec:
  ipAddressPoolSelectors: [{matchLabels: {lan: far}}]
  interfaces: [eth0]
  nodeSelectors: [{matchExpressions: [{key: example.com/rack, operator: In, values: [r1, r2]}]}]
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: for-some, namespace: metallb-system}
spec:
  ipAddressPools: [every-field]
  interfaces: [eth0, eth1]
  serviceSelectors: [{matchLabels: {example.com/lan: both}}]
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: everywhere, namespace: metallb-system}
spec: {ipAddressPools: [first]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config, namespace: metallb-system}
data:
  config: |
    address-pools:
    - name: Of 0.12
      protocol: layer2
      addresses: [10.200.0.0/24]
"#;

/// What `windlass convert` prints of what another program has.
fn converted(program: &str, input: &str) -> anyhow::Result<String> {
    let mut process = Command::new(windlass_e2e::windlass_binary()?)
        .args(["convert", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    process.stdin.take().context("no standard input")?.write_all(input.as_bytes())?;
    let output = process.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    // 3: all objects are converted, and not every setting of them.
    ensure!(matches!(output.status.code(), Some(0 | 3)), "{}: {said}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// Waits until the Service's condition is `True` with `Allocated`.
async fn await_allocated(lab: &Lab, service: &str) -> anyhow::Result<()> {
    let services: Api<Service> = Api::default_namespaced(lab.client());
    await_that(&format!("Service {service} says that it has its address"), LIMIT, async || {
        let conditions = services.get(service).await?.status.and_then(|status| status.conditions);
        let ours =
            conditions.iter().flatten().find(|condition| condition.type_ == CONDITION_ADDRESS_ALLOCATED);
        let allocated = ours.is_some_and(|ours| ours.status == "True" && ours.reason == "Allocated");
        ensure!(allocated, "conditions {conditions:?}");
        Ok(Some(()))
    })
    .await
}

#[test]
fn converted_pools_are_taken_by_the_api_server_and_services_keep_their_addresses() -> anyhow::Result<()> {
    scenario("migration", Lab::builder().nodes(1).client("c1").light(), async |lab| {
        lab.install_manifests().await?;
        lab.apply(converted("metallb", METALLB)?).await?;
        let pools: Api<VirtualIPPool> = Api::all(lab.client());
        let names: Vec<String> =
            pools.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
        ensure!(names == ["every-field", "first", "of-0.12"], "pools {names:?}");
        let announcements: Api<Announcement> = Api::all(lab.client());
        let names: Vec<String> =
            announcements.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
        ensure!(names == ["for-some-on-one-interface", "on-one-interface"], "Announcements {names:?}");

        // A Service that MetalLB serves, and that Windlass leaves alone while it serves its class only.
        let services: Api<Service> = Api::default_namespaced(lab.client());
        lab.load_balancer("old", |_| ()).await?;
        let shown = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.231"}]}}});
        services.patch_status("old", &PatchParams::default(), &Patch::Merge(shown)).await?;
        let classed_only = ControllerOptions {
            flags: vec!["--classless-services=false".to_owned()],
            ..ControllerOptions::default()
        };
        lab.start_controller(classed_only)?;
        lab.start_agent("n1")?;
        let class = Some(LOAD_BALANCER_CLASS.to_owned());
        lab.load_balancer("new", |service| {
            service.spec.get_or_insert_default().load_balancer_class = class;
        })
        .await?;
        lab.ingress("new", LIMIT).await?;
        await_allocated(lab, "new").await?;
        let old = services.get("old").await?;
        ensure!(old.finalizers().is_empty(), "a Service of MetalLB was touched: {:?}", old.metadata);
        let claim = lab.virtual_ip("192.0.2.231".parse()?).await?;
        ensure!(claim.is_none(), "its address was claimed: {claim:?}");

        // MetalLB is gone, and Windlass serves every Service: each keeps what it has.
        let new = lab.ingress("new", LIMIT).await?;
        lab.stop_controller("controller", Signal::SIGTERM).await?;
        lab.start_controller(ControllerOptions::default())?;
        await_allocated(lab, "old").await?;
        for (service, address) in [("old", "192.0.2.231".parse()?), ("new", new)] {
            let shown = lab.ingress(service, LIMIT).await?;
            ensure!(shown == address, "Service {service} had {address} and has {shown}");
            lab.await_owner("c1", address).await?;
        }
        Ok(())
    })
}

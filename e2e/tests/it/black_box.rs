//! The scenarios that Kubernetes itself tries on a real API server (service-contract §4.8, 288 to 301), with the service
//! controller of `windlass-ccm` and a provider that records what it is asked.

mod provider;

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{LoadBalancerIngress, Service};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_ccm::{
    metrics::Metrics,
    service::{ServiceController, ServiceOptions},
    store::with_informers,
};
use windlass_e2e::{Lab, await_that, scenario};

use self::provider::Ported;
use crate::setup::{LIMIT, services};

// shows: ccm-contract 288 to 301
#[test]
fn the_scenarios_of_kubernetes_own_integration_test_288_to_301() -> anyhow::Result<()> {
    scenario("black-box", Lab::builder().light().without_proxy(), async |lab| {
        let (provider, _guard) = controlled(lab);
        let bench = Bench { services: services(lab, "default"), provider };
        for row in NODE_PORTS {
            bench.node_ports(row).await.with_context(|| format!("scenario {}", row.0))?;
        }
        bench.classes_295_to_297().await?;
        bench.mixed_protocols_298().await?;
        for (number, given, stored) in
            [(299, None, "VIP"), (300, Some("VIP"), "VIP"), (301, Some("Proxy"), "Proxy")]
        {
            bench.modes(number, given, stored).await.with_context(|| format!("scenario {number}"))?;
        }
        ensure!(
            bench.provider.fake.overlaps() == 0,
            "the provider was asked twice about one Service at once"
        );
        Ok(())
    })
}

/// How a Service is changed: replaced as a whole (PUT), or patched.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Put,
    Patch,
}

/// Number; type, `allocateLoadBalancerNodePorts` and ports at first; verb, the same fields, and which of the ports are to
/// lose their node port (PUT: 0, PATCH: null); which ports have a node port then, and whether it is the one it had.
type Row = (u16, First, Option<(Verb, bool, &'static [i32])>, &'static [HasPort]);
/// Type, `allocateLoadBalancerNodePorts`, ports.
type First = (&'static str, Option<bool>, &'static [i32]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HasPort {
    No,
    Same,
    New,
}

const NODE_PORTS: &[Row] = &[
    (288, ("LoadBalancer", Some(false), &[80]), None, &[HasPort::No]),
    (289, ("ClusterIP", None, &[80]), Some((Verb::Put, false, &[])), &[HasPort::No]),
    (290, ("LoadBalancer", Some(true), &[80]), Some((Verb::Put, false, &[])), &[HasPort::Same]),
    (291, ("LoadBalancer", Some(true), &[80]), Some((Verb::Put, false, &[80])), &[HasPort::No]),
    (
        292,
        ("LoadBalancer", Some(true), &[80, 443]),
        Some((Verb::Put, false, &[80])),
        &[HasPort::No, HasPort::Same],
    ),
    (
        293,
        ("LoadBalancer", Some(true), &[80, 443]),
        Some((Verb::Patch, false, &[80])),
        &[HasPort::No, HasPort::Same],
    ),
    (294, ("LoadBalancer", Some(false), &[80]), Some((Verb::Put, true, &[])), &[HasPort::New]),
];

struct Bench {
    services: Api<Service>,
    provider: Arc<Ported>,
}

impl Bench {
    async fn node_ports(&self, row: &Row) -> anyhow::Result<()> {
        let &(number, (type_, allocate, ports), change, expected) = row;
        let name = format!("case-{number}");
        let ports: Vec<Value> =
            ports.iter().map(|port| json!({"name": format!("p{port}"), "port": port})).collect();
        let mut spec = json!({"type": type_, "ports": ports});
        if let Some(allocate) = allocate {
            spec["allocateLoadBalancerNodePorts"] = allocate.into();
        }
        self.make(&name, spec).await?;
        let mut before = BTreeMap::new();
        if type_ == "LoadBalancer" {
            before = node_ports(&self.served(&name).await?);
        }
        match change {
            None => {}
            Some((Verb::Put, allocate, without)) => {
                let mut service = self.services.get(&name).await?;
                let spec = service.spec.get_or_insert_default();
                spec.type_ = Some("LoadBalancer".into());
                spec.allocate_load_balancer_node_ports = Some(allocate);
                for port in spec.ports.iter_mut().flatten().filter(|port| without.contains(&port.port)) {
                    port.node_port = Some(0);
                }
                self.services.replace(&name, &PostParams::default(), &service).await?;
            }
            Some((Verb::Patch, allocate, without)) => {
                let ports: Vec<_> =
                    without.iter().map(|port| json!({"port": port, "nodePort": null})).collect();
                let spec = json!({"spec": {"allocateLoadBalancerNodePorts": allocate, "ports": ports}});
                self.services.patch(&name, &PatchParams::default(), &Patch::Strategic(spec)).await?;
            }
        }
        let after = self.served(&name).await?;
        let found: Vec<HasPort> = node_ports(&after)
            .iter()
            .map(|(port, node_port)| match (before.get(port).copied().unwrap_or_default(), *node_port) {
                (_, 0) => HasPort::No,
                (old, new) if old == new => HasPort::Same,
                (_, _) => HasPort::New,
            })
            .collect();
        ensure!(found == expected, "node ports are {found:?}, not {expected:?}");
        let shown = entry(&after)?;
        ensure!(shown.ip.as_deref() == Some("192.0.2.1"), "it shows {shown:?}");
        Ok(())
    }

    /// A Service of a class is nobody's whom it does not name, and the class cannot be changed.
    async fn classes_295_to_297(&self) -> anyhow::Result<()> {
        let spec =
            json!({"type": "LoadBalancer", "ports": [{"port": 80}], "loadBalancerClass": "example.com/a"});
        self.make("case-295", spec).await?;
        let change = json!({"spec": {"loadBalancerClass": "example.com/b"}});
        self.refused("case-295", &change).await.context("scenario 296")?;
        self.make("case-297", json!({"type": "LoadBalancer", "ports": [{"port": 80}]})).await?;
        self.served("case-297").await?;
        self.refused("case-297", &change).await.context("scenario 297")?;
        // One made after all that, so the controller has seen the others.
        self.make("case-295-end", json!({"type": "LoadBalancer", "ports": [{"port": 80}]})).await?;
        self.served("case-295-end").await?;
        ensure!(self.provider.calls_for("case-295") == 0, "scenario 295: the provider was asked");
        ensure!(self.provider.calls_for("case-297") > 0, "scenario 297: the provider was not asked");
        let classed = self.services.get("case-295").await?;
        ensure!(classed.finalizers().is_empty(), "scenario 295: finalizers {:?}", classed.finalizers());
        Ok(())
    }

    async fn mixed_protocols_298(&self) -> anyhow::Result<()> {
        let ports = json!([
            {"name": "tcp", "port": 53, "protocol": "TCP"}, {"name": "udp", "port": 53, "protocol": "UDP"}
        ]);
        self.make("case-298", json!({"type": "LoadBalancer", "ports": ports})).await?;
        let shown = entry(&self.served("case-298").await?)?.ports.unwrap_or_default();
        let shown: Vec<_> = shown.iter().map(|port| (port.port, &*port.protocol)).collect();
        ensure!(shown == [(53, "TCP"), (53, "UDP")], "scenario 298: its status shows {shown:?}");
        ensure!(self.provider.calls_for("case-298") > 0, "scenario 298: the provider was not asked");
        Ok(())
    }

    /// The provider's `ipMode` is stored, and stays when the ports change.
    async fn modes(&self, number: u16, given: Option<&'static str>, stored: &str) -> anyhow::Result<()> {
        self.provider.set_mode(given);
        let name = format!("case-{number}");
        self.make(&name, json!({"type": "LoadBalancer", "ports": [{"port": 80}]})).await?;
        for port in [80, 443] {
            let change = Patch::Merge(json!({"spec": {"ports": [{"port": port}]}}));
            self.services.patch(&name, &PatchParams::default(), &change).await?;
            await_that(&format!("Service {name} shows port {port}"), LIMIT, async || {
                let entry = entry(&self.services.get(&name).await?)?;
                let ports: Vec<i32> = entry.ports.iter().flatten().map(|port| port.port).collect();
                let shown = (entry.ip.as_deref(), entry.ip_mode.as_deref(), &*ports);
                ensure!(shown == (Some("192.0.2.1"), Some(stored), &[port]), "it shows {shown:?}");
                Ok(Some(()))
            })
            .await?;
        }
        Ok(())
    }

    async fn make(&self, name: &str, spec: Value) -> anyhow::Result<()> {
        let service =
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
        let service = serde_json::from_value(service)?;
        let made = self.services.create(&PostParams::default(), &service).await;
        made.with_context(|| format!("making Service {name}")).map(drop)
    }

    /// Waits until the Service shows an address.
    async fn served(&self, name: &str) -> anyhow::Result<Service> {
        await_that(&format!("Service {name} shows an address"), LIMIT, async || {
            let service = self.services.get(name).await?;
            entry(&service)?;
            Ok(Some(service))
        })
        .await
    }

    /// Sees to it that the API server refuses the change.
    async fn refused(&self, name: &str, change: &Value) -> anyhow::Result<()> {
        match self.services.patch(name, &PatchParams::default(), &Patch::Merge(change)).await {
            Err(kube::Error::Api(status)) if status.code == 422 => {
                ensure!(status.message.contains("may not change once set"), "it says {}", status.message);
                Ok(())
            }
            other => anyhow::bail!("the API server took {change}: {other:?}"),
        }
    }
}

/// Runs a service controller until the guard is dropped.
fn controlled(lab: &Lab) -> (Arc<Ported>, DropGuard) {
    let (provider, token) = (Arc::new(Ported::default()), CancellationToken::new());
    let metrics = Metrics::unregistered("black-box");
    let (client, served, stop) = (lab.client(), Arc::clone(&provider), token.clone());
    tokio::spawn(with_informers(client.clone(), |informers| {
        ServiceController::new(client, informers, served, ServiceOptions::default(), metrics).run(stop)
    }));
    (provider, token.drop_guard())
}

/// The only entry of the Service's status.
fn entry(service: &Service) -> anyhow::Result<LoadBalancerIngress> {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let entries = status.and_then(|status| status.ingress.clone()).unwrap_or_default();
    let [entry] = <[_; 1]>::try_from(entries).map_err(|entries| anyhow::anyhow!("it shows {entries:?}"))?;
    Ok(entry)
}

/// The node port of each port; 0 if it has none.
fn node_ports(service: &Service) -> BTreeMap<i32, i32> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    ports.map(|port| (port.port, port.node_port.unwrap_or_default())).collect()
}

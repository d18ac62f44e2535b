//! What the API server, kube-proxy and users make of the addresses that Services get, on a real API server.

pub(crate) mod record;

use std::{net::IpAddr, time::Duration};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_e2e::{Lab, Protocol, SERVICE_PORT, await_that, scenario};

use self::record::Record;
use crate::setup::{LIMIT, await_answer, ingresses, lab, served, services};

/// Finalizers of Services without and with our class (service-contract S-07).
const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
const CLASS_FINALIZER: &str = "windlass.dev/load-balancer-cleanup";

// shows: ccm-contract S-07, S-12, S-15, S-30, S-31, S-33 to S-36, S-38, S-40, S-42
#[test]
fn services_of_every_kind_keep_their_address_through_every_edit() -> anyhow::Result<()> {
    scenario("service-side", lab(), async |lab| {
        let vip = served(lab).await?;
        let record = Record::start(lab);
        let bench = Bench { lab, services: services(lab, "default"), vip };
        bench.edits().await?;
        bench.kinds().await?;
        bench.type_to_and_fro().await?;
        bench.deleted_and_made_again().await?;
        bench.classes().await?;
        let shown = record.stop(&bench.services).await?;
        let comes_and_goes = ["fickle", "again"];
        for (name, seen) in shown.into_iter().filter(|(name, _)| !comes_and_goes.contains(&name.as_str())) {
            // From the first address on always the same ones (of two families, one may come first).
            let full = seen.iter().skip_while(|entries| entries.is_empty()).collect::<Vec<_>>();
            let grows = full.windows(2).all(|pair| pair[0].iter().all(|entry| pair[1].contains(entry)));
            ensure!(grows, "{name} lost an address in between: {seen:?}");
        }
        bench.foreign_parts().await
    })
}

struct Bench<'a> {
    lab: &'a Lab,
    services: Api<Service>,
    /// The address of Service `web`.
    vip: IpAddr,
}

impl Bench<'_> {
    /// Ports, node ports, policies, affinity, source ranges: the client is answered after each (service-contract §0.9).
    async fn edits(&self) -> anyhow::Result<()> {
        let http = json!({"name": "http", "port": SERVICE_PORT, "targetPort": 8080});
        let more = json!({"name": "more", "port": 443, "targetPort": 8080, "nodePort": 30443});
        let edits = [
            json!({"ports": [http, more]}),
            json!({"ports": [{"name": "http", "port": SERVICE_PORT, "targetPort": 8080, "nodePort": 30080}]}),
            json!({"ports": [{"name": "http", "port": SERVICE_PORT, "targetPort": "web", "appProtocol": "http"}]}),
            json!({"allocateLoadBalancerNodePorts": false}),
            json!({"ports": [{"name": "http", "port": SERVICE_PORT, "targetPort": 8080, "nodePort": 0}]}),
            json!({"allocateLoadBalancerNodePorts": true}),
            json!({"externalTrafficPolicy": "Local"}),
            json!({"externalTrafficPolicy": "Cluster"}),
            json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}}),
            json!({"sessionAffinity": "None", "sessionAffinityConfig": null}),
            json!({"loadBalancerSourceRanges": [" 192.0.2.0/24 ", "203.0.113.0/24"]}),
            json!({"loadBalancerSourceRanges": null}),
            json!({"internalTrafficPolicy": "Local"}),
            json!({"internalTrafficPolicy": "Cluster", "publishNotReadyAddresses": true}),
            json!({"trafficDistribution": "PreferSameNode"}),
        ];
        for edit in edits {
            let change = Patch::Merge(json!({"spec": edit}));
            let changed = self.services.patch("web", &PatchParams::default(), &change).await;
            let changed = changed.with_context(|| format!("editing {edit}"))?;
            let spec = changed.spec.unwrap_or_default();
            // The backend is on a node that announces nothing: with `Local` nobody answers, but the address stays.
            if spec.external_traffic_policy.as_deref() == Some("Cluster") {
                await_answer(self.lab, self.vip).await.with_context(|| format!("after {edit}"))?;
            }
        }
        self.seen("after-edits").await?;
        let status = self.services.get("web").await?.status.and_then(|status| status.load_balancer);
        let stored = serde_json::to_value(status)?;
        let expected = json!({"ingress": [{"ip": self.vip, "ipMode": "VIP"}]});
        ensure!(stored == expected, "the status of web is {stored}, not {expected}");
        Ok(())
    }

    /// Services unlike the ordinary one are served all the same.
    async fn kinds(&self) -> anyhow::Result<()> {
        let lab = self.lab;
        lab.pool("v6", &["2001:db8::200-2001:db8::250"]).await?;
        lab.same_backend("dns", "web")?;
        lab.load_balancer("dns", |service| {
            let spec = service.spec.get_or_insert_default();
            spec.allocate_load_balancer_node_ports = Some(false);
            spec.ports.iter_mut().flatten().for_each(|port| port.port = 53);
        })
        .await?;
        for order in [["IPv4", "IPv6"], ["IPv6", "IPv4"]] {
            let name = format!("dual-{}", order.join("-").to_lowercase());
            lab.load_balancer(&name, |service| {
                let spec = service.spec.get_or_insert_default();
                spec.ip_family_policy = Some("RequireDualStack".into());
                spec.ip_families = Some(order.map(str::to_owned).to_vec());
            })
            .await?;
            let shown = await_that(&format!("{name} shows both addresses"), LIMIT, async || {
                Ok(Some(ingresses(lab, &name).await?).filter(|shown| shown.len() == 2))
            })
            .await?;
            let families: Vec<_> =
                shown.iter().map(|ip| if ip.is_ipv4() { "IPv4" } else { "IPv6" }).collect();
            ensure!(families == order, "{name} shows {shown:?}");
        }
        self.make("sctp", json!({"ports": [{"port": 132, "protocol": "SCTP"}]})).await?;
        self.make("nobody", json!({"ports": [{"port": 80}], "selector": {"app": "no-such"}})).await?;
        self.make("selectorless", json!({"ports": [{"port": 80}]})).await?;
        for name in ["sctp", "nobody", "selectorless"] {
            lab.ingress(name, LIMIT).await?;
        }
        let headless = self.make("headless", json!({"ports": [{"port": 80}], "clusterIP": "None"})).await;
        let said = headless.err().map(|error| format!("{error:#}")).unwrap_or_default();
        ensure!(said.contains("may not be set to 'None' for LoadBalancer"), "a headless Service: {said:?}");

        let dns = lab.ingress("dns", LIMIT).await?;
        let ports = self.services.get("dns").await?.spec.unwrap_or_default().ports.unwrap_or_default();
        ensure!(ports.iter().all(|port| port.node_port.is_none()), "node ports were given: {ports:?}");
        await_that("TCP and UDP port 53 of one address are answered", LIMIT, async || {
            let probe = lab.probe("c1", Protocol::Udp, dns, 53, Duration::from_millis(5))?;
            lab.curl("c1", dns, 53).await?;
            let outcome = probe.stop()?;
            ensure!(outcome.answered > 0, "UDP is not answered: {outcome:?}");
            Ok(Some(()))
        })
        .await
    }

    /// `LoadBalancer`, `ClusterIP` and back without a pause: a status written too late is refused (422, service-contract
    /// S-31), which is nobody's failure. It gets its address back each time.
    async fn type_to_and_fro(&self) -> anyhow::Result<()> {
        self.make("fickle", json!({"ports": [{"port": 80}]})).await?;
        let vip = self.lab.ingress("fickle", LIMIT).await?;
        for round in 0..40 {
            let type_ = if round % 2 == 0 { "ClusterIP" } else { "LoadBalancer" };
            let change = Patch::Merge(json!({"spec": {"type": type_}}));
            self.services.patch("fickle", &PatchParams::default(), &change).await?;
            // Now and then the controller gets further.
            if round % 8 == 7 {
                let now = self.lab.ingress("fickle", LIMIT).await?;
                ensure!(now == vip, "fickle had {vip} and got {now}");
            }
        }
        self.lab.await_order(LIMIT).await?;
        let events = self.lab.events_of("Service", "fickle").await?;
        let failed: Vec<_> = events.iter().filter(|event| event.contains("Error")).collect();
        ensure!(failed.is_empty(), "failures were told: {failed:?}");

        let change = Patch::Merge(json!({"spec": {"type": "ClusterIP"}}));
        self.services.patch("fickle", &PatchParams::default(), &change).await?;
        await_that("fickle has neither finalizer nor address", LIMIT, async || {
            let service = self.services.get("fickle").await?;
            let shown = ingresses(self.lab, "fickle").await?;
            ensure!(
                service.finalizers().is_empty() && shown.is_empty(),
                "{:?} {shown:?}",
                service.finalizers()
            );
            Ok(Some(()))
        })
        .await
    }

    /// It has its address back each time (allocation scenario 113), although another Service asked for any before: it was
    /// kept back.
    async fn deleted_and_made_again(&self) -> anyhow::Result<()> {
        let spec = || json!({"ports": [{"port": 80}]});
        self.make("again", spec()).await?;
        let vip = self.lab.ingress("again", LIMIT).await?;
        for round in 0..3 {
            self.services.delete("again", &DeleteParams::default()).await?;
            let stranger = format!("stranger-{round}");
            self.make(&stranger, spec()).await?;
            await_that("the name again may be used again", LIMIT, async || {
                self.make("again", spec()).await.map(Some)
            })
            .await?;
            let now = self.lab.ingress("again", LIMIT).await?;
            ensure!(now == vip, "again had {vip} and got {now}");
            let theirs = self.lab.ingress(&stranger, LIMIT).await?;
            ensure!(theirs != vip, "{stranger} got {vip} as well");
        }
        Ok(())
    }

    /// Classless Services and those of our class are served, each with its finalizer; of others nothing is touched.
    async fn classes(&self) -> anyhow::Result<()> {
        let of_class = |class: &str| json!({"ports": [{"port": 80}], "loadBalancerClass": class});
        self.make("theirs", of_class("example.com/other")).await?;
        let made = self.services.get("theirs").await?;
        self.make("ours", of_class("windlass.dev/windlass")).await?;
        self.lab.ingress("ours", LIMIT).await?;
        for (name, finalizer) in [("web", FINALIZER), ("ours", CLASS_FINALIZER)] {
            let service = self.services.get(name).await?;
            ensure!(service.finalizers() == [finalizer], "{name} has {:?}", service.finalizers());
        }
        self.seen("after-classes").await?;
        let now = self.services.get("theirs").await?;
        ensure!(
            now.resource_version() == made.resource_version(),
            "another class' Service was written: {now:?}"
        );
        let events = self.lab.events_of("Service", "theirs").await?;
        ensure!(events.is_empty(), "events about another class' Service: {events:?}");
        self.services.delete("theirs", &DeleteParams::default()).await?;
        Ok(())
    }

    /// Entries of the status and finalizers that others have put there stay, also when the Service is deleted.
    async fn foreign_parts(&self) -> anyhow::Result<()> {
        let theirs = [json!({"ip": "203.0.113.9", "ipMode": "VIP"}), json!({"hostname": "lb.example.com"})];
        let own = json!({"ip": self.vip, "ipMode": "VIP"});
        let all = [own, theirs[0].clone(), theirs[1].clone()];
        let params = PatchParams::default();
        let add = Patch::Merge(json!({"status": {"loadBalancer": {"ingress": all}}}));
        self.services.patch_status("web", &params, &add).await?;
        let finalizers = Patch::Merge(json!({"metadata": {"finalizers": [FINALIZER, "example.com/theirs"]}}));
        self.services.patch("web", &params, &finalizers).await?;
        let edit =
            Patch::Merge(json!({"spec": {"ports": [{"name": "http", "port": 8080, "targetPort": 8080}]}}));
        self.services.patch("web", &params, &edit).await?;
        self.seen("after-foreign").await?;
        let entries = self.entries().await?;
        ensure!(entries == all, "after an edit it shows {entries:?}");

        self.services.delete("web", &DeleteParams::default()).await?;
        await_that("only what is others' is left of web", LIMIT, async || {
            let (left, entries) = (self.services.get("web").await?, self.entries().await?);
            let finalizers = left.finalizers();
            ensure!(finalizers == ["example.com/theirs"] && entries == theirs, "{finalizers:?} {entries:?}");
            Ok(Some(()))
        })
        .await?;
        let nobodys = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        self.services.patch("web", &params, &nobodys).await?;
        ensure!(self.services.get_opt("web").await?.is_none(), "web is still there");
        Ok(())
    }

    /// The entries of the status of `web`.
    async fn entries(&self) -> anyhow::Result<Vec<Value>> {
        let status = self.services.get("web").await?.status.and_then(|status| status.load_balancer);
        let entries = status.and_then(|status| status.ingress).unwrap_or_default();
        Ok(entries.iter().map(serde_json::to_value).collect::<Result<_, _>>()?)
    }

    /// Waits until the controller serves a new Service: it has then seen all that was done before.
    async fn seen(&self, name: &str) -> anyhow::Result<()> {
        self.make(name, json!({"ports": [{"port": 80}]})).await?;
        self.lab.ingress(name, LIMIT).await.map(drop)
    }

    async fn make(&self, name: &str, mut spec: Value) -> anyhow::Result<()> {
        spec["type"] = "LoadBalancer".into();
        let service =
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
        let service = serde_json::from_value(service)?;
        let made = self.services.create(&PostParams::default(), &service).await;
        made.with_context(|| format!("making Service {name}")).map(drop)
    }
}

//! One address for several Services, and what becomes of it when the last one goes.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::api::DeleteParams;
use windlass_api::{ANNOTATION_ADDRESSES, ANNOTATION_SHARING_KEY, QuarantineReason};
use windlass_e2e::{Lab, Protocol, SERVICE_PORT, await_that, scenario};

use crate::setup::{
    LIMIT, annotate, await_answer, await_event, await_ingresses, await_verdict, lab, services,
};

// shows: allocation 26, 27; field-reports F-17, F-23
#[test]
fn shared_address_outlives_each_of_its_services_and_rests_after_the_last() -> anyhow::Result<()> {
    scenario("sharing", lab(), async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.210"]).await?;
        lab.backend("web", &["n3"]).await?;
        for name in ["tcp", "udp", "rival"] {
            lab.same_backend(name, "web")?;
        }
        lab.load_balancer("tcp", |service| shared(service, "TCP")).await?;
        let vip = lab.ingress("tcp", LIMIT).await?;
        lab.load_balancer("udp", |service| shared(service, "UDP")).await?;
        let same = lab.ingress("udp", LIMIT).await?;
        ensure!(same == vip, "tcp has {vip}, udp {same}");
        await_owners(lab, vip, &["tcp", "udp"]).await?;
        await_answer(lab, vip).await?;
        await_udp_answer(lab, vip).await?;

        // Neither the same port, nor without the key.
        lab.load_balancer("rival", |service| {
            shared(service, "TCP");
            annotate(service, ANNOTATION_ADDRESSES, &vip.to_string());
        })
        .await?;
        lab.load_balancer("alone", |service| annotate(service, ANNOTATION_ADDRESSES, &vip.to_string()))
            .await?;
        for (name, reason, words) in [
            ("rival", "False SharingRefused", &[&*vip.to_string(), "TCP", "80", "default/tcp"]),
            ("alone", "False AddressInUse", &[&*vip.to_string(), "default", "tcp", "held"]),
        ] {
            await_verdict(lab, "default", name, reason, &words[..3]).await?;
            await_event(lab, name, "SyncLoadBalancerFailed", &words[..1]).await?;
        }

        // The one that had it first leaves: the other is served on, and the rival can have its port.
        services(lab, "default").delete("tcp", &DeleteParams::default()).await?;
        ensure!(lab.ingress("rival", LIMIT).await? == vip, "rival was given another address");
        await_owners(lab, vip, &["udp", "rival"]).await?;
        await_answer(lab, vip).await?;
        await_udp_answer(lab, vip).await?;

        // Nobody is left: it is silent, and kept for those who had it.
        for name in ["alone", "rival", "udp"] {
            services(lab, "default").delete(name, &DeleteParams::default()).await?;
        }
        await_that(&format!("{vip} rests"), LIMIT, async || {
            let spec = lab.virtual_ip(vip).await?.context("its VirtualIP is gone")?.spec;
            let reason = spec.quarantine.as_ref().map(|quarantine| quarantine.reason);
            ensure!(reason == Some(QuarantineReason::Released), "{spec:?}");
            ensure!(lab.neighbours("c1", vip).await?.is_empty(), "somebody answers for it");
            Ok(Some(()))
        })
        .await?;
        lab.load_balancer("next", |_| ()).await?;
        let next = lab.ingress("next", LIMIT).await?;
        ensure!(next != vip, "a stranger was given {vip}");
        lab.load_balancer("thief", |service| annotate(service, ANNOTATION_ADDRESSES, &vip.to_string()))
            .await?;
        await_verdict(lab, "default", "thief", "False AddressInUse", &[&*vip.to_string()]).await?;
        lab.load_balancer("udp", |service| {
            shared(service, "UDP");
            annotate(service, ANNOTATION_ADDRESSES, &vip.to_string());
        })
        .await?;
        let back = await_ingresses(lab, "udp", 1).await?;
        ensure!(back == [vip], "udp had {vip} and got {back:?}");
        await_owners(lab, vip, &["udp"]).await?;
        await_udp_answer(lab, vip).await
    })
}

/// Lets a Service have its port of this protocol only, and share its address.
fn shared(service: &mut Service, protocol: &str) {
    let ports = &mut service.spec.get_or_insert_default().ports;
    ports.get_or_insert_default().retain(|port| port.protocol.as_deref() == Some(protocol));
    annotate(service, ANNOTATION_SHARING_KEY, "one");
}

async fn await_owners(lab: &Lab, vip: IpAddr, names: &[&str]) -> anyhow::Result<()> {
    await_that(&format!("{vip} is owned by {names:?}"), LIMIT, async || {
        let spec = lab.virtual_ip(vip).await?.context("its VirtualIP is gone")?.spec;
        let owners: Vec<_> = spec.owners.iter().map(|owner| &*owner.name).collect();
        ensure!(owners == names && spec.quarantine.is_none(), "{spec:?}");
        Ok(Some(()))
    })
    .await
}

async fn await_udp_answer(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    await_that(&format!("datagrams to {vip} are answered"), LIMIT, async || {
        let probe = lab.probe("c1", Protocol::Udp, vip, SERVICE_PORT, Duration::from_millis(10))?;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let outcome = probe.stop()?;
        ensure!(outcome.answered > 0, "{outcome:?}");
        Ok(Some(()))
    })
    .await
}

//! Who may reach a Service: the field, which kube-proxy enforces in part, the annotation, which it does not read, and the
//! guard, which closes what is left open.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use windlass_ccm::service::ANNOTATION_SOURCE_RANGES;
use windlass_e2e::{BACKEND_UDP, Lab, ProxyMode, SERVICE_PORT, Signal, await_that, scenario};

use crate::setup::{
    LIMIT, all_reset, annotate, await_answer, await_event, await_ingresses, await_verdict, dual_stack,
    ingresses, keep_open, lab, services,
};

/// Of the client `c1`; `c2` has other addresses.
const C1: [&str; 2] = ["192.0.2.101/32", "2001:db8::101/128"];

// shows: ccm-contract S-37; threats T-09; field-reports F-83
#[test]
fn only_source_ranges_reach_a_service_beside_kube_proxy_in_nftables_mode() -> anyhow::Result<()> {
    scenario("sources-nft", lab().client("c2"), async |lab| restricted(lab).await)
}

#[test]
fn only_source_ranges_reach_a_service_beside_kube_proxy_in_iptables_mode() -> anyhow::Result<()> {
    scenario("sources-ipt", lab().client("c2").proxy_mode(ProxyMode::Iptables), async |lab| {
        restricted(lab).await
    })
}

async fn restricted(lab: &Lab) -> anyhow::Result<()> {
    lab.deploy_windlass(&["n1", "n2"]).await?;
    lab.pool("default", &["192.0.2.200-192.0.2.250", "2001:db8::200-2001:db8::250"]).await?;
    lab.backend("web", &["n3"]).await?;
    lab.load_balancer("web", |service| {
        dual_stack(service);
        service.spec.get_or_insert_default().load_balancer_source_ranges = Some(vec![C1[0].into()]);
    })
    .await?;
    let vips = await_ingresses(lab, "web", 2).await?;
    let [v4, v6] = vips[..] else { anyhow::bail!("not one address of each family: {vips:?}") };
    await_answer(lab, v4).await?;
    for (host, vip) in [("c2", v4), ("c1", v6), ("c2", v6), ("n1", v4), ("n1", v6), ("n2", v6)] {
        shut(lab, host, vip).await.context("the field names c1's IPv4 address only")?;
    }
    // No agent guards n3. What kube-proxy does by itself: it keeps IPv4 closed, and leaves IPv6 open.
    shut(lab, "n3", v4).await.context("kube-proxy enforces the field")?;
    open(lab, "n3", v6).await.context("kube-proxy leaves open the family that no range is of")?;

    // Both families by the annotation, which kube-proxy does not read.
    edit(lab, json!({"spec": {"loadBalancerSourceRanges": null}, "metadata": {"annotations": {ANNOTATION_SOURCE_RANGES: C1.join(", ")}}}))
        .await?;
    for vip in [v4, v6] {
        open(lab, "c1", vip).await.context("the annotation names c1")?;
        for host in ["c2", "n1", "n2"] {
            shut(lab, host, vip).await.context("the annotation names c1 only")?;
        }
        open(lab, "n3", vip).await.context("kube-proxy does not read the annotation, and n3 has no agent")?;
    }

    // The API server refuses what is malformed; what is let through all the same closes.
    let malformed = json!({"metadata": {"annotations": {ANNOTATION_SOURCE_RANGES: "192.0.2.101"}}});
    let refused = edit(lab, malformed).await;
    ensure!(refused.is_err(), "the API server takes a malformed annotation");

    // Another Service on the same address has ranges of its own.
    edit(lab, json!({"metadata": {"annotations": {"windlass.dev/sharing-key": "k"}}})).await?;
    lab.same_backend("other", "web")?;
    lab.load_balancer("other", |service| {
        annotate(service, "windlass.dev/sharing-key", "k");
        annotate(service, ANNOTATION_SOURCE_RANGES, "192.0.2.102/32");
        let spec = service.spec.get_or_insert_default();
        spec.ports.iter_mut().flatten().for_each(|port| port.port = 81);
    })
    .await?;
    let shared = await_ingresses(lab, "other", 1).await?;
    ensure!(shared == [v4], "the address of other is {shared:?}, not {v4}");
    reaches(lab, "c2", v4, 81, true).await?;
    reaches(lab, "c1", v4, 81, false).await?;
    open(lab, "c1", v4).await?;
    shut(lab, "c2", v4).await?;

    // After an agent was killed and started again nobody else is let in.
    for node in ["n1", "n2"] {
        lab.stop_agent(node, Signal::SIGKILL).await?;
        shut(lab, node, v4).await.context("a killed agent's table stays")?;
        lab.start_agent(node)?;
    }
    await_answer(lab, v4).await?;
    for host in ["c2", "n1", "n2"] {
        shut(lab, host, v4).await.context("after a restart of the agents")?;
    }

    // A connection that is open ends with the range that let it in.
    let kept = keep_open(lab, &[v4, v6]).await?;
    edit(lab, json!({"metadata": {"annotations": {ANNOTATION_SOURCE_RANGES: "192.0.2.102/32"}}})).await?;
    for vip in [v4, v6] {
        shut(lab, "c1", vip).await.context("the annotation names c2 only")?;
    }
    all_reset(kept).context("the ranges exclude c1")?;

    // Whoever takes the ranges away opens it again, at the same address.
    edit(lab, json!({"metadata": {"annotations": {ANNOTATION_SOURCE_RANGES: null}}})).await?;
    for vip in [v4, v6] {
        open(lab, "c1", vip).await?;
        open(lab, "c2", vip).await?;
    }
    ensure!(ingresses(lab, "web").await? == [v4, v6], "the addresses changed");

    // A connection that is open ends with its port.
    let kept = keep_open(lab, &[v4, v6]).await?;
    let udp = json!({"name": "udp", "protocol": "UDP", "port": SERVICE_PORT, "targetPort": BACKEND_UDP});
    edit(lab, json!({"spec": {"ports": [udp]}})).await?;
    for vip in [v4, v6] {
        await_that(&format!("the connection to {vip} has ended"), LIMIT, async || {
            let open = lab.open_ports("c1", vip, SERVICE_PORT).await?;
            ensure!(open.is_empty(), "open from {open:?}");
            Ok(Some(()))
        })
        .await?;
    }
    all_reset(kept).context("the port is removed")
}

#[test]
fn a_service_that_no_node_can_guard_is_not_announced_and_says_why() -> anyhow::Result<()> {
    scenario("sources-off", lab(), async |lab| {
        lab.deploy_windlass(&[]).await?;
        for node in ["n1", "n2"] {
            lab.start_agent_with(node, &["--guard=false"])?;
        }
        lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
        lab.backend("web", &["n3"]).await?;
        lab.same_backend("field", "web")?;
        // kube-proxy sees to a field of the family by itself.
        lab.load_balancer("field", |service| {
            service.spec.get_or_insert_default().load_balancer_source_ranges = Some(vec![C1[0].into()]);
        })
        .await?;
        await_answer(lab, lab.ingress("field", LIMIT).await?).await?;
        lab.load_balancer("web", |service| annotate(service, ANNOTATION_SOURCE_RANGES, C1[0])).await?;
        let words = ["--guard=false", "source ranges"];
        await_verdict(lab, "default", "web", "False NotAnnounced", &words).await?;
        await_event(lab, "web", "SyncLoadBalancerFailed", &words).await?;
        ensure!(ingresses(lab, "web").await?.is_empty(), "an address without a guard is shown");
        // With a guard on one node that one serves it.
        lab.stop_agent("n2", Signal::SIGTERM).await?;
        lab.start_agent("n2")?;
        let vip = lab.ingress("web", LIMIT).await?;
        await_answer(lab, vip).await?;
        await_verdict(lab, "default", "web", "True Allocated", &[]).await?;
        let owner = lab.await_owner("c1", vip).await?;
        ensure!(owner == "n2", "{owner} has the address, and no guard");
        Ok(())
    })
}

// shows: threats T-03
/// As many elements of restrictions, and named ports, as the controller takes of a whole cluster (`source_budget.rs`), all on a
/// node. kube-proxy leaves them alone.
#[test]
fn agents_stay_within_their_memory_with_the_most_restrictions_and_ports_that_are_accepted()
-> anyhow::Result<()> {
    const PORTS: u32 = 1985;
    scenario("sources-most", lab(), async |lab| {
        lab.deploy_windlass(&["n1"]).await?;
        lab.pool("default", &["192.0.2.150-192.0.2.250"]).await?;
        let ranges: Vec<String> =
            (0..1023_u32).map(|at| format!("{}/32", Ipv4Addr::from(0x0a00_0000 + 2 * at))).collect();
        let restricted: Vec<String> = (0..8).map(|number| format!("restricted-{number}")).collect();
        let many: Vec<String> = (0..66).map(|number| format!("many-ports-{number}")).collect();
        for name in &restricted {
            lab.load_balancer(name, |service| {
                annotate(service, ANNOTATION_SOURCE_RANGES, &ranges.join(","));
                name_ports(service, 16);
            })
            .await?;
        }
        for name in &many {
            lab.load_balancer(name, |service| name_ports(service, PORTS)).await?;
        }
        for name in restricted.iter().chain(&many) {
            lab.ingress(name, LIMIT).await?;
        }
        let most: u64 = 256 << 10;
        let file = format!("/proc/{}/status", lab.process_id("n1", "agent")?);
        let status = std::fs::read_to_string(&file)?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context(file)?;
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
        println!("the agent has used {kilobytes} kB");
        ensure!(kilobytes <= most, "{kilobytes} kB, of which its manifest grants {most}");
        let log = std::fs::read_to_string(lab.logs().join("n1-agent.log"))?;
        ensure!(!log.contains("reason=Stalled"), "changes of the guard kept the engine from running:\n{log}");
        Ok(())
    })
}

/// Gives it so many ports, more than there are node ports, and keeps kube-proxy from it.
fn name_ports(service: &mut Service, count: u32) {
    let ports = (1..=count).map(|port| json!({"name": format!("p{port}"), "port": port}));
    let ports = ports.map(|port| serde_json::from_value(port).expect("a port"));
    let spec = service.spec.get_or_insert_default();
    (spec.ports, spec.allocate_load_balancer_node_ports) = (Some(ports.collect()), Some(false));
    let label = ("service.kubernetes.io/service-proxy-name".to_owned(), "none".to_owned());
    service.metadata.labels.get_or_insert_default().extend([label]);
}

async fn edit(lab: &Lab, change: serde_json::Value) -> anyhow::Result<()> {
    let api = services(lab, "default");
    api.patch("web", &PatchParams::default(), &Patch::Merge(change)).await.map(drop)?;
    Ok(())
}

async fn open(lab: &Lab, host: &str, vip: IpAddr) -> anyhow::Result<()> {
    reaches(lab, host, vip, SERVICE_PORT, true).await
}

async fn shut(lab: &Lab, host: &str, vip: IpAddr) -> anyhow::Result<()> {
    reaches(lab, host, vip, SERVICE_PORT, false).await
}

/// Waits until the host is answered, or until what it sends is dropped. A refusal is neither.
async fn reaches(lab: &Lab, host: &str, vip: IpAddr, port: u16, expected: bool) -> anyhow::Result<()> {
    let what = if expected { "is answered over" } else { "is kept out of" };
    await_that(&format!("{host} {what} {vip}:{port}"), LIMIT, async || {
        match lab.curl(host, vip, port).await {
            Ok(answer) => ensure!(expected && answer == "web-n3", "{answer:?} answered"),
            Err(error) => {
                let dropped =
                    format!("{error:#}").contains("timed out") || format!("{error:#}").contains("Timeout");
                ensure!(!expected && dropped, "{error:#}");
            }
        }
        Ok(Some(()))
    })
    .await
}

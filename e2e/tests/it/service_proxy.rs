//! Who takes the packets of Services beside the guard: kube-proxy in a mode that it works with, IPVS, or programs at the interfaces.
//!
//! IPVS and Cilium cannot run here. What the agent goes by is there as they make it: the answer of kube-proxy about its mode, and the
//! name of an interface.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
};

use anyhow::{Context as _, ensure};
use windlass_ccm::service::ANNOTATION_SOURCE_RANGES;
use windlass_e2e::{Lab, Signal, await_that, scenario};

use crate::setup::{LIMIT, annotate, await_answer, await_event_on, lab};

/// The client `c1`.
const C1: &str = "192.0.2.101/32";

/// Waits until the agent of n1 says so of who takes the packets.
async fn await_proxy(lab: &Lab, name: &str) -> anyhow::Result<()> {
    await_that(&format!("the agent of n1 finds {name}"), LIMIT, async || {
        let wanted = format!("windlass_agent_service_proxy{{proxy=\"{name}\"}} 1");
        let metrics = lab.agent_metrics("n1").await?;
        let told: Vec<_> =
            metrics.lines().filter(|line| line.starts_with("windlass_agent_service_proxy")).collect();
        ensure!(told == [&*wanted], "{told:?}");
        Ok(Some(()))
    })
    .await
}

// shows: threats T-11
#[test]
fn where_packets_are_taken_before_the_guard_no_restricted_address_is_announced_and_it_is_told()
-> anyhow::Result<()> {
    scenario("service-proxy-programs", lab(), async |lab| {
        lab.deploy_windlass(&["n1"]).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
        lab.backend("web", &["n3"]).await?;
        lab.same_backend("open", "web")?;
        lab.load_balancer("open", |_| ()).await?;
        lab.load_balancer("web", |service| annotate(service, ANNOTATION_SOURCE_RANGES, C1)).await?;
        let (open, restricted) = (lab.ingress("open", LIMIT).await?, lab.ingress("web", LIMIT).await?);
        await_answer(lab, open).await?;
        await_answer(lab, restricted).await?;
        await_proxy(lab, "nftables").await?;

        // An interface of that name means nothing while kube-proxy says that it is there.
        let pair = ["ip", "link", "add", "cilium_host", "type", "veth", "peer", "name", "cilium_net"];
        lab.exec("n1", &pair).await?;
        await_answer(lab, restricted).await?;
        lab.node("n1")?.kill("kube-proxy").await?;
        let words = ["Cilium", "before the agent's guard"];
        await_event_on(lab, "Node", "n1", "Unguarded", &words).await?;
        await_proxy(lab, "ebpf").await?;
        await_that(&format!("{restricted} says that nobody guards it"), LIMIT, async || {
            let vip = lab.virtual_ip(restricted).await?.context("no object")?;
            let announced = vip.announced().context("it says nothing yet")?;
            ensure!(announced.reason == "Unguarded" && announced.message.contains("Cilium"), "{announced:?}");
            Ok(Some(()))
        })
        .await?;
        let macs = lab.neighbours("c1", restricted).await?;
        ensure!(macs.is_empty(), "{macs:?} answer for {restricted}");
        await_answer(lab, open).await.context("what everybody may reach is announced as before")?;

        // The admin knows better.
        lab.stop_agent("n1", Signal::SIGTERM).await?;
        lab.start_agent_with("n1", &["--guard=true"])?;
        await_answer(lab, restricted).await?;

        // kube-proxy is back, and says what it is.
        lab.stop_agent("n1", Signal::SIGTERM).await?;
        lab.start_agent("n1")?;
        await_proxy(lab, "ebpf").await?;
        lab.node("n1")?.start_again("kube-proxy")?;
        await_answer(lab, restricted).await?;
        await_proxy(lab, "nftables").await
    })
}

// shows: threats T-11
#[test]
fn beside_ipvs_an_agent_starts_without_its_guard_which_would_refuse_what_ipvs_serves() -> anyhow::Result<()> {
    scenario("service-proxy-ipvs", lab(), async |lab| {
        lab.deploy_windlass(&["n1"]).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
        lab.backend("web", &["n3"]).await?;
        lab.load_balancer("web", |_| ()).await?;
        let vip = lab.ingress("web", LIMIT).await?;
        await_answer(lab, vip).await?;
        let table = ["nft", "list", "table", "inet", "windlass"];
        lab.exec("n1", &table).await?;

        lab.node("n1")?.kill("kube-proxy").await?;
        let listener = lab.within("n1", || TcpListener::bind("127.0.0.1:10249"))??;
        let (asks, asked) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                // Whoever goes away without an answer needs none.
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nipvs");
                let _ = asks.send(());
            }
        });
        // A word is no reason to end: anybody may answer there.
        asked.recv_timeout(LIMIT).context("the agent does not ask in which mode kube-proxy is")?;
        asked.recv_timeout(LIMIT).context("the agent asks once only")?;
        lab.process_id("n1", "agent")?;
        lab.exec("n1", &table).await?;
        await_answer(lab, vip).await?;

        lab.stop_agent("n1", Signal::SIGTERM).await?;
        lab.start_agent("n1")?;
        await_answer(lab, vip).await?;
        await_proxy(lab, "ipvs").await?;
        ensure!(lab.exec("n1", &table).await.is_err(), "the guard is there");
        await_event_on(lab, "Node", "n1", "Unguarded", &["IPVS", "nftables mode"]).await
    })
}

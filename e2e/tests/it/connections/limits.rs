//! A kernel that tells nothing of connections, and one that has no room for those of another node.

use std::{
    fs,
    net::{Ipv4Addr, UdpSocket},
};

use anyhow::{Context as _, ensure};
use windlass_e2e::{Lab, LoadOptions, Protocol, SERVICE_PORT, Signal, await_that, scenario};

use super::{await_condition, await_owner, await_replicated, metric, replicate};
use crate::setup::{LIMIT, await_answer, lab, served};

const CLIENTS: LoadOptions = LoadOptions { connections: 20, requests_per_second: 10 };
const EVENTS: &str = "net/netfilter/nf_conntrack_events";
const FULL: &str = "windlass_replication_table_full_total";

#[test]
fn without_events_or_room_in_the_kernel_it_is_told_and_all_is_as_with_forward() -> anyhow::Result<()> {
    scenario("connections-limits", lab(), async |lab| {
        let before = fs::read_to_string(format!("/proc/sys/{EVENTS}"))?;
        set(lab, "n1", EVENTS, "0").await?;
        replicate(lab, &["n1", "n2"]).await?;
        let vip = served(lab).await?;
        await_owner(lab, &[vip], "n1").await?;
        await_condition(lab, &[vip], "False ReplicationFailed", &["n1", "nf_conntrack_events"]).await?;
        let clients = lab.load("c1", vip, SERVICE_PORT, CLIENTS).await?;
        lab.stop_agent("n1", Signal::SIGTERM).await?;
        await_owner(lab, &[vip], "n2").await?;
        let seen = clients.stop()?;
        ensure!((seen.connections, seen.broken, seen.failed) == (20, 0, 0), "forwarded: {seen:?}");

        set(lab, "n1", EVENTS, before.trim()).await?;
        lab.start_agent("n1")?;
        await_replicated(lab, &[vip], "n1", "n2").await?;
        fill(lab, "n2").await?;
        let clients = lab.load("c1", vip, SERVICE_PORT, CLIENTS).await?;
        await_that("n2 tells that it has no room", LIMIT, async || {
            let refused = metric(lab, "n2", FULL).await?;
            ensure!(refused >= 20.0, "{refused} were refused");
            Ok(Some(()))
        })
        .await?;
        let known = lab.tracked("n2", Protocol::Tcp, vip).await?;
        ensure!(clients.ports().iter().all(|port| !known.contains(port)), "n2 knows {known:?}");
        lab.node("n1")?.pull_cable()?;
        await_owner(lab, &[vip], "n2").await?;
        // Those that nobody knows are reset; what begins is served.
        await_answer(lab, vip).await?;
        let seen = clients.stop()?;
        ensure!((seen.connections, seen.broken) == (20, 20), "{seen:?}");
        await_answer(lab, vip).await
    })
}

/// Sets a value of `/proc/sys` that each network namespace has for itself.
async fn set(lab: &Lab, node: &str, name: &str, value: &str) -> anyhow::Result<()> {
    let script = format!("echo {value} >/proc/sys/{name}");
    lab.exec(node, &["sh", "-c", &script]).await.map(drop)
}

/// Has the kernel of a node track so many flows that there is little room for more.
async fn fill(lab: &Lab, node: &str) -> anyhow::Result<()> {
    // So that they last.
    set(lab, node, "net/netfilter/nf_conntrack_udp_timeout", "600").await?;
    lab.within(node, || {
        let number = |name: &str| -> anyhow::Result<u32> {
            // Of the thread's network namespace.
            let text = fs::read_to_string(format!("/proc/sys/net/netfilter/{name}"))?;
            text.trim().parse().context("a number")
        };
        let (from, to) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("0.0.0.0:0")?);
        let port = to.local_addr()?.port();
        let full = number("nf_conntrack_max")? / 100 * 95;
        for at in 0..full {
            // What does not fit into the buffer of the receiver is lost, and tracked.
            from.send_to(b"", (Ipv4Addr::from_bits(0x7f01_0000 + at), port))?;
        }
        let tracked = number("nf_conntrack_count")?;
        ensure!(tracked >= full / 100 * 99, "{tracked} of {full} flows are tracked");
        Ok(())
    })?
}

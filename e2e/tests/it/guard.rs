//! What a virtual IP answers beside its Services' ports, under each kube-proxy mode.

use std::net::IpAddr;

use anyhow::ensure;
use windlass_e2e::{Lab, ProxyMode, SERVICE_PORT, Signal, await_that, scenario};

use crate::setup::{LIMIT, await_answer, lab, other, served};

/// A port that no Service has, but on which each node listens on all its addresses: kube-proxy's health.
const HOST_PORT: u16 = 10256;

// shows: field-reports F-58
#[test]
fn guard_answers_ping_and_refuses_what_no_service_takes_beside_kube_proxy_in_nftables_mode()
-> anyhow::Result<()> {
    scenario("guard-nft", lab(), async |lab| guarded(lab).await)
}

#[test]
fn guard_answers_ping_and_refuses_what_no_service_takes_beside_kube_proxy_in_iptables_mode()
-> anyhow::Result<()> {
    scenario("guard-ipt", lab().proxy_mode(ProxyMode::Iptables), async |lab| guarded(lab).await)
}

async fn guarded(lab: &Lab) -> anyhow::Result<()> {
    let vip = served(lab).await?;
    check(lab, vip).await?;

    // As well on the node that takes over, and on the one that comes back.
    let owner = lab.await_owner("c1", vip).await?;
    lab.node(&owner)?.pull_cable()?;
    lab.await_owner_other_than("c1", vip, &owner).await?;
    check(lab, vip).await?;
    lab.node(&owner)?.plug_cable()?;
    check(lab, vip).await?;

    // An agent that is ended takes its table along; one that is killed leaves it, and the next one makes it anew.
    let (first, second) = (owner.as_str(), other(&owner));
    lab.stop_agent(first, Signal::SIGTERM).await?;
    ensure!(!has_table(lab, first).await?, "{first} still has the table");
    lab.stop_agent(second, Signal::SIGKILL).await?;
    ensure!(has_table(lab, second).await?, "{second} lost the table");
    for node in [first, second] {
        lab.start_agent(node)?;
    }
    await_answer(lab, vip).await?;
    check(lab, vip).await
}

/// The Service answers, so does ping; every other port is refused at once, also one on which the node listens.
async fn check(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    await_answer(lab, vip).await?;
    let text = vip.to_string();
    await_that(&format!("{vip} answers ping"), LIMIT, async || {
        lab.exec("c1", &["ping", "-n", "-c", "1", "-W", "1", &text]).await?;
        Ok(Some(()))
    })
    .await?;
    for port in [HOST_PORT, SERVICE_PORT + 1] {
        let refused = format!(
            "curl -sS --noproxy '*' --max-time 2 http://{vip}:{port}/ 2>&1; [ $? -eq 7 ] && echo refused"
        );
        await_that(&format!("{vip}:{port} is refused at once"), LIMIT, async || {
            let said = lab.exec("c1", &["sh", "-c", &refused]).await?;
            ensure!(said.contains("refused"), "curl says {said:?}");
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}

async fn has_table(lab: &Lab, node: &str) -> anyhow::Result<bool> {
    Ok(lab.exec(node, &["nft", "list", "tables"]).await?.lines().any(|line| line == "table inet windlass"))
}

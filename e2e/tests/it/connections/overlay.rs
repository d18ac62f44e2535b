//! Pods that are reached by a tunnel.

use anyhow::{Context as _, ensure};
use windlass_e2e::{Lab, LoadOptions, SERVICE_PORT, await_that, scenario};

use super::{await_condition, await_owner, connections_condition, metric, replicate};
use crate::setup::{LIMIT, lab, served};

const CLIENTS: LoadOptions = LoadOptions { connections: 20, requests_per_second: 10 };

/// A tunnel between the nodes as flannel lays it, with its masquerade rules. Pods of other nodes are reached by it.
const FLANNEL: &str = r#"
    set -e
    ip link add flannel.1 type vxlan id 1 local "$own" dev eth0 dstport 8472 nolearning
    ip link set flannel.1 address "02:00:00:00:00:$n"
    ip addr add "203.0.113.$range/32" dev flannel.1
    ip link set flannel.1 up
    for other in 1 2 3; do
      if [ "$other" != "$n" ]; then
        range=$((other * 32 - 32))
        ip neigh add "203.0.113.$range" lladdr "02:00:00:00:00:$other" dev flannel.1 nud permanent
        bridge fdb add "02:00:00:00:00:$other" dev flannel.1 dst "192.0.2.1$other"
        ip route replace "203.0.113.$range/27" via "203.0.113.$range" dev flannel.1 onlink
      fi
    done
    echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
    nft -f - <<END
    table ip flannel {
      chain postrtg {
        type nat hook postrouting priority srcnat;
        meta mark & 0x4000 != 0 return
        ip saddr $pods ip daddr 203.0.113.0/24 return
        ip saddr 203.0.113.0/24 ip daddr $pods return
        ip saddr != $pods ip daddr $pods return
        ip saddr 203.0.113.0/24 masquerade fully-random
        ip saddr != 203.0.113.0/24 ip daddr 203.0.113.0/24 masquerade fully-random
      }
    }
END
"#;

async fn lay_flannel(lab: &Lab) -> anyhow::Result<()> {
    for n in 1..=3 {
        let range = n * 32 - 32;
        let variables = format!("n={n} own=192.0.2.1{n} range={range} pods=203.0.113.{range}/27");
        lab.exec(&format!("n{n}"), &["sh", "-c", &format!("{variables}\n{FLANNEL}")]).await?;
    }
    Ok(())
}

/// Sets the reverse-path filters of a node.
async fn filter(lab: &Lab, node: &str, value: u8) -> anyhow::Result<()> {
    for interface in ["eth0", "flannel.1"] {
        let set = format!("echo {value} >/proc/sys/net/ipv4/conf/{interface}/rp_filter");
        lab.exec(node, &["sh", "-c", &set]).await?;
    }
    Ok(())
}

/// Pods by VXLAN: with strict filters it is told, and all is as ever; where they let answers pass, connections go on.
#[test]
fn connections_across_vxlan_outlive_the_active_once_its_agent_has_found_that_answers_arrive()
-> anyhow::Result<()> {
    scenario("connections-vxlan", lab(), async |lab| {
        lay_flannel(lab).await?;
        for node in ["n1", "n2", "n3"] {
            filter(lab, node, 1).await?;
        }
        replicate(lab, &["n1", "n2"]).await?;
        let vip = served(lab).await?;
        let words = ["net.ipv4.conf.eth0.rp_filter", "set 2 for eth0 and flannel.1"];
        await_condition(lab, &[vip], "False NoWayBack", &words).await?;
        for node in ["n1", "n2"] {
            filter(lab, node, 2).await?;
        }
        // If the other one started first, this one takes the address once it has the connections.
        await_owner(lab, &[vip], "n1").await?;
        let words = ["n2 has", "203.0.113.64/27 (by flannel.1)", "net.ipv4.conf.flannel/1.rp_filter"];
        await_condition(lab, &[vip], "True Replicated", &words).await?;
        let left_out = lab.load("c1", vip, SERVICE_PORT, CLIENTS).await?.stop()?;
        ensure!(left_out.broken == 0, "backends that are left out are served: {left_out:?}");
        filter(lab, "n3", 2).await?;
        await_that("no backend is left out", LIMIT, async || {
            let told = connections_condition(lab, vip).await?.context("none")?;
            ensure!(told.status == "True" && !told.message.contains("with backends in"), "{told:?}");
            Ok(Some(()))
        })
        .await?;
        let clients = lab.load("c1", vip, SERVICE_PORT, CLIENTS).await?;
        await_that("the connections are told", LIMIT, async || {
            let told = metric(lab, "n1", "windlass_replicated_connections").await?;
            ensure!(told >= 20.0, "{told} are");
            Ok(Some(()))
        })
        .await?;
        lab.node("n1")?.pull_cable()?;
        await_owner(lab, &[vip], "n2").await?;
        let seen = clients.stop()?;
        ensure!(seen.broken == 0 && seen.connections == 20, "{seen:?}");
        Ok(())
    })
}

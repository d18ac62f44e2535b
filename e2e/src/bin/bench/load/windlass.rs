//! Windlass' side, with every setting as it is without an Announcement, but for `connections: Forward`.

use std::net::IpAddr;

use anyhow::ensure;
use serde_json::json;
use windlass_api::CONDITION_CONNECTIONS_REPLICATED;
use windlass_e2e::{Lab, await_that};

use super::{BACKEND, LIMIT, NODES, SERVICES};
use crate::system::{CLIENT, System};

/// A pool and the Services, whose addresses are ready.
pub(crate) async fn start(lab: &Lab, system: System) -> anyhow::Result<Vec<IpAddr>> {
    lab.deploy_windlass(&NODES).await?;
    if system == System::Forward {
        lab.announcement("load", json!({"connections": "Forward"})).await?;
    }
    lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
    lab.backend(SERVICES[0], servers(system)).await?;
    let policy = (system == System::Sharing).then_some("Local");
    let mut addresses = Vec::new();
    for name in SERVICES {
        lab.same_backend(name, SERVICES[0])?;
        lab.load_balancer(name, |service| {
            service.spec.get_or_insert_default().external_traffic_policy = policy.map(str::to_owned);
        })
        .await?;
        addresses.push(lab.ingress(name, LIMIT).await?);
    }
    for address in &addresses {
        await_ready(lab, system, *address).await?;
    }
    Ok(addresses)
}

/// Starts what ran on a node beside kube-proxy before the host was killed.
pub(crate) fn start_on(lab: &Lab, system: System, node: &str) -> anyhow::Result<()> {
    if servers(system).contains(&node) {
        lab.start_server_again(SERVICES[0], node)?;
    }
    lab.start_agent(node)
}

/// Waits until all other nodes have the connections to an address, or all nodes serve it, where the system does that.
pub(crate) async fn await_ready(lab: &Lab, system: System, address: IpAddr) -> anyhow::Result<()> {
    match system {
        System::Forward | System::Keepalived => Ok(()),
        System::Windlass => {
            await_that(&format!("all nodes have the connections to {address}"), LIMIT, async || {
                let owner = lab.await_owner(CLIENT, address).await?;
                let condition = lab.condition(address, CONDITION_CONNECTIONS_REPLICATED).await?;
                let is_ready = condition.as_ref().is_some_and(|one| names_all(&one.message, &owner));
                ensure!(is_ready, "{owner} announces it with {condition:?}");
                Ok(Some(()))
            })
            .await
        }
        System::Sharing => lab.await_shared(CLIENT, address, &NODES, LIMIT).await,
    }
}

/// Returns true if the message of `ConnectionsReplicated` is of the node that has the address now, and all others have the connections.
fn names_all(message: &str, owner: &str) -> bool {
    message.ends_with(&format!("continue there if node {owner} dies"))
        && NODES.iter().all(|node| message.contains(node))
}

/// The nodes with a server. Only nodes with an agent can share an address.
fn servers(system: System) -> &'static [&'static str] {
    match system {
        System::Windlass | System::Forward | System::Keepalived => &[BACKEND],
        System::Sharing => &NODES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_replicated_when_the_owner_reports_that_both_other_nodes_have_them() {
        let continues =
            |have: &str| format!("{have} the connections; connections to A continue there if node n1 dies");
        let end = "Connections to A end if node n1 dies: n2 and n3 are not known to have them".to_owned();
        let rows = [
            ("both have them", continues("n2 and n3 have"), "n1", true),
            ("one has them", continues("n2 has"), "n1", false),
            ("the report is the former owner's", continues("n2 and n3 have"), "n2", false),
            ("none has them", end, "n1", false),
        ];
        for (what, message, owner, expected) in rows {
            assert_eq!(names_all(&message, owner), expected, "{what}");
        }
    }
}

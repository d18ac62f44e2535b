//! etcd alone, and as a cluster whose members come and go.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::{DATA, ETCD};
use crate::{lab::Lab, topology::Host, wait::await_that};

/// Time limit until a cluster accepts another member: its members have to be connected for five seconds.
const LIMIT: Duration = Duration::from_mins(1);

/// Flags of the only member, which no other member reaches.
pub(super) fn alone() -> Vec<String> {
    let peers = "http://127.0.0.1:2380";
    command("lab", DATA, &[ETCD], peers, &format!("lab={peers}"), "new")
}

/// The member on this host of a cluster of these, which is `new` or `existing`.
pub(super) fn member(host: &Host, cluster: &str, state: &str) -> Vec<String> {
    let clients = format!("http://{}:2379", host.address);
    command(&host.name, &data(&host.name), &[ETCD, &clients], &peers(host), cluster, state)
}

/// Returns the members on these hosts as a value of `--initial-cluster`.
pub(super) fn cluster<'a>(hosts: impl Iterator<Item = &'a Host>) -> String {
    hosts.map(|host| format!("{}={}", host.name, peers(host))).collect::<Vec<_>>().join(",")
}

/// Data folder of the member on a host.
fn data(host: &str) -> String {
    format!("{DATA}-{host}")
}

/// Peer URL of the member on a host.
fn peers(host: &Host) -> String {
    format!("http://{}:2380", host.address)
}

fn command(name: &str, data: &str, clients: &[&str], peers: &str, cluster: &str, state: &str) -> Vec<String> {
    let clients = clients.join(",");
    let flags = [
        "etcd",
        &format!("--name={name}"),
        &format!("--data-dir={data}"),
        // The data is in memory anyway: there is nothing to be safe from.
        "--unsafe-no-fsync",
        &format!("--listen-client-urls={clients}"),
        &format!("--advertise-client-urls={clients}"),
        &format!("--listen-peer-urls={peers}"),
        &format!("--initial-cluster={cluster}"),
        &format!("--initial-cluster-state={state}"),
        &format!("--initial-advertise-peer-urls={peers}"),
        "--logger=zap",
    ];
    flags.map(str::to_owned).to_vec()
}

/// Status of a member of etcd.
struct Member {
    /// Id of the member.
    id: String,
    /// Id of the leader.
    leader: String,
}

impl Lab {
    /// Makes the host a member of the cluster that the member on `through` is of, with nothing of what it may have been before, and returns
    /// the cluster as etcd is told of it.
    pub(super) async fn add_etcd_member(&self, host: &Host, through: &str) -> anyhow::Result<String> {
        let own = peers(host);
        let is_own =
            |member: &Value| member["peerURLs"].as_array().is_some_and(|urls| urls.contains(&json!(own)));
        let members =
            |answer: &Value| answer["members"].as_array().cloned().context("an answer without members");
        let what = format!("etcd takes in {}", host.name);
        let all = await_that(&what, LIMIT, async || {
            let before = members(&self.ask_etcd(through, "cluster/member/list", json!({})).await?)?;
            if let Some(old) = before.iter().find(|member| is_own(member)) {
                self.ask_etcd(through, "cluster/member/remove", json!({"ID": old["ID"]})).await?;
            }
            let added = self.ask_etcd(through, "cluster/member/add", json!({"peerURLs": [own]})).await?;
            Ok(Some(members(&added)?))
        })
        .await?;
        self.sandbox.script(&format!("rm -rf {}", data(&host.name)))?;
        let named = |member: &Value| {
            // One that has never run has no name yet.
            let name = if is_own(member) { &*host.name } else { member["name"].as_str()? };
            Some(format!("{name}={}", member["peerURLs"][0].as_str()?))
        };
        let all: Option<Vec<String>> = all.iter().map(named).collect();
        Ok(all.context("a member without a name and a place")?.join(","))
    }

    /// Lets the member of this node lead etcd, and waits until it does.
    pub async fn lead_etcd(&self, node: &str) -> anyhow::Result<()> {
        await_that(&format!("the etcd of {node} leads"), LIMIT, async || {
            let wanted = self.etcd_member(node).await?;
            if wanted.leader == wanted.id {
                return Ok(Some(()));
            }
            for host in self.control_plane_nodes() {
                // One that is down does not lead.
                let Ok(member) = self.etcd_member(host.name()).await else { continue };
                if member.id == wanted.leader {
                    let transfer = json!({"targetID": wanted.id});
                    self.ask_etcd(host.name(), "maintenance/transfer-leadership", transfer).await?;
                }
            }
            anyhow::bail!("member {} leads", wanted.leader)
        })
        .await
    }

    async fn etcd_member(&self, node: &str) -> anyhow::Result<Member> {
        let status = self.ask_etcd(node, "maintenance/status", json!({})).await?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let told = text(&status["header"]["member_id"]).zip(text(&status["leader"]));
        let (id, leader) = told.with_context(|| format!("etcd on {node} knows no leader: {status}"))?;
        Ok(Member { id, leader })
    }

    async fn ask_etcd(&self, host: &str, what: &str, question: Value) -> anyhow::Result<Value> {
        let (url, question) = (format!("{ETCD}/v3/{what}"), question.to_string());
        let words = ["curl", "-sS", "--noproxy", "*", "--max-time", "5", "--data", &question, &url];
        let answer = self.exec(host, &words).await?;
        let answer: Value = serde_json::from_str(&answer).with_context(|| format!("{what}: {answer:?}"))?;
        ensure!(answer["error"].is_null(), "etcd on {host} refuses {what}: {}", answer["error"]);
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology;

    #[test]
    fn members_know_all_of_the_cluster_and_listen_to_their_own_node_and_to_the_lan() {
        let hosts = topology::hosts(0, 2, 0, &[]).unwrap();
        let all = cluster(hosts[1..].iter());
        assert_eq!(all, "cp1=http://192.0.2.21:2380,cp2=http://192.0.2.22:2380");
        let member = member(&hosts[2], &all, "existing");
        for flag in [
            "--name=cp2",
            "--data-dir=/run/lab/etcd-cp2",
            "--listen-client-urls=http://127.0.0.1:2379,http://192.0.2.22:2379",
            "--initial-advertise-peer-urls=http://192.0.2.22:2380",
            "--initial-cluster-state=existing",
        ] {
            assert!(member.iter().any(|word| word == flag), "{member:?} has no {flag}");
        }
    }
}

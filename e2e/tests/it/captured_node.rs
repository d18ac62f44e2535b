//! What the token of an agent, taken from its node, can write: what concerns that node, and nothing else. The attacker here is
//! `n3`, which is of the cluster and a candidate of nothing, or one of two candidates that speaks for the other.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{Event, Node, Service};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_api::{
    CONDITION_ANNOUNCED, NODE_CONDITION_REPORT_BELIEVED, NodeNetwork, VirtualIP, VirtualIPPool,
    VirtualRouter, announced,
};
use windlass_e2e::{Lab, Protocol, SERVICE_PORT, Signal, await_that, scenario};

use crate::setup::{LIMIT, await_answer, await_event_on, lab, other, router_of, served};

/// One write of an agent.
struct Write<'a> {
    /// The node whose token is used.
    node: &'a str,
    kind: &'a str,
    name: &'a str,
    status: bool,
    body: Value,
    /// What the refusal says.
    said: &'a str,
}

impl Write<'_> {
    /// Does it, and keeps nothing of it. Server-side apply for what is to be made, as agents do it.
    async fn dry_run(&self, lab: &Lab, account: &str) -> Result<(), kube::Error> {
        let client = lab.client_of(account).await.expect("a kubeconfig");
        match self.kind {
            "NodeNetwork" => self.patch(&Api::<NodeNetwork>::all(client)).await,
            "VirtualRouter" => self.patch(&Api::<VirtualRouter>::all(client)).await,
            "Event" => self.patch(&Api::<Event>::default_namespaced(client)).await,
            _ => self.patch(&Api::<VirtualIP>::all(client)).await,
        }
    }

    async fn patch<K>(&self, api: &Api<K>) -> Result<(), kube::Error>
    where
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let params = PatchParams { dry_run: true, ..PatchParams::apply("windlass-agent").force() };
        if self.status {
            let params = PatchParams { force: false, ..params };
            return api.patch_status(self.name, &params, &Patch::Merge(&self.body)).await.map(drop);
        }
        api.patch(self.name, &params, &Patch::Apply(&self.body)).await.map(drop)
    }
}

fn network(name: &str, owner: &str) -> Value {
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": owner, "uid": "0"});
    json!({
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "NodeNetwork",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"interfaces": [], "foreignRouters": []},
    })
}

fn event(component: &str, kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "forged", "namespace": "default"},
        "involvedObject": {"kind": kind, "name": name},
        "source": {"component": component},
        "type": "Warning",
        "reason": "Forged",
    })
}

fn claim(node: Option<&str>, status: &str) -> Value {
    let condition = json!({
        "type": CONDITION_ANNOUNCED, "status": status, "reason": announced::ACTIVE, "message": "forged",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    json!({"status": {"activeNode": node, "conditions": [condition]}})
}

/// The agent of `node` with another's object, or with what is not its own to say.
fn forbidden<'a>(router: &'a str, vip: &'a str, vacant: &'a str, active: &'a str) -> Vec<Write<'a>> {
    let passive = other(active);
    let write = |node, kind, name, status, body, said| Write { node, kind, name, status, body, said };
    let its_own = "writes the NodeNetwork of its own node and no other";
    let its_own_node = "writes events about its own Node and about nothing else";
    let no_candidate = "is no candidate of this VirtualRouter";
    let carries = "which carries this VirtualIP";
    let names = "says of its own node";
    let active_node =
        |node: &str, transitions: i64| json!({"status": {"activeNode": node, "transitions": transitions}});
    vec![
        write("n3", "NodeNetwork", "n1", false, network("n1", "n1"), its_own),
        write("n3", "NodeNetwork", "ghost", false, network("ghost", "n3"), its_own),
        write(
            "n3",
            "NodeNetwork",
            "n3",
            false,
            network("n3", "n1"),
            "belongs to that Node and to nothing else",
        ),
        write("n3", "Event", "forged", false, event("windlass-agent", "Node", "n1"), its_own_node),
        write("n3", "Event", "forged", false, event("windlass-agent", "Service", "n3"), its_own_node),
        write("n3", "Event", "forged", false, event("kubelet", "Node", "n3"), its_own_node),
        write("n3", "VirtualRouter", router, true, active_node("n3", 1), no_candidate),
        write("n3", "VirtualRouter", router, true, json!({"status": {"conditions": []}}), no_candidate),
        write(passive, "VirtualRouter", router, true, json!({"status": {"activeNode": null}}), names),
        write(active, "VirtualRouter", router, true, active_node(passive, 1), names),
        write(active, "VirtualRouter", router, true, active_node("n3", 1), names),
        write(active, "VirtualRouter", router, true, active_node(active, 1_000_000), "one at a time"),
        write("n3", "VirtualIP", vip, true, claim(Some("n3"), "True"), carries),
        write("n3", "VirtualIP", vip, true, claim(None, "False"), carries),
        write(active, "VirtualIP", vip, true, claim(Some(passive), "True"), names),
        write("n3", "VirtualIP", vacant, true, claim(Some("n3"), "True"), "which is in no VirtualRouter"),
        write("n3", "VirtualIP", vacant, true, claim(None, "False"), "which is in no VirtualRouter"),
        // Who announced it last may say that it does not any more, no more than that.
        write(active, "VirtualIP", vacant, true, claim(Some(active), "True"), "which is in no VirtualRouter"),
        write(active, "VirtualIP", vacant, true, claim(None, "True"), "which is in no VirtualRouter"),
    ]
}

// shows: field-reports F-63; threats T-12
#[test]
fn stolen_token_of_an_agent_writes_nothing_that_is_another_nodes() -> anyhow::Result<()> {
    scenario("captured-agent", lab(), async |lab| {
        let vip = served(lab).await?;
        let probe = lab.probe("c1", Protocol::Udp, vip, SERVICE_PORT, Duration::from_millis(10))?;
        let active = lab.await_owner("c1", vip).await?;
        let (router, vip_name) = (router_of(lab, vip).await?.name_any(), vip.to_string());
        // One that no virtual router carries, because no node is on its segment.
        let vips: Api<VirtualIP> = Api::all(lab.client());
        let mut vacant = lab.virtual_ip(vip).await?.context("no VirtualIP")?.spec;
        lab.stop_controller("controller", Signal::SIGTERM).await?;
        vacant.address = "203.0.113.77".parse()?;
        vacant.virtual_router = None;
        let vacant = VirtualIP::new("203.0.113.77", vacant);
        vips.create(&PostParams::default(), &vacant).await?;
        let was = Patch::Merge(claim(Some(&active), "True"));
        vips.patch_status("203.0.113.77", &PatchParams::default(), &was).await?;

        let writes = forbidden(&router, &vip_name, "203.0.113.77", &active);
        // A policy is in force a moment after it was made.
        await_that("the policies are in force", LIMIT, async || {
            let refused = writes[0].dry_run(lab, "agent-n3").await;
            Ok(refused.is_err().then_some(()))
        })
        .await?;
        for write in &writes {
            let Write { node, kind, name, body, said, .. } = write;
            let what = format!("{node} writes {kind} {name} {body}");
            let refused = write.dry_run(lab, &format!("agent-{node}")).await;
            let refusal = refused.err().with_context(|| format!("accepted: {what}"))?.to_string();
            ensure!(refusal.contains(said), "{what}: the refusal does not say {said:?}: {refusal}");
            ensure!(refusal.contains("windlass-agent-"), "{what}: the refusal names no policy: {refusal}");
            // Nor does a token of the account that is bound to no node.
            let refusal =
                write.dry_run(lab, "agent").await.err().with_context(|| format!("unbound: {what}"))?;
            ensure!(refusal.to_string().contains("bound to no node"), "{what}: {refusal}");
        }
        // What is not for agents at all is refused by their role.
        let thief: Api<VirtualIP> = Api::all(lab.client_of(&format!("agent-{active}")).await?);
        let seize = Patch::Merge(json!({"spec": {"virtualRouter": null}}));
        ensure!(thief.patch(&vip_name, &PatchParams::default(), &seize).await.is_err(), "it changed a spec");
        ensure!(thief.delete(&vip_name, &DeleteParams::default()).await.is_err(), "it deleted a VirtualIP");

        let still = lab.await_owner("c1", vip).await?;
        ensure!(still == active, "{active} announced the bystander's address, {still} does now");
        let outcome = probe.stop()?;
        // (A few may be under way when it stops.)
        ensure!(outcome.sent - outcome.answered < 10, "the bystander lost answers: {outcome:?}");
        Ok(())
    })
}

// shows: threats T-12
#[test]
fn policies_let_agents_write_all_that_they_have_to() -> anyhow::Result<()> {
    scenario("agents-under-policies", lab(), async |lab| {
        let vip = served(lab).await?;
        let n3 = Write {
            node: "n3",
            kind: "NodeNetwork",
            name: "n1",
            status: false,
            body: network("n1", "n1"),
            said: "",
        };
        await_that("the policies are in force", LIMIT, async || {
            Ok(n3.dry_run(lab, "agent-n3").await.is_err().then_some(()))
        })
        .await?;

        // A failover: the other one says that it is Active, of the router and of the address.
        let first = lab.await_owner("c1", vip).await?;
        lab.stop_agent(&first, Signal::SIGKILL).await?;
        let second = lab.await_owner_other_than("c1", vip, &first).await?;
        await_shown(lab, vip, Some(&second)).await?;
        await_that(&format!("the virtual router shows {second}"), LIMIT, async || {
            let status = router_of(lab, vip).await?.status.context("no status")?;
            ensure!(status.active_node.as_ref() == Some(&second), "{status:?}");
            Ok(Some(()))
        })
        .await?;
        // A NodeNetwork made anew.
        let networks: Api<NodeNetwork> = Api::all(lab.client());
        networks.delete(&first, &DeleteParams::default()).await?;
        lab.start_agent(&first)?;
        await_that(&format!("the NodeNetwork of {first} is there again"), LIMIT, async || {
            Ok(networks.get_opt(&first).await?.map(drop))
        })
        .await?;
        await_answer(lab, vip).await?;
        // A release: who announced it says that nobody does, though no virtual router carries it.
        let services: Api<Service> = Api::default_namespaced(lab.client());
        services.delete("web", &DeleteParams::default()).await?;
        await_shown(lab, vip, None).await?;
        let quarantined = lab.virtual_ip(vip).await?.context("no VirtualIP")?;
        let condition = quarantined.announced().context("nothing is said of it")?;
        ensure!(condition.reason == announced::QUARANTINED, "{condition:?}");
        Ok(())
    })
}

/// Waits until this node is shown to announce the address.
async fn await_shown(lab: &Lab, vip: std::net::IpAddr, node: Option<&str>) -> anyhow::Result<()> {
    await_that(&format!("{vip} is shown at {node:?}"), LIMIT, async || {
        let status = lab.virtual_ip(vip).await?.and_then(|vip| vip.status).context("no status")?;
        ensure!(status.active_node.as_deref() == node, "{status:?}");
        Ok(Some(()))
    })
    .await
}

// shows: field-reports F-18; threats T-13
#[test]
fn forged_report_takes_no_address_of_a_node_empties_no_pool_and_is_told() -> anyhow::Result<()> {
    scenario("forged-report", lab(), async |lab| {
        let vip = served(lab).await?;
        let probe = lab.probe("c1", Protocol::Udp, vip, SERVICE_PORT, Duration::from_millis(10))?;
        let owner = lab.await_owner("c1", vip).await?;
        let pools: Api<VirtualIPPool> = Api::all(lab.client());
        let available = async || -> anyhow::Result<i64> {
            let counts = pools.get("default").await?.status.and_then(|status| status.ipv4);
            Ok(counts.context("no counts")?.available)
        };
        let nodes = router_of(lab, vip).await?.spec.nodes;

        // n3 has a token of its own and no agent: it says that it has the addresses of the others, and all of the pool, that the halves of
        // the LAN are subnets of which it is the only node, and hears every VRID.
        let mut addresses = vec!["192.0.2.13/24".to_owned()];
        addresses.extend(["192.0.2.11/24".to_owned(), "192.0.2.12/24".to_owned()]);
        addresses.extend(["192.0.2.113/25".to_owned(), "192.0.2.141/25".to_owned()]);
        addresses.extend((200..=250).map(|n| format!("192.0.2.{n}/32")));
        let heard: Vec<Value> = (1..=255)
            .map(|vrid| json!({"interface": "eth0", "vrid": vrid, "source": "192.0.2.99", "version": 3}))
            .collect();
        let mut forged = network("n3", "n3");
        forged["spec"] = json!({
            "agentVersion": "forged",
            "interfaces": [{"name": "eth0", "mac": "02:00:00:00:00:99", "addresses": addresses}],
            "primaryAddresses": ["192.0.2.11"],
            "foreignRouters": heard,
        });
        let thief: Api<NodeNetwork> = Api::all(lab.client_of("agent-n3").await?);
        let params = PatchParams::apply("windlass-agent").force();
        thief.patch("n3", &params, &Patch::Apply(&forged)).await.context("n3 reports for itself")?;

        let words = ["report of node n3", "192.0.2.11, which is an address of Node n1", "192.0.2.12"];
        await_event_on(lab, "Node", "n3", "ReportDoubted", &words).await?;
        let api: Api<Node> = Api::all(lab.client());
        await_that("Node n3 says so for as long as it lasts, and no other Node does", LIMIT, async || {
            for node in api.list(&ListParams::default()).await? {
                let conditions = node.status.unwrap_or_default().conditions.unwrap_or_default();
                let told = conditions.iter().find(|one| one.type_ == NODE_CONDITION_REPORT_BELIEVED);
                let is_n3 = node.metadata.name.as_deref() == Some("n3");
                ensure!(
                    told.is_some_and(|one| one.status == "False") == is_n3,
                    "{:?}: {told:?}",
                    node.metadata.name
                );
            }
            Ok(Some(()))
        })
        .await?;
        // Another Service is served all the same, by the nodes that were there, and the pool has its addresses.
        lab.same_backend("two", "web")?;
        lab.load_balancer("two", |_| ()).await?;
        let two = lab.ingress("two", LIMIT).await?;
        await_answer(lab, two).await?;
        let places = router_of(lab, two).await?.spec.nodes;
        let has_place = |name: &str| places.iter().any(|node| node.name == name);
        ensure!(
            has_place("n1") && has_place("n2"),
            "the subnets of n3 alone decide who has {two}: {places:?}"
        );
        // 51, of which two are given, 8 are what the word of one node may keep back.
        await_that("the pool has what is left of it", LIMIT, async || {
            let left = available().await?;
            ensure!((41..=49).contains(&left), "{left} of 51 are available");
            Ok(Some(()))
        })
        .await?;
        for known in &nodes {
            let now = router_of(lab, vip).await?.spec.nodes;
            let same = now.iter().find(|node| node.name == known.name).context("a candidate is gone")?;
            ensure!(same.address == known.address, "{known:?} became {same:?}");
            let thief = now.iter().filter(|node| node.address == known.address).count();
            ensure!(thief == 1, "another candidate has the address of {}: {now:?}", known.name);
        }
        let still = lab.await_owner("c1", vip).await?;
        ensure!(still == owner, "{owner} announced the bystander's address, {still} does now");
        let outcome = probe.stop()?;
        // (A few may be under way when it stops.)
        ensure!(outcome.sent - outcome.answered < 10, "the bystander lost answers: {outcome:?}");
        Ok(())
    })
}

//! The same with real pods, as a Deployment rolls them.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use windlass_e2e::{Lab, Outcome, Protocol, SERVICE_PORT, Timeline, await_that, scenario};

/// How long a step may take on a busy machine: pods start and end in it.
const LIMIT: Duration = Duration::from_mins(3);
const DEPLOYMENT: &str = "web-n1";

// shows: field-reports F-37
#[test]
fn the_address_follows_the_pods_of_a_deployment_through_rollouts_of_both_kinds() -> anyhow::Result<()> {
    scenario("local-pods", Lab::builder().nodes(3).client("c1"), async |lab| {
        lab.deploy_windlass(&["n1", "n2", "n3"]).await?;
        lab.announcement("alone", json!({"loadSharing": "None"})).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
        lab.backend("web", &["n1"]).await?;
        // What a workload needs to lose nothing beside any load balancer: it goes on serving until the last one knows.
        let ends_well = json!({
            "terminationGracePeriodSeconds": 20,
            "containers": [{"name": "netexec", "lifecycle": {"preStop": {"sleep": {"seconds": 6}}}}],
        });
        roll(lab, json!({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}, "template": {"spec": ends_well}})).await?;
        lab.load_balancer("web", |service| {
            service.spec.get_or_insert_default().external_traffic_policy = Some("Local".into());
        })
        .await?;
        let vip = lab.ingress("web", LIMIT).await?;
        await_that(&format!("the pod answers at {vip}"), LIMIT, async || {
            lab.curl("c1", vip, SERVICE_PORT).await?;
            Ok(Some(()))
        })
        .await?;

        // Where the client takes the address to be, for the log of a failure.
        lab.start_process("c1", "neighbours", &["ip", "-ts", "-4", "monitor", "neigh"])?;
        let timeline = lab.timeline();
        let probe = lab.probe("c1", Protocol::Tcp, vip, SERVICE_PORT, Duration::from_millis(10))?;
        for node in ["n2", "n3", "n1"] {
            let on = json!({"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": node}}}});
            roll(lab, on).await?;
            let owner = lab.await_owner("c1", vip).await?;
            ensure!(owner == node, "the pod is on {node}, the address on {owner}");
        }
        tell("surging by one", &probe.stop()?, &timeline)?;

        // Two pods on two of three nodes, of which one at a time is missing.
        let apart = json!({"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]});
        let two = json!({
            "replicas": 2,
            "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": {"spec": {"nodeSelector": null, "affinity": {"podAntiAffinity": apart}}},
        });
        roll(lab, two).await?;
        let timeline = lab.timeline();
        let probe = lab.probe("c1", Protocol::Tcp, vip, SERVICE_PORT, Duration::from_millis(10))?;
        for round in 0..2 {
            roll(lab, json!({"template": {"metadata": {"annotations": {"round": format!("{round}")}}}}))
                .await?;
        }
        tell("one missing at a time", &probe.stop()?, &timeline)?;
        let owner = lab.await_owner("c1", vip).await?;
        let nodes = pods(lab).await?;
        ensure!(nodes.contains(&owner), "{owner} has the address, the pods are on {nodes:?}");
        Ok(())
    })
}

/// Says what the client saw. A request that is under way while the address moves breaks. Where the agents themselves say that they got
/// too little processor time for their adverts, the address moved more often than the pods.
fn tell(what: &str, outcome: &Outcome, timeline: &Timeline) -> anyhow::Result<()> {
    let lost = outcome.sent - outcome.answered;
    let told = timeline.text();
    let is_late = told.contains("see to it that the agent gets processor time");
    println!(
        "{what}: {lost} of {} requests lost, {} ms without an answer, agents late: {is_late}",
        outcome.sent,
        outcome.longest_gap.as_millis()
    );
    let percent = if is_late { 5 } else { 2 };
    ensure!(
        lost * 100 <= outcome.sent * percent,
        "{what}: more than {percent} % of the requests were lost: {outcome:?}\n{told}"
    );
    Ok(())
}

/// Changes the Deployment, and waits until all of its pods are as it says and the others are gone.
async fn roll(lab: &Lab, spec: Value) -> anyhow::Result<()> {
    let api: Api<Deployment> = Api::default_namespaced(lab.client());
    let change = Patch::Strategic(json!({"spec": spec}));
    let changed = api.patch(DEPLOYMENT, &PatchParams::default(), &change).await;
    let wanted = changed.with_context(|| format!("changing the Deployment: {spec}"))?;
    await_that(&format!("the Deployment is rolled: {spec}"), LIMIT, async || {
        let deployment = api.get(DEPLOYMENT).await?;
        let status = deployment.status.unwrap_or_default();
        let replicas = deployment.spec.replicas;
        ensure!(status.observed_generation >= wanted.metadata.generation, "it was not looked at yet");
        ensure!(status.updated_replicas == replicas && status.ready_replicas == replicas, "{status:?}");
        let left = pods(lab).await?;
        ensure!(
            Some(left.len()) == replicas.and_then(|count| usize::try_from(count).ok()),
            "pods on {left:?}"
        );
        Ok(Some(()))
    })
    .await
}

/// The node of each pod that is there, those that end included.
async fn pods(lab: &Lab) -> anyhow::Result<Vec<String>> {
    let api: Api<Pod> = Api::default_namespaced(lab.client());
    let pods = api.list(&ListParams::default().labels("app=web")).await?;
    let node = |pod: Pod| {
        let name = pod.name_any();
        pod.spec.and_then(|spec| spec.node_name).with_context(|| format!("{name} is on no node"))
    };
    pods.into_iter().map(node).collect()
}

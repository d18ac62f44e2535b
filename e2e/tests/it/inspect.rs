//! What `windlass status`, the lists and `windlass explain` answer in a real cluster, also while it is broken: the commands of
//! `docs/reference.md`.

use std::net::IpAddr;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{Event, Service};
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use serde_json::Value;
use windlass_e2e::{Lab, Signal, await_that, scenario, windlass_binary};

use crate::setup::{LIMIT, code_lines, settled_owner};

/// What a command printed, and its exit code.
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) text: String,
}

impl Answer {
    /// Fails unless all of these are in it.
    pub(crate) fn says(&self, parts: &[&str]) -> anyhow::Result<()> {
        for part in parts {
            ensure!(self.text.contains(part), "{part:?} is not in (code {}):\n{}", self.code, self.text);
        }
        Ok(())
    }
}

/// Asks as an admin. Standard error is part of the answer.
pub(crate) async fn ask(lab: &Lab, args: &str) -> anyhow::Result<Answer> {
    ask_on(lab, "cp", args).await
}

async fn ask_on(lab: &Lab, host: &str, args: &str) -> anyhow::Result<Answer> {
    let (binary, kubeconfig) =
        (windlass_binary()?.display().to_string(), lab.kubeconfig("admin").display().to_string());
    let script = format!("'{binary}' {args} --kubeconfig '{kubeconfig}' 2>&1; echo \"code $?\"");
    let said = lab.exec(host, &["sh", "-c", &script]).await?;
    let (text, code) = said.trim_end().rsplit_once("code ").context("no exit code")?;
    Ok(Answer { code: code.trim().parse()?, text: text.to_owned() })
}

/// Another load balancer, as far as `check` goes by it.
const RIVAL: &str = r#"
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: speaker}
spec:
  selector: {matchLabels: {app: metallb}}
  template:
    metadata: {labels: {app: metallb}}
    spec: {containers: [{name: speaker, image: "quay.io/metallb/speaker:v0.15.2"}]}
"#;

/// The commands of the page that ask, without the program's name.
fn commands() -> anyhow::Result<Vec<String>> {
    let lines = code_lines("docs/reference.md")?;
    let lines = lines.iter().filter_map(|line| line.strip_prefix("windlass "));
    let lines = lines.map(|line| line.split(" #").next().unwrap_or(line).trim().to_owned());
    // Those that do not end, or need a file of the shell or kubelets, or write, are run below or elsewhere.
    let asks = ["status", "check", "services", "pools", "nodes", "routers", "vips", "explain"];
    let lines = lines.filter(|line| !line.contains("--pairs"));
    Ok(lines.filter(|line| asks.iter().any(|ask| line.split(' ').next() == Some(ask))).collect())
}

#[test]
fn questions_are_answered_in_a_cluster_that_works_and_in_one_that_does_not() -> anyhow::Result<()> {
    let builder = Lab::builder().nodes(2).client("c1").light().without_proxy();
    scenario("inspect", builder, async |lab| {
        let empty = ask(lab, "status").await?;
        ensure!(empty.code == 4, "without definitions the answer is incomplete: {}", empty.text);
        empty.says(&["Kind VirtualIPs NotInstalled", "kubectl apply -f manifests/crds"])?;

        lab.deploy_windlass(&["n1", "n2"]).await?;
        lab.pool("default", &["192.0.2.200"]).await?;
        lab.load_balancer("web", |_| ()).await?;
        let vip = lab.ingress("web", LIMIT).await?;
        let owner = settled_owner(lab, vip).await?;
        let (first, second) = if owner == "n1" { ("n1", "n2") } else { ("n2", "n1") };
        let status = await_that("nothing is an error", LIMIT, async || {
            let status = ask(lab, "status").await?;
            Ok((status.code == 0).then_some(status))
        })
        .await?;
        status.says(&[
            "2 of 2 nodes have reported",
            "1 of type LoadBalancer: 1 served, none waits",
            "leads since",
        ])?;

        lab.apply(RIVAL).await?;
        let checked = ask(lab, "check -o wide").await?;
        ensure!(checked.code == 0, "check: code {}: {}", checked.code, checked.text);
        checked.says(&[
            "warning LoadBalancer MetalLB Rival",
            "DaemonSet default/speaker",
            "windlass convert metallb",
        ])?;
        let checked = ask_on(lab, second, "check --host --listen-seconds=1 -o wide").await?;
        ensure!(checked.code == 0, "check --host: code {}: {}", checked.code, checked.text);
        let routers = ask(lab, "routers -o json").await?;
        let vrid = serde_json::from_str::<Value>(&routers.text)?[0]["vrid"].clone();
        checked.says(&[&format!("VRID {vrid} of 192.0.2."), "nf_conntrack_max"])?;
        for command in commands()? {
            let answer = ask(lab, &command).await?;
            ensure!(answer.code == 0, "{command}: code {}: {}", answer.code, answer.text);
            ensure!(!answer.text.trim().is_empty(), "{command} says nothing");
        }
        let path = ask(lab, "explain web").await?;
        path.says(&[
            "pool default lists it",
            &format!("by node {first}"),
            "nothing is wrong with it",
            "VRID",
        ])?;
        let vips = ask(lab, "vips -o json").await?;
        let vips: Value = serde_json::from_str(&vips.text)?;
        ensure!(vips[0]["address"] == vip.to_string() && vips[0]["node"] == first, "{vips}");

        addresses_leave_a_node_and_come_back(lab, first, second, vip).await?;
        let refused = ask(lab, &format!("release {vip}")).await?;
        ensure!(refused.code == 1, "{}", refused.text);
        refused.says(&["in use by default/web"])?;

        lab.load_balancer("second", |_| ()).await?;
        let waiting = await_that("the second Service waits", LIMIT, async || {
            let answer = ask(lab, "explain second").await?;
            Ok((answer.code == 3).then_some(answer))
        })
        .await?;
        waiting.says(&["NoFreeAddress", "do: add addresses", "1. default (priority 100)"])?;
        await_that("the status has what waits, and the pool that is full", LIMIT, async || {
            let status = ask(lab, "status").await?;
            ensure!(status.code == 3, "{}", status.text);
            status.says(&[
                "error Service default/second NoFreeAddress",
                "warning VirtualIPPool default Full",
            ])?;
            Ok(Some(()))
        })
        .await?;

        lab.stop_agent(first, Signal::SIGKILL).await?;
        let beginning = format!(
            "{vip} is announced by node {second}, before by node {first}: node {first} stopped sending \
             adverts"
        );
        await_that("the Service is told of its new node", LIMIT, async || {
            let events: Api<Event> = Api::default_namespaced(lab.client());
            let of_moves =
                ListParams::default().fields("reason=AnnouncingNodeChanged,involvedObject.name=web");
            let told = events.list(&of_moves).await?.items.into_iter().filter_map(|event| event.message);
            let told: Vec<String> = told.collect();
            ensure!(told.iter().any(|message| message.starts_with(&beginning)), "{told:?}");
            Ok(Some(()))
        })
        .await?;
        ask(lab, &format!("explain {vip}"))
            .await?
            .says(&[&format!("by node {second}"), "AnnouncingNodeChanged"])?;

        what_somebody_who_helps_gets_has_all_of_it(lab).await?;
        let services: Api<Service> = Api::default_namespaced(lab.client());
        for name in ["second", "web"] {
            services.delete(name, &DeleteParams::default()).await?;
        }
        let released = await_that("the address is kept back, and released", LIMIT, async || {
            let released = ask(lab, &format!("release {vip}")).await?;
            ensure!(released.code == 0, "{}", released.text);
            Ok(Some(released))
        })
        .await?;
        released.says(&["any Service may be given it"])?;
        ensure!(lab.virtual_ip(vip).await?.is_none(), "{vip} is kept back still");

        lab.stop_api_server().await?;
        let silent = ask(lab, "status --timeout-seconds=5").await?;
        ensure!(silent.code == 4, "{}", silent.text);
        silent.says(&["Kind Services Unreachable", "announce addresses without it"])?;
        lab.start_api_server().await
    })
}

async fn addresses_leave_a_node_and_come_back(
    lab: &Lab,
    first: &str,
    second: &str,
    vip: IpAddr,
) -> anyhow::Result<()> {
    let planned = ask(lab, &format!("drain {first} --dry-run")).await?;
    ensure!(planned.code == 0, "{}", planned.text);
    planned.says(&["would be drained", &format!("1 addresses   to {second}")])?;
    ensure!(lab.await_owner("c1", vip).await? == first, "a dry run has moved it");
    let drained = ask(lab, &format!("drain {first}")).await?;
    ensure!(drained.code == 0, "{}", drained.text);
    await_said_to_be_with(lab, vip, second).await?;
    let back = ask(lab, &format!("undrain {first}")).await?;
    ensure!(back.code == 0, "{}", back.text);
    await_said_to_be_with(lab, vip, first).await?;

    let planned = ask(lab, &format!("move {vip} --to {second} --dry-run")).await?;
    ensure!(planned.code == 0, "{}", planned.text);
    planned.says(&[
        &format!("{vip} of default/web"),
        "TCP connections continue",
        &format!("from node {first} to node {second}"),
    ])?;
    ensure!(lab.await_owner("c1", vip).await? == first, "a dry run has moved it");
    let refused = ask(lab, &format!("move {vip} --to n9")).await?;
    ensure!(refused.code == 1, "{}", refused.text);
    refused.says(&["there is no Node of that name"])?;
    let moved = ask(lab, &format!("move {vip} --to {second}")).await?;
    ensure!(moved.code == 0, "{}", moved.text);
    await_said_to_be_with(lab, vip, second).await?;
    ask(lab, &format!("explain {vip}")).await?.says(&["an admin wants it to have the addresses"])?;
    let undone = ask(lab, &format!("move {vip} --undo")).await?;
    ensure!(undone.code == 0, "{}", undone.text);
    await_said_to_be_with(lab, vip, first).await
}

async fn await_said_to_be_with(lab: &Lab, vip: IpAddr, node: &str) -> anyhow::Result<()> {
    await_that(&format!("{vip} is announced by node {node}, and said to be"), LIMIT, async || {
        let owner = lab.await_owner("c1", vip).await?;
        ensure!(owner == node, "{owner} has it");
        let path = ask(lab, &format!("explain {vip}")).await?;
        ensure!(path.text.contains(&format!("by node {node}")), "{}", path.text);
        Ok(Some(()))
    })
    .await
}

async fn what_somebody_who_helps_gets_has_all_of_it(lab: &Lab) -> anyhow::Result<()> {
    let file = format!("/tmp/windlass-bundle-{}.json", std::process::id());
    let made = ask(lab, &format!("bundle {file}")).await?;
    ensure!(made.code == 0, "{}", made.text);
    let again = ask(lab, &format!("bundle {file}")).await?;
    ensure!(again.code == 1, "it was written over: {}", again.text);
    let bundle: Value = serde_json::from_str(&lab.exec("cp", &["cat", &file]).await?)?;
    lab.exec("cp", &["rm", &file]).await?;
    ensure!(bundle["services"].as_array().is_some_and(|all| all.len() >= 2), "{bundle}");
    ensure!(bundle["nodeNetworks"].as_array().is_some_and(|all| all.len() == 2), "{bundle}");
    Ok(())
}

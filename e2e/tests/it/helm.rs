//! Helm puts Windlass beside a foreign cloud-controller-manager, on real kubelets without `--cloud-provider=external`: the commands of
//! `docs/install.md` that Helm needs, one by one.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::{
    api::{
        apps::v1::DaemonSet,
        core::v1::{Node, Pod},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, PostParams},
};
use serde_json::json;
use windlass_api::VirtualIPPool;
use windlass_e2e::{Lab, await_that, scenario, workspace};

use crate::setup::{code_lines, ingresses, words_in};

const LIMIT: Duration = Duration::from_mins(3);
const NAMESPACE: &str = "windlass-system";
const PAGE: &str = "docs/install.md";

#[test]
fn beside_a_foreign_cloud_controller_manager_helm_installs_a_load_balancer_only_and_takes_it_away()
-> anyhow::Result<()> {
    let builder = Lab::builder().nodes(2).client("c1").without_cloud_provider();
    scenario("helm", builder, async |lab| {
        foreign_manager(lab).await?;
        let page = commands()?;
        let [create, label, install, test, upgrade, uninstall] = &page[..] else {
            anyhow::bail!("{PAGE} has other commands for Helm: {page:?}")
        };
        lab.backend("web", &["n2"]).await?;
        for command in [create, label] {
            run(lab, command).await?;
        }

        // As the page does not have it: where another has the place, it is told who, and what to do.
        let (name, _) = install.split_once(" --values").context("the page installs without values")?;
        run(lab, name).await?;
        refused(lab).await?;

        let values = install.split_once(" --values").map(|(_, values)| values).unwrap_or_default();
        run(lab, &format!("helm upgrade windlass manifests/chart --namespace {NAMESPACE} --values{values}"))
            .await?;
        lab.await_windlass_pods().await?;
        lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
        lab.load_balancer("web", |_| ()).await?;
        let vip = lab.ingress("web", LIMIT).await?;
        await_that("web answers the client", LIMIT, async || {
            Ok((lab.curl("c1", vip, 80).await? == "web-n2").then_some(()))
        })
        .await?;
        for node in Api::<Node>::all(lab.client()).list(&ListParams::default()).await? {
            let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref());
            ensure!(id.is_none(), "{} was given the provider ID {id:?}", node.name_any());
        }
        run(lab, test).await?;

        run(lab, upgrade).await?;
        lab.kubectl(&[
            "-n",
            NAMESPACE,
            "rollout",
            "status",
            "--timeout=55s",
            "deployment/windlass-controller",
        ])
        .await?;
        lab.await_windlass_pods().await?;
        ensure!(ingresses(lab, "web").await? == [vip], "the address changed with an upgrade");

        run(lab, uninstall).await?;
        let pods: Api<Pod> = Api::namespaced(lab.client(), NAMESPACE);
        await_that("all pods are gone", LIMIT, async || {
            let left = pods.list_metadata(&ListParams::default()).await?.items;
            ensure!(left.is_empty(), "{} are left", left.len());
            Ok(Some(()))
        })
        .await?;
        let crds: Api<CustomResourceDefinition> = Api::all(lab.client());
        for crd in windlass_api::all_crds() {
            let name = crd.metadata.name.unwrap_or_default();
            ensure!(crds.get_opt(&name).await?.is_some(), "{name} went with the release");
        }
        let pools: Api<VirtualIPPool> = Api::all(lab.client());
        ensure!(pools.get_opt("default").await?.is_some(), "the pool went with the release");
        ensure!(ingresses(lab, "web").await? == [vip], "the Service lost its address");
        Ok(())
    })
}

/// The lease of cloud-controller-managers is held by a program that is none of ours, and on `n1` a process has their port.
async fn foreign_manager(lab: &Lab) -> anyhow::Result<()> {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "cloud-controller-manager", "namespace": "kube-system"},
        "spec": {"holderIdentity": "server-1_4b1c", "leaseDurationSeconds": 3600, "renewTime": "2026-01-01T00:00:00.000000Z"},
    });
    let leases = Api::namespaced(lab.client(), "kube-system");
    let as_k3s = PostParams { field_manager: Some("k3s".into()), ..PostParams::default() };
    leases
        .create(&as_k3s, &serde_json::from_value::<k8s_openapi::api::coordination::v1::Lease>(lease)?)
        .await?;
    let port: DaemonSet = serde_json::from_value(json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "foreign"},
        "spec": {
            "selector": {"matchLabels": {"app": "foreign"}},
            "template": {
                "metadata": {"labels": {"app": "foreign"}},
                "spec": {
                    "hostNetwork": true,
                    "nodeSelector": {"kubernetes.io/hostname": "n1"},
                    "containers": [{
                        "name": "foreign",
                        "image": "windlass.lab/agnhost:lab",
                        "args": ["netexec", "--http-port=10258"],
                    }],
                },
            },
        },
    }))?;
    let daemon_sets: Api<DaemonSet> = Api::default_namespaced(lab.client());
    daemon_sets.create(&PostParams::default(), &port).await?;
    await_that("a foreign process has port 10258 on n1", LIMIT, async || {
        let status = daemon_sets.get("foreign").await?.status;
        Ok(status.filter(|status| status.number_ready == 1).map(drop))
    })
    .await
}

/// Waits until the controller on `n1` has ended for want of the port, and the one on `n2` is not ready for want of the lease; both say it.
async fn refused(lab: &Lab) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(lab.client(), NAMESPACE);
    let of = ListParams::default().labels("app.kubernetes.io/component=controller");
    await_that("the controller on n1 says who has the port", LIMIT, async || {
        let said = pods.list(&of).await?.items.into_iter().filter_map(|pod| pod.status);
        let containers = said.flat_map(|status| status.container_statuses.unwrap_or_default());
        let ends = containers.flat_map(|one| one.last_state.into_iter().chain(one.state));
        let messages: Vec<String> =
            ends.filter_map(|state| state.terminated).filter_map(|end| end.message).collect();
        let told = |message: &String| message.contains("10258") && message.contains("ss -ltnp");
        ensure!(messages.iter().any(told), "{messages:?}");
        Ok(Some(()))
    })
    .await?;
    await_that("the controller on n2 says who has the lease, and is not ready", LIMIT, async || {
        let mut said = String::new();
        for pod in pods.list(&of).await? {
            let (name, status) = (pod.name_any(), pod.status.unwrap_or_default());
            let ready = status.container_statuses.unwrap_or_default().iter().any(|one| one.ready);
            ensure!(!ready, "{name} is ready");
            said += &lab.kubectl(&["-n", NAMESPACE, "logs", &name]).await.unwrap_or_default();
        }
        let told = ["server-1_4b1c", "program k3s", "--leader-elect-resource-name"];
        ensure!(told.iter().all(|words| said.contains(words)), "{said}");
        Ok(Some(()))
    })
    .await
}

/// Commands of the page for Helm and for its namespace, with continued lines joined.
fn commands() -> anyhow::Result<Vec<String>> {
    let text = code_lines(PAGE)?.join("\n").replace(" \\\n", " ");
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let namespace = format!(" namespace {NAMESPACE}");
    Ok(lines.filter(|line| line.starts_with("helm ") || line.contains(&namespace)).collect())
}

/// Runs a command of the page on the lab's own image.
async fn run(lab: &Lab, command: &str) -> anyhow::Result<String> {
    let mut words = words_in(&workspace(), command);
    let program = words.remove(0);
    if matches!(&*words[0], "install" | "upgrade") {
        words.extend(["--set".to_owned(), "image.tag=dev".to_owned()]);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ran = match &*program {
        "kubectl" => lab.kubectl(&words).await,
        "helm" => lab.helm(&words).await,
        other => anyhow::bail!("{PAGE}: {other} is none of its programs"),
    };
    ran.with_context(|| format!("`{command}` of {PAGE}"))
}

//! The whole path with real kubelets: Windlass in pods, from its manifests, as the README has it.

use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, api::ListParams};
use windlass_e2e::{Lab, Protocol, SERVICE_PORT, await_that, scenario, workspace};

use crate::inspect;
use crate::setup::{code_lines, run_commands};

const LIMIT: Duration = Duration::from_mins(3);

#[test]
fn service_gets_an_address_its_node_dies_and_the_client_still_reaches_it() -> anyhow::Result<()> {
    scenario("whole-path", Lab::builder().nodes(3).client("c1"), async |lab| {
        lab.deploy_windlass(&["n1", "n2", "n3"]).await?;
        let nodes: Api<Node> = Api::all(lab.client());
        await_that("every node is initialized and Ready", LIMIT, async || {
            for node in nodes.list(&ListParams::default()).await?.items {
                let name = node.metadata.name.unwrap_or_default();
                let taints = node.spec.unwrap_or_default().taints.unwrap_or_default();
                ensure!(taints.is_empty(), "{name} has taints {taints:?}");
                let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
                ensure!(
                    conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"),
                    "{name} is not Ready"
                );
            }
            Ok(Some(()))
        })
        .await?;

        whether_vrrp_passes_between_nodes_is_tried(lab).await?;
        run_commands(lab, "README.md", &[]).await?;

        lab.backend("web", &["n1", "n2", "n3"]).await?;
        lab.load_balancer("web", |_| ()).await?;
        let vip = lab.ingress("web", LIMIT).await?;
        let owner = lab.await_owner("c1", vip).await?;
        await_that("the client is answered", LIMIT, async || {
            Ok(Some(lab.curl("c1", vip, SERVICE_PORT).await?))
        })
        .await?;

        let probe = lab.probe("c1", Protocol::Tcp, vip, SERVICE_PORT, Duration::from_millis(5))?;
        lab.node(&owner)?.pull_cable()?;
        lab.await_owner_other_than("c1", vip, &owner).await?;
        await_that("the client is answered by another node's backend", LIMIT, async || {
            let answer = lab.curl("c1", vip, SERVICE_PORT).await?;
            ensure!(!answer.ends_with(&owner), "{answer} answered");
            Ok(Some(()))
        })
        .await?;
        println!("whole path: {} ms without an answer", probe.stop()?.longest_gap.as_millis());
        lab.node(&owner)?.plug_cable()?;
        lab.await_owner("c1", vip).await?;
        let address = vip.to_string();
        let names = [("SERVICE", "web"), ("NODE", "n1"), ("ADDRESS", &*address)];
        for page in ["docs/getting-started.md", "docs/troubleshooting.md", "docs/operations.md"] {
            run_commands(lab, page, &names).await?;
        }
        await_that("windlass status finds no error, and the pods", LIMIT, async || {
            let status = inspect::ask(lab, "status").await?;
            ensure!(status.code == 0, "{}", status.text);
            status.says(&["3 of 3 nodes have reported", "3 of 3 pods ready"])?;
            Ok(Some(()))
        })
        .await
    })
}

/// Before any Service is there, so that no node is Active for anything.
async fn whether_vrrp_passes_between_nodes_is_tried(lab: &Lab) -> anyhow::Result<()> {
    let check = "check --pairs --listen-seconds=2 -o wide";
    let checked = inspect::ask(lab, check).await?;
    checked.says(&["3 of 3 nodes tried it", "multicast of VRRP passes in 6 of 6 directions by IPv4"])?;
    ensure!(!checked.text.contains("VRRPBlocked"), "{}", checked.text);

    lab.filter_multicast_on(&[("n1", "n2")])?;
    let checked = inspect::ask(lab, check).await?;
    checked.says(&[
        "WithoutMulticast",
        "n1 sent did not arrive at n2 by IPv4, though unicast did",
        "5 of 6",
    ])?;
    lab.filter_multicast(false)?;

    let firewall = "nft -f - <<'E'\ntable inet firewall { chain in { type filter hook prerouting priority -300; meta l4proto 112 drop; }; }\nE";
    lab.exec("n3", &["sh", "-c", firewall]).await?;
    let checked = inspect::ask(lab, check).await?;
    checked.says(&["VRRPBlocked", "n1, n2 sent arrived at n3 by IPv4, neither by multicast", "4 of 6"])?;
    ensure!(checked.code == 3, "code {}: {}", checked.code, checked.text);
    lab.exec("n3", &["nft", "delete", "table", "inet", "firewall"]).await?;

    let none = format!("{check} --image=windlass:none");
    inspect::ask(lab, &none).await?.says(&["NotTried", "its pod cannot start: ErrImage", "windlass:none"])?;

    let pods: Api<Pod> = Api::all(lab.client());
    let ours = ListParams::default().labels("app.kubernetes.io/name=windlass-check");
    await_that("no pod of a trial is left", LIMIT, async || {
        Ok(pods.list(&ours).await?.items.is_empty().then_some(()))
    })
    .await
}

#[test]
fn readme_names_only_commands_that_exist() -> anyhow::Result<()> {
    let makefile = std::fs::read_to_string(workspace().join("Makefile"))?;
    let targets: Vec<String> = code_lines("README.md")?
        .iter()
        .filter_map(|line| {
            line.strip_prefix("make ").map(|rest| rest.split_whitespace().next().unwrap_or("").to_owned())
        })
        .collect();
    ensure!(targets.contains(&"demo".to_owned()) && targets.contains(&"test".to_owned()), "{targets:?}");
    for target in targets {
        ensure!(
            makefile.contains(&format!("\n{target}: ## ")),
            "README: `make {target}` is not in the Makefile"
        );
    }
    Ok(())
}

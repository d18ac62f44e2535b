//! The admin's lists of machines that are gone or off (`--cloud-config`), edited while the controller runs.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use windlass_e2e::{Lab, await_that, workspace};

use super::{await_told, has_taint, look, make, nodes};
use crate::setup::LIMIT;

const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
const HEAD: &str = "apiVersion: windlass.dev/v1alpha1\nkind: CloudConfig\n\
                    nodeMetadata: [{nodes: [good-*], zone: rack-1}]\n";
/// All but `gone` stay, each for another reason.
const KEPT: [&str; 6] = ["is-ready", "not-listed", "ahead", "silent", "taken-off", "off"];

/// Writes a file that lists nothing; returns its path.
pub(super) fn first(lab: &Lab) -> anyhow::Result<PathBuf> {
    write(lab, "")
}

fn write(lab: &Lab, body: &str) -> anyhow::Result<PathBuf> {
    let path = lab.folder().join("cloud-config.yaml");
    // As a mounted ConfigMap changes: at once.
    let new = lab.folder().join("cloud-config.new");
    fs::write(&new, format!("{HEAD}{body}"))?;
    fs::rename(&new, &path)?;
    Ok(path)
}

/// A Node that is initialized, with this condition `Ready`, if any.
fn standing(ready: Option<(&str, &str)>) -> Value {
    let conditions: Vec<_> = ready
        .iter()
        .map(|(status, since)| {
            json!({"type": "Ready", "status": status, "lastHeartbeatTime": since, "lastTransitionTime": since})
        })
        .collect();
    json!({
        "spec": {"providerID": "test://machine", "taints": []},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "192.0.2.70"}, {"type": "Hostname", "address": "host"}],
            "conditions": conditions,
        },
    })
}

/// Makes the Nodes, and edits the file: into one with lists, a bad one, and one with shorter lists.
pub(super) async fn begin(lab: &Lab) -> anyhow::Result<()> {
    let long_ago = "2026-01-01T00:00:00Z";
    for (name, ready) in [
        ("gone", Some(("Unknown", long_ago))),
        ("is-ready", Some(("True", long_ago))),
        ("not-listed", Some(("Unknown", long_ago))),
        ("ahead", Some(("False", "9999-12-31T23:59:59Z"))),
        ("silent", None),
        ("taken-off", Some(("False", long_ago))),
        ("off", Some(("False", long_ago))),
    ] {
        make(lab, name, &standing(ready)).await?;
    }
    let list = |deleted: &str| {
        format!("nodeLifecycle: {{deleteNodes: [{deleted}], deleteAfter: 1m, shutdownNodes: [off]}}\n")
    };
    write(lab, &list("gone, is-ready, ahead, silent, taken-off"))?;
    await_tainted(lab, true).await?;
    write(lab, "nodeLifecycle: {deleteNodes: [gone], deleteAfter: soon}\n")?;
    await_said(lab, &["stays in force", "line 4", "\"soon\"", "at least one minute"]).await?;
    write(lab, &list("gone, is-ready, ahead, silent"))?;
    await_that("the corrected file is in force", LIMIT, async || {
        let said = log(lab)?.matches("the cloud config has changed, and is in force").count();
        ensure!(said == 2, "it was said {said} times");
        Ok(Some(()))
    })
    .await
}

/// Checks that the one listed Node goes once the controller may delete it, and that no other does.
pub(super) async fn end(lab: &Lab) -> anyhow::Result<()> {
    let missing = ["Failed deleting node gone", "cannot delete resource \"nodes\"", "windlass-controller"];
    await_told(lab, "gone", "DeletingNodeFailed", &missing).await?;
    ensure!(look(lab, "gone").await?.is_some(), "it went although that is forbidden");
    let right = workspace().join("manifests/components/node-deletion/rbac.yaml").display().to_string();
    lab.apply(&right).await?;
    await_that("Node gone is gone", LIMIT, async || Ok(look(lab, "gone").await?.is_none().then_some(())))
        .await?;
    await_told(lab, "gone", "DeletingNode", &["because it does not exist in the cloud provider"]).await?;
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let ready = Patch::Strategic(json!({"status": {"conditions": ready}}));
    nodes(lab).0.patch_status("off", &PatchParams::default(), &ready).await?;
    await_tainted(lab, false).await?;
    for name in KEPT {
        let node = look(lab, name).await?.with_context(|| format!("Node {name} was deleted"))?;
        ensure!(node["metadata"]["deletionTimestamp"].is_null(), "Node {name} is being deleted");
        let told = lab.events_of("Node", name).await?;
        ensure!(!told.iter().any(|event| event.starts_with("Deleting")), "{name}: {told:?}");
    }
    Ok(())
}

async fn await_tainted(lab: &Lab, tainted: bool) -> anyhow::Result<()> {
    await_that(&format!("Node off is tainted: {tainted}"), LIMIT, async || {
        let node = look(lab, "off").await?.context("it is gone")?;
        ensure!(has_taint(&node, SHUTDOWN) == tainted, "{}", node["spec"]);
        Ok(Some(()))
    })
    .await
}

async fn await_said(lab: &Lab, words: &[&str]) -> anyhow::Result<()> {
    await_that(&format!("the controller says {words:?}"), LIMIT, async || {
        let log = log(lab)?;
        let said = log.lines().any(|line| words.iter().all(|word| line.contains(word)));
        ensure!(said, "its log: {log}");
        Ok(Some(()))
    })
    .await
}

fn log(lab: &Lab) -> anyhow::Result<String> {
    Ok(fs::read_to_string(lab.logs().join("cp-controller.log"))?)
}

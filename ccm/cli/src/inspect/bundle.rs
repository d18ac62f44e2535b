//! `windlass bundle`: the data that remote support needs, in one file. Reads no Secret, and leaves out the fields into which users may have
//! written secrets (annotations, environments).

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::read::{Kind, Reader};
use super::snapshot::{Snapshot, full_name};
use super::status::Overview;

/// Lines that are kept of the log of each pod: the last.
const LINES: i64 = 2000;
/// Annotations that are kept: ours, and those that are read as ours.
const ANNOTATIONS: [&str; 4] =
    ["windlass.dev/", "metallb.", "kube-vip.io/", "service.beta.kubernetes.io/load-balancer-source-ranges"];

/// Writes it, for its owner's eyes alone, into a file that was not there.
///
/// # Errors
/// The file is there, or cannot be written.
pub(super) async fn write(reader: &Reader, file: &Path, now: Timestamp) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    let mut file_out = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
        .with_context(|| format!("cannot make {}; name another file", file.display()))?;
    let snapshot = reader.read(now, Kind::ALL).await;
    let mut logs = BTreeMap::new();
    for pod in &snapshot.pods.objects {
        logs.insert(full_name(pod), reader.log(pod, LINES).await);
    }
    let bundle = bundle(snapshot, &logs);
    let text = serde_json::to_string_pretty(&bundle).context("what was read cannot be written as JSON")?;
    file_out
        .write_all(text.as_bytes())
        .with_context(|| format!("cannot write {}; make room or name another file", file.display()))?;
    println!(
        "{}: look through it before you give it away: it has the names and addresses of this cluster",
        file.display()
    );
    Ok(())
}

fn bundle(mut snapshot: Snapshot, logs: &BTreeMap<String, String>) -> Value {
    let overview = Overview::of(&snapshot);
    snapshot.services.objects.iter_mut().for_each(discreet);
    snapshot.vips.objects.iter_mut().for_each(discreet);
    snapshot.pools.objects.iter_mut().for_each(discreet);
    snapshot.routers.objects.iter_mut().for_each(discreet);
    snapshot.announcements.objects.iter_mut().for_each(discreet);
    snapshot.networks.objects.iter_mut().for_each(discreet);
    snapshot.nodes.objects.iter_mut().for_each(discreet);
    snapshot.leases.objects.iter_mut().for_each(discreet);
    snapshot.pods.objects.iter_mut().for_each(|pod| {
        discreet(pod);
        without_environment(pod);
    });
    json!({
        "status": overview,
        "unread": snapshot.missing().collect::<Vec<_>>(),
        "services": snapshot.services.objects,
        "virtualIPs": snapshot.vips.objects,
        "virtualIPPools": snapshot.pools.objects,
        "virtualRouters": snapshot.routers.objects,
        "announcements": snapshot.announcements.objects,
        "nodeNetworks": snapshot.networks.objects,
        "nodes": snapshot.nodes.objects,
        "pods": snapshot.pods.objects,
        "leases": snapshot.leases.objects,
        "logs": logs,
    })
}

fn discreet<K: Resource>(object: &mut K) {
    let annotations = object.meta_mut().annotations.as_mut();
    if let Some(annotations) = annotations {
        annotations.retain(|name, _| ANNOTATIONS.iter().any(|kept| name.starts_with(kept)));
    }
}

fn without_environment(pod: &mut Pod) {
    let Some(spec) = &mut pod.spec else { return };
    let containers = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
    for container in containers {
        container.env = None;
    }
}

/// The name of the file, unless another is given.
pub(super) fn default_name(now: Timestamp) -> String {
    format!("windlass-bundle-{}.json", now.strftime("%Y%m%dT%H%M%SZ"))
}

impl Reader {
    /// The end of a pod's log; why there is none, in its place.
    async fn log(&self, pod: &Pod, lines: i64) -> String {
        let params = kube::api::LogParams { tail_lines: Some(lines), ..kube::api::LogParams::default() };
        let pods: kube::Api<Pod> = kube::Api::namespaced(self.client(), &pod.namespace().unwrap_or_default());
        let log =
            windlass_ccm::apiserver::call_within(self.limit(), pods.logs(&pod.name_any(), &params)).await;
        log.unwrap_or_else(|error| format!("cannot be read: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::scene::{healthy, now, object, service};

    #[test]
    fn a_bundle_has_every_kind_and_nothing_that_others_may_have_hidden_there() {
        let mut snapshot = healthy();
        let mut told = service("b", "", "False", "NoFreeAddress", "none is left");
        told["metadata"]["annotations"] = json!({
            "windlass.dev/pool": "lan", "example.org/token": "hidden-1",
            "kubectl.kubernetes.io/last-applied-configuration": "hidden-2",
        });
        snapshot.services.objects.push(object(told));
        snapshot.pods.objects.push(object(json!({
            "metadata": { "name": "p", "namespace": "windlass-system", "annotations": { "x": "hidden-3" } },
            "spec": { "containers": [{ "name": "c", "env": [{ "name": "KEY", "value": "hidden-4" }] }] },
        })));
        let logs = [("windlass-system/p".to_owned(), "a line".to_owned())].into();
        let bundle = bundle(snapshot, &logs);
        let text = bundle.to_string();
        assert!(!text.contains("hidden"), "{text}");
        assert_eq!(bundle["services"][1]["metadata"]["annotations"], json!({ "windlass.dev/pool": "lan" }));
        assert_eq!(bundle["logs"]["windlass-system/p"], "a line");
        assert_eq!(bundle["status"]["problems"][0]["reason"], "NoFreeAddress");
        for kind in
            ["virtualIPs", "virtualIPPools", "virtualRouters", "nodeNetworks", "nodes", "pods", "leases"]
        {
            assert!(!bundle[kind].as_array().unwrap().is_empty(), "{kind}");
        }
        assert_eq!(default_name(now()), "windlass-bundle-20260601T120000Z.json");
    }
}

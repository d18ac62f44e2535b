//! The static pod. Its rights are those of the agent's DaemonSet (`manifests/base/agent.yaml`).

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, ExecAction, HostPathVolumeSource, Pod, PodSpec, Probe,
    ResourceRequirements, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use windlass_common::host_pod::{container_security, pod_security, quantities};

use super::ManifestError;
use super::mounts::Mount;

/// The folder of the socket, which is the pod's own.
const RUN: &str = "run";
/// Priority of `system-node-critical`. No admission controller sets it on a static pod.
const NODE_CRITICAL: i32 = 2_000_001_000;

/// The pod that runs Windlass with these words.
pub(super) fn pod(image: &str, socket: &Path, words: Vec<String>, mounts: &[Mount]) -> Pod {
    let labels = [("app.kubernetes.io/name", "windlass"), ("app.kubernetes.io/component", "vip")];
    let spec = PodSpec {
        priority_class_name: Some("system-node-critical".to_owned()),
        priority: Some(NODE_CRITICAL),
        host_network: Some(true),
        dns_policy: Some("Default".to_owned()),
        security_context: Some(pod_security()),
        containers: vec![container(image, socket, words, mounts)],
        volumes: Some(volumes(mounts)),
        // Resigning takes a fraction of a second, leaving BGP routers up to 4 s.
        termination_grace_period_seconds: Some(10),
        ..PodSpec::default()
    };
    Pod {
        metadata: ObjectMeta {
            name: Some("windlass-vip".to_owned()),
            namespace: Some("kube-system".to_owned()),
            labels: Some(texts(&labels)),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    }
}

/// The pod as YAML.
pub(super) fn yaml(pod: &Pod) -> Result<String, ManifestError> {
    serde_saphyr::to_string(pod).map_err(|error| ManifestError::Yaml(error.to_string()))
}

fn container(image: &str, socket: &Path, words: Vec<String>, mounts: &[Mount]) -> Container {
    let probe = |page: &str, period, timeout, failures| Probe {
        exec: Some(ExecAction {
            command: Some(vec![
                "/windlass".to_owned(),
                "probe".to_owned(),
                format!("--socket={}", socket.display()),
                page.to_owned(),
            ]),
        }),
        period_seconds: Some(period),
        timeout_seconds: Some(timeout),
        failure_threshold: Some(failures),
        ..Probe::default()
    };
    let run = socket.parent().map(|folder| VolumeMount {
        name: RUN.to_owned(),
        mount_path: folder.display().to_string(),
        ..VolumeMount::default()
    });
    let mounts = mounts.iter().map(|mount| VolumeMount {
        name: mount.name.clone(),
        mount_path: mount.path.display().to_string(),
        read_only: Some(true),
        ..VolumeMount::default()
    });
    Container {
        name: "vip".to_owned(),
        image: Some(image.to_owned()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        args: Some(words),
        security_context: Some(container_security(&["IPC_LOCK", "NET_ADMIN", "NET_RAW", "SYS_NICE"])),
        // No CPU limit: a throttled timer thread loses elections.
        resources: Some(ResourceRequirements {
            requests: Some(quantities(&[("cpu", "50m"), ("memory", "32Mi")])),
            limits: Some(quantities(&[("memory", "256Mi")])),
            ..ResourceRequirements::default()
        }),
        startup_probe: Some(probe("/livez", 1, 6, 60)),
        liveness_probe: Some(probe("/livez", 20, 10, 3)),
        readiness_probe: Some(probe("/readyz", 5, 10, 3)),
        volume_mounts: Some(run.into_iter().chain(mounts).collect()),
        ..Container::default()
    }
}

fn volumes(mounts: &[Mount]) -> Vec<Volume> {
    let run = Volume {
        name: RUN.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            medium: Some("Memory".to_owned()),
            size_limit: Some(Quantity("1Mi".to_owned())),
            ..EmptyDirVolumeSource::default()
        }),
        ..Volume::default()
    };
    let mounts = mounts.iter().map(|mount| Volume {
        name: mount.name.clone(),
        host_path: Some(HostPathVolumeSource {
            path: mount.path.display().to_string(),
            type_: Some(mount.kind.to_owned()),
        }),
        ..Volume::default()
    });
    std::iter::once(run).chain(mounts).collect()
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

//! The pod that tries VRRP on a node: as little of the host as that needs. Pure.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec, ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use windlass_common::host_pod::{container_security, pod_security, quantities};

use super::Tried;
use crate::inspect::snapshot::{LINUX, OS_LABEL, Snapshot, is_linux, is_ready};

/// Label that all these pods have.
pub(super) const NAME: (&str, &str) = ("app.kubernetes.io/name", "windlass-check");
/// Label whose value is the trial.
pub(super) const RUN: &str = "windlass.dev/check";

/// A trial.
#[derive(Debug, Clone)]
pub(super) struct Trial<'a> {
    pub(super) run: u64,
    pub(super) image: &'a str,
    /// Maximum lifetime of a pod, should nothing delete it.
    pub(super) life: Duration,
}

/// A node on which it is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) node: String,
    pub(super) addresses: Vec<IpAddr>,
}

/// The nodes on which a pod can run, and those on which none can, and why. Only nodes with Linux count.
pub(super) fn targets(snapshot: &Snapshot) -> (Vec<Target>, Vec<Tried>) {
    let (mut targets, mut untried) = (Vec::new(), Vec::new());
    for node in snapshot.nodes.objects.iter().filter(|node| is_linux(node)) {
        let obstacle = (!is_ready(node)).then_some("its kubelet is not ready");
        match obstacle {
            Some(why) => untried.push(Tried { node: node.name_any(), report: Err(why.to_owned()) }),
            None => targets.push(Target { node: node.name_any(), addresses: addresses(node) }),
        }
    }
    (targets, untried)
}

fn addresses(node: &Node) -> Vec<IpAddr> {
    let all = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    all.filter(|one| one.type_ == "InternalIP").filter_map(|one| one.address.parse().ok()).collect()
}

/// The pod on one of these nodes.
pub(super) fn pod(trial: &Trial<'_>, target: &Target, all: &[Target]) -> Pod {
    let peers = all.iter().filter(|one| one.node != target.node).flat_map(|one| &one.addresses);
    let args = ["exchange".to_owned(), format!("--run={}", trial.run), format!("--node={}", target.node)];
    let container = Container {
        name: "exchange".to_owned(),
        image: Some(trial.image.to_owned()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        args: Some(args.into_iter().chain(peers.map(|peer| format!("--peer={peer}"))).collect()),
        security_context: Some(container_security(&["NET_RAW"])),
        resources: Some(ResourceRequirements {
            requests: Some(quantities(&[("cpu", "10m"), ("memory", "16Mi")])),
            limits: Some(quantities(&[("memory", "64Mi")])),
            ..ResourceRequirements::default()
        }),
        ..Container::default()
    };
    let labels = [(NAME.0, NAME.1.to_owned()), (RUN, trial.run.to_string())];
    Pod {
        metadata: ObjectMeta {
            generate_name: Some("windlass-check-".to_owned()),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value)).into()),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            node_name: Some(target.node.clone()),
            node_selector: Some([(OS_LABEL.to_owned(), LINUX.to_owned())].into()),
            host_network: Some(true),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            restart_policy: Some("Never".to_owned()),
            active_deadline_seconds: i64::try_from(trial.life.as_secs()).ok(),
            termination_grace_period_seconds: Some(1),
            tolerations: Some(vec![Toleration {
                operator: Some("Exists".to_owned()),
                ..Toleration::default()
            }]),
            security_context: Some(pod_security()),
            containers: vec![container],
            ..PodSpec::default()
        }),
        status: None,
    }
}

/// Reasons for which the kubelet does not start a container, and will not before something changes.
const STUCK: [&str; 6] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
];

/// Progress of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Progress {
    Runs,
    /// It may start yet; what it waits for.
    Waits(String),
    /// It will not start, and why.
    Stuck(String),
    /// It ended, and why.
    Ended(String),
}

/// Returns the progress of a pod.
pub(super) fn progress(pod: &Pod) -> Progress {
    let Some(status) = &pod.status else { return Progress::Waits(String::new()) };
    let containers = status.container_statuses.iter().flatten().filter_map(|one| one.state.as_ref());
    let reasons = containers.flat_map(|state| {
        let waiting = state.waiting.as_ref().map(|it| (&it.reason, &it.message));
        waiting.into_iter().chain(state.terminated.as_ref().map(|it| (&it.reason, &it.message)))
    });
    let words = |(reason, message): (&Option<String>, &Option<String>)| {
        [reason, message].into_iter().flatten().cloned().collect::<Vec<_>>().join(": ")
    };
    let why = reasons.chain([(&status.reason, &status.message)]).map(words).find(|why| !why.is_empty());
    let why = why.unwrap_or_default();
    match status.phase.as_deref() {
        Some("Running") => Progress::Runs,
        Some("Failed" | "Succeeded") => Progress::Ended(why),
        Some(_) | None if STUCK.iter().any(|reason| why.starts_with(reason)) => Progress::Stuck(why),
        Some(_) | None => Progress::Waits(why),
    }
}

//! Values of the chart: each does what it says, what is not one is refused, and those of the distributions fit.

use std::{collections::BTreeSet, fs};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use windlass_e2e::workspace;

use super::{folder, rendered::chart, run_helm};

const CONTROLLER: &str = "Deployment/windlass-system/windlass-controller";
const AGENT: &str = "DaemonSet/windlass-system/windlass-agent";
const MONITOR: &str = "ServiceMonitor/windlass-system/windlass-agent";
const REVIEWS: &str = "ClusterRole//windlass-agent-reviews";
const CONTAINER: &str = "/spec/template/spec/containers/0";

/// Values, an object, a place in it (within the container where it begins with a dot), and what is there then, or a part of it.
fn rows() -> Vec<(&'static [&'static str], &'static str, &'static str, Value)> {
    vec![
        (&["image.repository=example.org/w"], CONTROLLER, ".image", json!("example.org/w:0.1.0")),
        (&["image.repository=example.org/w"], AGENT, ".image", json!("example.org/w:0.1.0")),
        (&["image.tag=v1"], AGENT, ".image", json!("windlass:v1")),
        (&["image.pullPolicy=Always"], AGENT, ".imagePullPolicy", json!("Always")),
        (
            &[r#"image.pullSecrets=[{"name": "registry"}]"#],
            AGENT,
            "/spec/template/spec/imagePullSecrets",
            json!([{"name": "registry"}]),
        ),
        (&["loadBalancerOnly=true"], CONTROLLER, ".args", json!(["--controllers=service-lb-controller"])),
        (&["loadBalancerOnly=true"], CONTROLLER, ".ports/0/containerPort", json!(9860)),
        (
            &["apiServer.host=192.0.2.10", "apiServer.port=7443"],
            CONTROLLER,
            ".env",
            json!([
                {"name": "KUBERNETES_SERVICE_HOST", "value": "192.0.2.10"},
                {"name": "KUBERNETES_SERVICE_PORT", "value": "7443"},
            ]),
        ),
        (
            &["apiServer.host=192.0.2.10"],
            AGENT,
            ".env",
            json!([{"name": "KUBERNETES_SERVICE_PORT", "value": "6443"}]),
        ),
        (&["logLevel=debug"], CONTROLLER, ".args", json!(["--log-level=debug"])),
        (&["logFormat=json"], AGENT, ".args", json!(["--log-format=json"])),
        (
            &[r#"cloudConfig={"nodeMetadata": [{"region": "berlin"}]}"#],
            CONTROLLER,
            ".args",
            json!(["--cloud-config=/etc/windlass/cloud-config.yaml"]),
        ),
        (
            &[r#"cloudConfig={"nodeMetadata": [{"region": "berlin"}]}"#],
            "ConfigMap/windlass-system/windlass-cloud-config",
            "/data/cloud-config.yaml",
            json!("apiVersion: windlass.dev/v1alpha1\nkind: CloudConfig\nnodeMetadata:\n- region: berlin\n"),
        ),
        (&["statusPage.enabled=true"], CONTROLLER, ".args", json!(["--status-page=true"])),
        (&["statusPage.enabled=true"], "ClusterRole//windlass-status", "/rules/0/verbs", json!(["get"])),
        (&["nodeDeletion=true"], "ClusterRole//windlass-node-deletion", "/rules/0/verbs", json!(["delete"])),
        (
            &["crds.install=true"],
            "CustomResourceDefinition//virtualips.windlass.dev",
            "/spec/group",
            json!("windlass.dev"),
        ),
        (&["metrics.agentReviews=true"], REVIEWS, "/rules/0/verbs", json!(["create"])),
        (&["metrics.serviceMonitor.enabled=true"], CONTROLLER, ".args", json!(["--bind-address=0.0.0.0"])),
        (
            &["metrics.serviceMonitor.enabled=true", "metrics.serviceMonitor.interval=1m"],
            MONITOR,
            "/spec/endpoints/0/interval",
            json!("1m"),
        ),
        (
            &["metrics.serviceMonitor.enabled=true", "metrics.serviceMonitor.labels.release=p"],
            MONITOR,
            "/metadata/labels/release",
            json!("p"),
        ),
        (
            &["metrics.serviceMonitor.enabled=true", "agent.flags.secure-port=9900"],
            "Service/windlass-system/windlass-agent-metrics",
            "/spec/ports/0/targetPort",
            json!(9900),
        ),
        (
            &["metrics.prometheusRule.enabled=true", "metrics.prometheusRule.labels.release=p"],
            "PrometheusRule/windlass-system/windlass",
            "/metadata/labels/release",
            json!("p"),
        ),
        (
            &[
                "metrics.grafanaDashboard.enabled=true",
                "metrics.grafanaDashboard.labels.grafana_dashboard=yes",
            ],
            "ConfigMap/windlass-system/windlass-dashboard",
            "/metadata/labels/grafana_dashboard",
            json!("yes"),
        ),
        (&["controller.replicas=3"], CONTROLLER, "/spec/replicas", json!(3)),
        (
            &["controller.flags.bind-address=0.0.0.0", "controller.flags.rebalance-settle-seconds=1000000"],
            CONTROLLER,
            ".args",
            json!(["--bind-address=0.0.0.0", "--rebalance-settle-seconds=1000000"]),
        ),
        (
            &["controller.flags.kube-api-qps=0.5", r#"controller.flags.controllers=["*", "-cloud-node"]"#],
            CONTROLLER,
            ".args",
            json!(["--controllers=*,-cloud-node", "--kube-api-qps=0.5"]),
        ),
        (
            &["controller.flags.secure-port=10300", "loadBalancerOnly=true"],
            CONTROLLER,
            ".ports/0/containerPort",
            json!(10300),
        ),
        (&["controller.resources.limits.memory=1Gi"], CONTROLLER, ".resources/limits/memory", json!("1Gi")),
        (&["controller.resources.limits.memory=1Gi"], CONTROLLER, ".resources/requests/cpu", json!("50m")),
        (
            &["controller.nodeSelector.a=b", "controller.nodeSelector.kubernetes\\.io/os=windows"],
            CONTROLLER,
            "/spec/template/spec/nodeSelector",
            json!({"a": "b", "kubernetes.io/os": "linux"}),
        ),
        (
            &[r#"controller.affinity={"podAffinity": {}}"#],
            CONTROLLER,
            "/spec/template/spec/affinity",
            json!({"podAffinity": {}}),
        ),
        (
            &[r#"controller.tolerations=[{"key": "a", "operator": "Exists"}]"#],
            CONTROLLER,
            "/spec/template/spec/tolerations",
            json!([
                {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "a", "operator": "Exists"},
            ]),
        ),
        (
            &["controller.priorityClassName=p"],
            CONTROLLER,
            "/spec/template/spec/priorityClassName",
            json!("p"),
        ),
        (&["controller.podAnnotations.a=b"], CONTROLLER, "/spec/template/metadata/annotations/a", json!("b")),
        (&["controller.podLabels.a=b"], CONTROLLER, "/spec/template/metadata/labels/a", json!("b")),
        (
            &["agent.flags.bind-address=0.0.0.0", "agent.flags.guard=false"],
            AGENT,
            ".args",
            json!(["--bind-address=0.0.0.0", "--guard=false", "--socket=/run/windlass/agent.sock"]),
        ),
        (&["agent.resources.requests.cpu=1"], AGENT, ".resources/requests/cpu", json!(1)),
        (
            &["agent.nodeSelector.a=b", "agent.nodeSelector.kubernetes\\.io/os=windows"],
            AGENT,
            "/spec/template/spec/nodeSelector",
            json!({"a": "b", "kubernetes.io/os": "linux"}),
        ),
        (
            &[r#"agent.affinity={"nodeAffinity": {}}"#],
            AGENT,
            "/spec/template/spec/affinity",
            json!({"nodeAffinity": {}}),
        ),
        (
            &[r#"agent.tolerations=[{"key": "a", "operator": "Exists"}]"#],
            AGENT,
            "/spec/template/spec/tolerations",
            json!([{"key": "a", "operator": "Exists"}]),
        ),
        (
            &["agent.seLinuxOptions.type=spc_t"],
            AGENT,
            ".securityContext/seLinuxOptions",
            json!({"type": "spc_t"}),
        ),
        (&["agent.priorityClassName=p"], AGENT, "/spec/template/spec/priorityClassName", json!("p")),
        (
            &["agent.maxUnavailable=25%"],
            AGENT,
            "/spec/updateStrategy/rollingUpdate/maxUnavailable",
            json!("25%"),
        ),
        (&["agent.podAnnotations.a=b"], AGENT, "/spec/template/metadata/annotations/a", json!("b")),
        (&["agent.podLabels.a=b"], AGENT, "/spec/template/metadata/labels/a", json!("b")),
    ]
}

// shows: field-reports F-76, F-86
#[test]
fn each_value_is_found_where_it_belongs() -> anyhow::Result<()> {
    let values: Value = serde_saphyr::from_str(&fs::read_to_string(format!("{}/values.yaml", folder()))?)?;
    let mut untried = BTreeSet::new();
    leaves(&values, "", &mut untried);
    for (settings, object, place, expected) in rows() {
        let objects = chart(settings)?;
        let place = place.strip_prefix('.').map_or(place.to_owned(), |rest| format!("{CONTAINER}/{rest}"));
        // (A key of a ConfigMap may have a slash nowhere, and a dot anywhere.)
        let found = objects.get(object).and_then(|object| object.pointer(&place));
        let found = found.with_context(|| format!("{settings:?}: no {place} in {object}"))?;
        let fits = match (found, &expected) {
            (Value::Array(found), Value::Array(expected)) => expected.iter().all(|one| found.contains(one)),
            (found, expected) => found == expected,
        };
        ensure!(fits, "{settings:?}: {place} of {object} is {found}, not {expected}");
        for setting in settings {
            let name = setting.split('=').next().unwrap_or_default();
            untried.retain(|value| name != value && !name.starts_with(&format!("{value}.")));
        }
    }
    ensure!(untried.is_empty(), "no row of this test sets {untried:?}");
    ensure!(!chart(&["metrics.agentReviews=false"])?.contains_key(REVIEWS), "{REVIEWS} is there");
    Ok(())
}

/// The names of all values: what is empty by default is one.
fn leaves(values: &Value, prefix: &str, into: &mut BTreeSet<String>) {
    match values.as_object().filter(|fields| !fields.is_empty()) {
        Some(fields) => {
            for (name, value) in fields {
                leaves(value, &format!("{prefix}{}{name}", if prefix.is_empty() { "" } else { "." }), into);
            }
        }
        None => drop(into.insert(prefix.to_owned())),
    }
}

#[test]
fn what_is_no_value_is_refused_by_name() -> anyhow::Result<()> {
    let rows = [
        ("nonsense=1", "'nonsense' not allowed"),
        ("image.nonsense=1", "'nonsense' not allowed"),
        ("apiServer.nonsense=1", "'nonsense' not allowed"),
        ("crds.nonsense=1", "'nonsense' not allowed"),
        ("metrics.nonsense=1", "'nonsense' not allowed"),
        ("metrics.serviceMonitor.nonsense=1", "'nonsense' not allowed"),
        ("metrics.prometheusRule.nonsense=1", "'nonsense' not allowed"),
        ("metrics.grafanaDashboard.nonsense=1", "'nonsense' not allowed"),
        ("controller.nonsense=1", "'nonsense' not allowed"),
        ("controller.flags.nonsense=1", "'nonsense' not allowed"),
        ("controller.resources.nonsense=1", "'nonsense' not allowed"),
        ("agent.nonsense=1", "'nonsense' not allowed"),
        ("agent.flags.nonsense=1", "'nonsense' not allowed"),
        ("cloudConfig.nonsense=1", "'nonsense' not allowed"),
        ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
        ("loadBalancerOnly=maybe", "/loadBalancerOnly"),
        ("apiServer.port=70000", "/apiServer/port"),
        ("agent.flags.guard=perhaps", "/agent/flags/guard"),
        ("controller.flags.node-monitor-period=soon", "/controller/flags/node-monitor-period"),
        ("controller.replicas=-1", "/controller/replicas"),
    ];
    for (setting, told) in rows {
        let refused = chart(&[setting]).err().with_context(|| format!("{setting} is accepted"))?;
        ensure!(format!("{refused:#}").contains(told), "{setting}: {refused:#}");
    }
    let both = ["loadBalancerOnly=true", "controller.flags.controllers=*"];
    let refused = chart(&both).err().context("two contradictory values are accepted")?;
    ensure!(format!("{refused:#}").contains("exclude each other"), "{refused:#}");
    Ok(())
}

#[test]
fn the_values_of_each_distribution_fit_the_chart() -> anyhow::Result<()> {
    let folder = folder();
    run_helm(&["lint", "--strict", &folder])?;
    let mut names = BTreeSet::new();
    for file in fs::read_dir(workspace().join("manifests/chart/values"))? {
        let path = file?.path();
        names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        run_helm(&["lint", "--strict", &folder, "--values", &path.display().to_string()])?;
    }
    let expected = ["k0s", "k3s", "kind", "kubeadm", "rke2", "talos"].map(str::to_owned);
    ensure!(names == BTreeSet::from(expected), "{names:?}");
    Ok(())
}

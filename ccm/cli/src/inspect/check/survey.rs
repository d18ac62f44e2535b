//! Objects that `check` reads besides those of `status`: kinds of other programs, as plain JSON, of which little is kept.

use serde_json::Value;
use windlass_ccm::apiserver::{CallError, call_within};

use super::super::details::KubeProxy;
use super::super::read::{Reader, missing};
use super::super::snapshot::Missing;

/// Maximum number of objects in one answer.
const PAGE: u32 = 500;
/// Windlass' API.
const OWN: &str = "windlass.dev/v1alpha1";
/// Kinds of other programs of which one object shows that the program serves Services; each with its API group.
pub(super) const TELLTALES: [(&str, &str); 3] = [
    ("cilium.io", "ciliumloadbalancerippools"),
    ("cilium.io", "ciliuml2announcementpolicies"),
    ("purelb.io", "servicegroups"),
];

/// Result of a survey.
#[derive(Debug, Clone, Default)]
pub(super) struct Survey {
    /// Kinds of Windlass that the API server knows, in the plural; `None`: its API is not there, or was not asked for.
    pub(super) definitions: Option<Vec<String>>,
    /// Workloads of all namespaces, and the pods of kube-system.
    pub(super) workloads: Vec<Workload>,
    /// Kinds of [`TELLTALES`] that have an object.
    pub(super) telltales: Vec<&'static str>,
    /// kube-proxy's settings, where kubeadm keeps them.
    pub(super) kube_proxy: Option<KubeProxy>,
    /// Kinds that could not be read.
    pub(super) missing: Vec<Missing>,
}

/// Object that runs containers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Workload {
    pub(super) kind: &'static str,
    /// With its namespace.
    pub(super) name: String,
    /// True if it is Windlass' own.
    pub(super) is_own: bool,
    /// Labels as `name=value`, images, commands and arguments, and variables as `name=value`.
    pub(super) words: Vec<String>,
}

impl Workload {
    /// Reads an object of this kind.
    pub(super) fn of(kind: &'static str, object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let meta = &object["metadata"];
        let labels = meta["labels"].as_object().into_iter().flatten();
        let mut words: Vec<String> = labels.map(|(name, value)| format!("{name}={}", text(value))).collect();
        let is_own = words.iter().any(|word| word == "app.kubernetes.io/name=windlass");
        let spec = if kind == "Pod" { &object["spec"] } else { &object["spec"]["template"]["spec"] };
        for container in spec["containers"].as_array().into_iter().flatten() {
            words.push(text(&container["image"]));
            for list in ["command", "args"] {
                words.extend(container[list].as_array().into_iter().flatten().map(text));
            }
            let variables = container["env"].as_array().into_iter().flatten();
            words.extend(variables.map(|one| format!("{}={}", text(&one["name"]), text(&one["value"]))));
        }
        Self { kind, name: format!("{}/{}", text(&meta["namespace"]), text(&meta["name"])), is_own, words }
    }
}

impl Reader {
    /// Reads all of it, as far as that is possible.
    pub(super) async fn survey(&self) -> Survey {
        let mut survey = Survey::default();
        match self.get(&format!("/apis/{OWN}")).await {
            Ok(list) => {
                let resources = list["resources"].as_array().into_iter().flatten();
                let names = resources.filter_map(|one| one["name"].as_str()).map(str::to_owned);
                survey.definitions = Some(names.collect());
            }
            Err(error) if error.code() == Some(404) => {}
            Err(error) => survey.missing.push(missing("definitions", &error)),
        }
        for (kind, plural, path) in [
            ("Deployment", "Deployments", "/apis/apps/v1/deployments"),
            ("DaemonSet", "DaemonSets", "/apis/apps/v1/daemonsets"),
            ("StatefulSet", "StatefulSets", "/apis/apps/v1/statefulsets"),
            ("Pod", "Pods of kube-system", "/api/v1/namespaces/kube-system/pods"),
        ] {
            if let Err(error) = self.workloads(kind, path, &mut survey.workloads).await {
                survey.missing.push(missing(plural, &error));
            }
        }
        for (group, plural) in TELLTALES {
            match self.has_any(group, plural).await {
                Ok(true) => survey.telltales.push(plural),
                Ok(false) => {}
                Err(error) => survey.missing.push(missing(plural, &error)),
            }
        }
        survey.kube_proxy = self.kube_proxy().await;
        survey
    }

    async fn workloads(
        &self,
        kind: &'static str,
        path: &str,
        workloads: &mut Vec<Workload>,
    ) -> Result<(), CallError> {
        let mut token = String::new();
        loop {
            let list = self.get(&format!("{path}?limit={PAGE}&continue={token}")).await?;
            workloads
                .extend(list["items"].as_array().into_iter().flatten().map(|one| Workload::of(kind, one)));
            match list["metadata"]["continue"].as_str() {
                Some(next) if !next.is_empty() => next.clone_into(&mut token),
                Some(_) | None => return Ok(()),
            }
        }
    }

    /// Returns true if there is an object of a foreign kind, in any version that the API server serves.
    async fn has_any(&self, group: &str, plural: &str) -> Result<bool, CallError> {
        let absent = |error: CallError| if error.code() == Some(404) { Ok(Value::Null) } else { Err(error) };
        let group = self.get(&format!("/apis/{group}")).await.or_else(absent)?;
        // Of all versions: one may not have the kind.
        for version in group["versions"].as_array().into_iter().flatten() {
            let version = version["groupVersion"].as_str().unwrap_or_default();
            let list = self.get(&format!("/apis/{version}/{plural}?limit=1")).await.or_else(absent)?;
            if list["items"].as_array().is_some_and(|items| !items.is_empty()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn get(&self, path: &str) -> Result<Value, CallError> {
        let asked = async {
            let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
            self.client().request::<Value>(request).await
        };
        call_within(self.limit(), asked).await
    }
}

//! Creates a pod on each node, reads their reports, and deletes the pods.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, LogParams, PostParams};
use windlass_ccm::apiserver::call_within;
use windlass_ccm::lenient::Lenient;
use windlass_common::host_pod::IMAGE;

use super::pods::{NAME, Progress, RUN, Target, Trial, pod, progress, targets};
use super::{Report, Tried};
use crate::inspect::read::{OWN_NAMESPACE, Reader, SYSTEM};
use crate::inspect::snapshot::Snapshot;

/// Time limit for the start of pods.
const START: Duration = Duration::from_mins(1);
/// Interval between two checks that they have started.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Calls under way at a time.
const PARALLEL: usize = 16;

/// Options that an admin sets for a trial.
#[derive(Debug, Clone)]
pub(in crate::inspect::check) struct TrialOptions {
    /// `None`: that of the agents, or if there are none, the one of this build.
    pub(in crate::inspect::check) image: Option<String>,
    /// Time for which each pod sends and listens once all run.
    pub(in crate::inspect::check) listening: Duration,
}

/// Runs the trial between all nodes of the snapshot. Pods that cannot be deleted end by themselves, and the next trial deletes them.
pub(in crate::inspect::check) async fn try_pairs(
    reader: &Reader,
    snapshot: &Snapshot,
    options: &TrialOptions,
) -> Vec<Tried> {
    let (targets, mut tried) = targets(snapshot);
    if targets.is_empty() {
        return tried;
    }
    let image = options.image.clone().or_else(|| agents_image(snapshot));
    let trial = Trial {
        run: number(),
        image: image.as_deref().unwrap_or(IMAGE),
        life: START + options.listening + Duration::from_mins(2),
    };
    // Its pods may use the host's network (the label of Pod Security); before it is made those of kube-system may.
    let namespaces: Api<Lenient<Namespace>> = Api::all(reader.client());
    let own = reader.optional(namespaces.get_opt(OWN_NAMESPACE)).await;
    let namespace = if own.is_some() { OWN_NAMESPACE } else { SYSTEM };
    eprintln!(
        "windlass: trying VRRP between {} nodes, by a pod of {} on each, in the namespace {namespace}",
        targets.len(),
        trial.image
    );
    let session = Session { pods: Api::namespaced(reader.client(), namespace), limit: reader.limit(), trial };
    session.sweep(&format!("{}={}", NAME.0, NAME.1), "status.phase!=Running,status.phase!=Pending").await;
    tried.extend(session.run(&targets, options.listening).await);
    tried.sort_by(|one, other| one.node.cmp(&other.node));
    session.sweep(&format!("{RUN}={}", session.trial.run), "").await;
    tried
}

/// The image of an agent that runs.
fn agents_image(snapshot: &Snapshot) -> Option<String> {
    snapshot.agents().find_map(|agent| agent.spec.as_ref()?.containers.first()?.image.clone())
}

/// Returns a number that identifies the trial.
fn number() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs() << 20 | u64::from(now.subsec_micros())
}

/// A trial under way.
struct Session<'a> {
    pods: Api<Pod>,
    limit: Duration,
    trial: Trial<'a>,
}

impl Session<'_> {
    async fn run(&self, targets: &[Target], listening: Duration) -> Vec<Tried> {
        let made = stream::iter(targets).map(async |target| {
            let pod = pod(&self.trial, target, targets);
            let made = call_within(self.limit, self.pods.create(&PostParams::default(), &pod)).await;
            (
                target.node.clone(),
                made.map(|pod| pod.name_any()).map_err(|error| format!("no pod can be made: {error}")),
            )
        });
        let made: Vec<(String, Result<String, String>)> = made.buffer_unordered(PARALLEL).collect().await;
        let count = made.iter().filter(|(_, name)| name.is_ok()).count();
        let started = if count == 0 { BTreeMap::new() } else { self.started(count).await };
        if started.values().any(|progress| *progress == Progress::Runs) {
            tokio::time::sleep(listening).await;
        }
        let tried = stream::iter(made).map(async |(node, name)| {
            let report = match name {
                Ok(name) => self.report(&name, started.get(&name)).await,
                Err(why) => Err(why),
            };
            Tried { node, report }
        });
        tried.buffer_unordered(PARALLEL).collect().await
    }

    /// Returns the progress of the pods when all have started, or after the time limit.
    async fn started(&self, count: usize) -> BTreeMap<String, Progress> {
        let ours = ListParams::default().labels(&format!("{RUN}={}", self.trial.run));
        let mut known = BTreeMap::new();
        let all = async {
            loop {
                if let Ok(pods) = call_within(self.limit, self.pods.list(&ours)).await {
                    known = pods.items.iter().map(|pod| (pod.name_any(), progress(pod))).collect();
                }
                let waits = |progress: &Progress| matches!(progress, Progress::Waits(_));
                if known.len() >= count && !known.values().any(waits) {
                    return;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        drop(tokio::time::timeout(START, all).await);
        known
    }

    /// Returns the last report of a pod.
    async fn report(&self, name: &str, progress: Option<&Progress>) -> Result<Report, String> {
        let because = |why: &str| if why.is_empty() { String::new() } else { format!(": {why}") };
        match progress {
            None => return Err("its pod is gone".to_owned()),
            Some(Progress::Waits(why)) => {
                return Err(format!("its pod did not start in {} s{}", START.as_secs(), because(why)));
            }
            Some(Progress::Stuck(why)) => return Err(format!("its pod cannot start{}", because(why))),
            Some(Progress::Runs | Progress::Ended(_)) => {}
        }
        let last = LogParams { tail_lines: Some(1), ..LogParams::default() };
        let said = call_within(self.limit, self.pods.logs(name, &last)).await;
        let said = said.map_err(|error| format!("the log of its pod cannot be read: {error}"))?;
        match (serde_json::from_str(said.trim()), progress) {
            (Ok(report), _) => Ok(report),
            (Err(_), Some(Progress::Ended(why))) => {
                Err(format!("its pod ended{}: {:?}", because(why), said.trim()))
            }
            (Err(_), _) => Err(format!(
                "its pod says {:?}: is the image {} of this version?",
                said.trim(),
                self.trial.image
            )),
        }
    }

    /// Takes pods away.
    async fn sweep(&self, labels: &str, fields: &str) {
        let those = ListParams::default().labels(labels).fields(fields);
        let at_once = DeleteParams::default().grace_period(0);
        if let Err(error) = call_within(self.limit, self.pods.delete_collection(&at_once, &those)).await {
            eprintln!(
                "windlass: pods of a trial cannot be deleted ({error}); they end by themselves: kubectl delete pods -l {}={} -A",
                NAME.0, NAME.1
            );
        }
    }
}

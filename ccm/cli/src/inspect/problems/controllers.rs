//! The leading controller, and problems of controllers.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::Problem;
use crate::inspect::snapshot::{LEASE, Snapshot, full_name, is_pod_ready, node_of};
use crate::inspect::table::age;

/// Time after the expiry of its lease at which a holder counts as silent: the clock of this host may differ from the holder's.
const SLACK: SignedDuration = SignedDuration::from_secs(30);
/// A pod that was restarted more often is in trouble.
const MANY_RESTARTS: i32 = 5;

/// Leading controller, by its lease.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::inspect) struct Leader<'a> {
    /// Namespace and name of the lease.
    pub(in crate::inspect) lease: String,
    /// Identity of the holder, as `<host>_<something unique>`.
    pub(in crate::inspect) holder: &'a str,
    pub(in crate::inspect) since: Option<Timestamp>,
    pub(in crate::inspect) renewed: Option<Timestamp>,
    /// True if the lease has not been renewed in time.
    pub(in crate::inspect) is_silent: bool,
}

/// Returns the leader by the leases: by one with a name of Windlass, else by the common one.
pub(in crate::inspect) fn leader(snapshot: &Snapshot) -> Option<Leader<'_>> {
    if let Some(own) = &snapshot.own {
        // Who does not lead any more ends.
        let (lease, holder) = match &own.election {
            Some((lease, identity)) => (lease.clone(), identity.as_str()),
            None => ("without election".to_owned(), "this controller"),
        };
        let (since, renewed) = (Some(own.since), Some(snapshot.now));
        return Some(Leader { lease, holder, since, renewed, is_silent: false });
    }
    let is_own = |lease: &&Lease| {
        let name = lease.name_any();
        name.starts_with("windlass") || name == LEASE
    };
    let held = snapshot.leases.objects.iter().filter(is_own).filter_map(|lease| {
        let spec = lease.spec.as_ref()?;
        let holder = spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())?;
        let renewed = spec.renew_time.as_ref().map(|time| time.0);
        let lasts = SignedDuration::from_secs(spec.lease_duration_seconds.unwrap_or(15).into());
        let is_over = |renewed: Timestamp| snapshot.now.duration_since(renewed) > lasts + SLACK;
        Some(Leader {
            lease: full_name(lease),
            holder,
            since: spec.acquire_time.as_ref().map(|time| time.0),
            renewed,
            is_silent: renewed.is_none_or(is_over),
        })
    });
    held.min_by_key(|leader| (leader.is_silent, leader.lease.ends_with(LEASE), leader.lease.clone()))
}

pub(super) fn problems(snapshot: &Snapshot) -> Vec<Problem> {
    let mut problems: Vec<Problem> = leading(snapshot).into_iter().collect();
    problems.extend(snapshot.controllers().filter_map(|pod| pod_problem(snapshot, pod)));
    problems.extend(snapshot.agents().filter_map(|pod| pod_problem(snapshot, pod)));
    problems
}

fn leading(snapshot: &Snapshot) -> Option<Problem> {
    const NOBODY: &str = "no Service gets an address, and nothing follows a change; what is announced stays";
    const REMEDY: &str = "kubectl --namespace windlass-system get pods --selector app.kubernetes.io/component=controller, and read their logs";
    if snapshot.leases.missing.is_some() {
        return None;
    }
    let Some(leader) = leader(snapshot) else {
        let message = format!("no controller has ever held a lease: {NOBODY}");
        let name = format!("kube-system/{LEASE}");
        return Some(Problem::error("Lease", name, "NoLeader").says(message, REMEDY));
    };
    let Leader { lease, holder, renewed, is_silent, .. } = &leader;
    if *is_silent {
        let since = renewed.map_or_else(|| "ever".to_owned(), |then| age(then, snapshot.now));
        let message = format!("{holder} has not renewed it for {since}: no controller works. {NOBODY}");
        return Some(Problem::error("Lease", lease, "NoLeader").says(message, REMEDY));
    }
    // The controller's pods share their node's network, and with it the name of the host. One that is no Node's tells nothing.
    let host = holder.split('_').next().unwrap_or_default();
    let is_node = Snapshot::named(&snapshot.nodes, host).is_some();
    let mut pods = snapshot.controllers().peekable();
    let is_foreign = is_node && pods.peek().is_some() && !pods.any(|pod| node_of(pod) == Some(host));
    is_foreign.then(|| {
        let message =
            format!("it is held from node {host}, where no pod of Windlass' controller runs: while another program holds it, {NOBODY}");
        let remedy = "remove the other cloud controller manager, or run Windlass beside it with a lease of its own (docs/cloud-controller-manager.md)";
        Problem::warning("Lease", lease, "HeldByAnother").says(message, remedy)
    })
}

fn pod_problem(snapshot: &Snapshot, pod: &Pod) -> Option<Problem> {
    /// A pod may take so long to start.
    const STARTING: SignedDuration = SignedDuration::from_mins(1);
    let name = full_name(pod);
    let mut statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let restarts = statuses.clone().map(|one| one.restart_count).max().unwrap_or(0);
    let waiting = statuses.find_map(|one| one.state.as_ref()?.waiting.as_ref()?.reason.clone());
    let at = node_of(pod).map_or_else(|| "no node yet".to_owned(), |node| format!("node {node}"));
    let is_young = pod
        .metadata
        .creation_timestamp
        .as_ref()
        .is_some_and(|made| snapshot.now.duration_since(made.0) < STARTING);
    let remedy = format!(
        "kubectl --namespace {} logs {} --previous, and describe pod",
        pod.namespace().unwrap_or_default(),
        pod.name_any()
    );
    if !is_pod_ready(pod) && !is_young && pod.metadata.deletion_timestamp.is_none() {
        // On a cluster of one node the second controller finds no place, which harms nothing.
        let is_spare = node_of(pod).is_none() && snapshot.controllers().any(is_pod_ready);
        let why = waiting.map_or_else(String::new, |reason| format!(" ({reason})"));
        let message = format!("it is not ready{why}, on {at}, restarted {restarts} times");
        return (!is_spare).then(|| Problem::error("Pod", name, "NotReady").says(message, remedy));
    }
    (restarts >= MANY_RESTARTS).then(|| {
        let message = format!("it was restarted {restarts} times, on {at}");
        Problem::warning("Pod", name, "Restarts").says(message, remedy)
    })
}

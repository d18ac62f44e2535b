//! What this node has to say about the virtual routers it is Active for, against what the cluster already knows. Pure.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::time::Instant;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_api::{
    CONDITION_ANNOUNCED, REASON_ADDRESS_REFUSED, REASON_ADDRESS_TAKEN, REASON_AGENT_STOPPED,
    REASON_UNGUARDED, VirtualIP, VirtualRouter,
};
use windlass_ccm::conditions::DesiredCondition;
use windlass_engine::RouterKey;

use super::admission::needs_guard;
use super::desired::{Assignment, Refused, is_wanted};
use super::network::mac;
use super::standing::{ActivePeriod, Standing};

#[cfg(test)]
mod tests;

/// Reason of the condition `Announced` while it is true.
const REASON_ACTIVE: &str = "Active";
/// Reason of the condition `Announced` after the address was put into quarantine.
const REASON_QUARANTINED: &str = "Quarantined";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    VirtualRouter,
    VirtualIP,
}

/// A virtual router that this node is Active for.
#[derive(Debug, Clone)]
pub(crate) struct Carried<'a> {
    pub(crate) assignment: &'a Assignment,
    pub(crate) key: RouterKey,
    pub(crate) period: ActivePeriod,
    pub(crate) standing: &'a Standing,
}

impl<'a> Carried<'a> {
    /// Of these assignments those that this node is Active for, by the name of the virtual router.
    pub(crate) fn among(
        assignments: &'a [Assignment],
        standings: &'a BTreeMap<RouterKey, Standing>,
    ) -> HashMap<&'a str, Self> {
        let carried = assignments.iter().filter_map(|assignment| {
            let key = assignment.key().ok()?;
            let standing = standings.get(&key)?;
            let period = standing.period?;
            Some((assignment.virtual_router.as_str(), Self { assignment, key, period, standing }))
        });
        carried.collect()
    }
}

/// One patch of a status, conditional on the version of the object that it was computed from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Job {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// `metadata.resourceVersion` the patch is computed from and conditional on.
    pub(crate) version: String,
    /// What it is good for only while it lasts.
    pub(crate) basis: Option<(RouterKey, ActivePeriod)>,
    /// JSON merge patch of the status subresource.
    pub(crate) patch: Value,
}

/// What was already said. Without it two nodes that are both Active (a partition of the LAN, while both reach the API
/// server) would overwrite each other for ever: each says so once per period, and the last to become Active stands.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// The period in which this node last spoke of an object, by the object's UID.
    claimed: HashMap<String, u64>,
    /// The version of an object that was patched last, by its UID: until the watch shows a newer one, there is nothing to
    /// add.
    patched: HashMap<String, String>,
}

impl Said {
    /// The patch was accepted.
    pub(crate) fn accepted(&mut self, job: &Job) {
        if let Some((_, period)) = &job.basis {
            self.claimed.insert(job.uid.clone(), period.number);
        }
        self.outdated(job);
    }

    /// The object has changed since, or is gone.
    pub(crate) fn outdated(&mut self, job: &Job) {
        self.patched.insert(job.uid.clone(), job.version.clone());
    }

    /// Whether objects that are gone may be as many as the `count` that there are.
    pub(crate) fn is_large(&self, count: usize) -> bool {
        self.claimed.len().max(self.patched.len()) > 2 * count + 64
    }

    /// Forgets objects that are gone, once that is so.
    pub(crate) fn prune<'a>(&mut self, count: usize, uids: impl Iterator<Item = &'a str>) {
        if self.is_large(count) {
            let present: HashSet<&str> = uids.collect();
            self.claimed.retain(|uid, _| present.contains(uid.as_str()));
            self.patched.retain(|uid, _| present.contains(uid.as_str()));
        }
    }

    fn has_claimed(&self, uid: Option<&str>, period: ActivePeriod) -> bool {
        uid.and_then(|uid| self.claimed.get(uid)) == Some(&period.number)
    }

    /// Whether the watch has yet to show the outcome of an earlier patch.
    fn has_patched(&self, object: &impl kube::Resource) -> bool {
        let meta = object.meta();
        let patched = meta.uid.as_ref().and_then(|uid| self.patched.get(uid));
        patched.is_some() && patched == meta.resource_version.as_ref()
    }
}

/// This node and the moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Here<'a> {
    pub(crate) node: &'a str,
    pub(crate) now: Instant,
    /// The same by the wall clock.
    pub(crate) wall: Timestamp,
    /// Why this node cannot keep out who may not use an address, if it cannot.
    pub(crate) unguarded: Option<&'a str>,
}

/// The patches, `limit` at most, that make the cluster know what this node is Active for; none where it knows already.
pub(crate) fn jobs<R, V>(
    here: Here<'_>,
    carried: &HashMap<&str, Carried<'_>>,
    refused: &[Refused],
    routers: &[R],
    vips: &[V],
    said: &Said,
    limit: usize,
) -> Vec<Job>
where
    R: AsRef<VirtualRouter>,
    V: AsRef<VirtualIP>,
{
    let of_routers = routers.iter().map(AsRef::as_ref).filter(|router| !said.has_patched(*router));
    let of_routers = of_routers
        .filter_map(|router| router_job(here, carried.get(router.metadata.name.as_deref()?)?, router, said));
    let of_vips = vips.iter().map(AsRef::as_ref).filter(|vip| !said.has_patched(*vip));
    let of_vips = of_vips.filter_map(|vip| {
        if vip.spec.quarantine.is_some() {
            return quarantine_job(here, vip);
        }
        let carried = carried.get(vip.spec.virtual_router.as_deref()?);
        if let Ok(at) = refused.binary_search_by_key(&vip.spec.address, |one| one.address) {
            return refusal_job(here, &refused[at], carried, vip);
        }
        vip_job(here, carried?, vip, said)
    });
    of_routers.chain(of_vips).take(limit).collect()
}

fn router_job(here: Here<'_>, carried: &Carried<'_>, router: &VirtualRouter, said: &Said) -> Option<Job> {
    let active = router.status.as_ref().and_then(|status| status.active_node.as_deref());
    let was_said = || said.has_claimed(router.metadata.uid.as_deref(), carried.period);
    if active == Some(here.node) || (active.is_some() && was_said()) {
        return None;
    }
    let transitions = router.status.as_ref().map_or(0, |status| status.transitions);
    let patch = json!({
        "activeNode": here.node,
        "activeSince": format!("{:.3}", carried.period.since),
        "transitions": transitions.saturating_add(1),
    });
    Some(job(Kind::VirtualRouter, router, Some(carried), &patch))
}

fn vip_job(here: Here<'_>, carried: &Carried<'_>, vip: &VirtualIP, said: &Said) -> Option<Job> {
    let address = vip.spec.address;
    if !is_wanted(vip) || !carried.assignment.addresses.contains(&address) {
        return None;
    }
    // Neither while it is being asked whether somebody has it.
    let word = if carried.standing.claimed.contains(&address) {
        Word::Announced(carried)
    } else if let Some(why) = here.unguarded.filter(|_| needs_guard(&vip.spec.sources)) {
        Word::Unguarded { why }
    } else {
        let rival = carried.standing.rival(address, here.now)?;
        Word::Taken { carried, mac: rival.mac }
    };
    let active = active_node(vip);
    let mine = active == Some(here.node);
    let known = vip.announced();
    let is_true = known.is_some_and(|condition| condition.status == "True");
    let is_known = match word {
        Word::Announced(_) => mine && is_true,
        Word::Taken { .. } | Word::Unguarded { .. } => known.is_some_and(|known| {
            !is_true && known.reason == word.reason() && known.message == word.sentence(here.node, address)
        }),
        Word::Refused { .. } | Word::Stopped | Word::Quarantined => true,
    };
    let others = active.is_some() && !mine && is_true;
    if is_known || (others && said.has_claimed(vip.metadata.uid.as_deref(), carried.period)) {
        return None;
    }
    Some(vip_patch(here, vip, word, Some(carried)))
}

/// The Active says why it does not announce an address. Where there is none, because this is the only address, each node may
/// say so whose reason is everybody's; but not against one that announces it still.
fn refusal_job(
    here: Here<'_>,
    refused: &Refused,
    carried: Option<&Carried<'_>>,
    vip: &VirtualIP,
) -> Option<Job> {
    let others = active_node(vip).is_some_and(|node| node != here.node);
    let may_say = carried.is_some() || (refused.alone && !others);
    let word = Word::Refused { why: &refused.reason };
    let is_known = vip.announced().is_some_and(|known| {
        known.status != "True" && known.reason == word.reason() && known.message == refused.reason
    });
    (is_wanted(vip) && may_say && !is_known).then(|| vip_patch(here, vip, word, carried))
}

/// Who announced an address until it was put into quarantine says that nobody does.
fn quarantine_job(here: Here<'_>, vip: &VirtualIP) -> Option<Job> {
    let is_mine = active_node(vip) == Some(here.node) && vip.metadata.deletion_timestamp.is_none();
    is_mine.then(|| vip_patch(here, vip, Word::Quarantined, None))
}

/// The patches of an orderly stop: where no other node could take over, nobody else would say that the address is no
/// longer announced. Everywhere else the next Active says what is true then.
pub(crate) fn last_words<R, V>(
    here: Here<'_>,
    assignments: &[Assignment],
    routers: &[R],
    vips: &[V],
) -> Vec<Job>
where
    R: AsRef<VirtualRouter>,
    V: AsRef<VirtualIP>,
{
    let alone: HashSet<&str> = assignments
        .iter()
        .filter(|assignment| assignment.peers.is_empty())
        .map(|assignment| assignment.virtual_router.as_str())
        .collect();
    let mut jobs = Vec::new();
    for router in routers.iter().map(AsRef::as_ref) {
        let active = router.status.as_ref().and_then(|status| status.active_node.as_deref());
        let is_alone = router.metadata.name.as_deref().is_some_and(|name| alone.contains(name));
        if is_alone && active == Some(here.node) {
            let patch = json!({ "activeNode": null, "activeSince": null });
            jobs.push(job(Kind::VirtualRouter, router, None, &patch));
        }
    }
    for vip in vips.iter().map(AsRef::as_ref) {
        let is_alone = vip.spec.virtual_router.as_deref().is_some_and(|name| alone.contains(name));
        if is_alone && is_wanted(vip) && active_node(vip) == Some(here.node) {
            jobs.push(vip_patch(here, vip, Word::Stopped, None));
        }
    }
    jobs
}

fn job(kind: Kind, object: &impl kube::ResourceExt, carried: Option<&Carried<'_>>, status: &Value) -> Job {
    let (uid, version) = (object.meta().uid.as_deref(), object.meta().resource_version.as_deref());
    Job {
        kind,
        name: object.name_any(),
        uid: uid.unwrap_or_default().to_owned(),
        version: version.unwrap_or_default().to_owned(),
        basis: carried.map(|carried| (carried.key.clone(), carried.period)),
        patch: json!({ "metadata": { "uid": uid, "resourceVersion": version }, "status": status }),
    }
}

fn active_node(vip: &VirtualIP) -> Option<&str> {
    vip.status.as_ref().and_then(|status| status.active_node.as_deref())
}

/// What there is to say of an address.
#[derive(Clone, Copy)]
enum Word<'a> {
    Announced(&'a Carried<'a>),
    Taken { carried: &'a Carried<'a>, mac: [u8; 6] },
    Unguarded { why: &'a str },
    Refused { why: &'a str },
    Stopped,
    Quarantined,
}

impl Word<'_> {
    const fn reason(self) -> &'static str {
        match self {
            Self::Announced(_) => REASON_ACTIVE,
            Self::Taken { .. } => REASON_ADDRESS_TAKEN,
            Self::Unguarded { .. } => REASON_UNGUARDED,
            Self::Refused { .. } => REASON_ADDRESS_REFUSED,
            Self::Stopped => REASON_AGENT_STOPPED,
            Self::Quarantined => REASON_QUARANTINED,
        }
    }

    fn sentence(self, node: &str, address: IpAddr) -> String {
        match self {
            Self::Announced(Carried { assignment, .. }) => format!(
                "Node {node} answers for {address} on {} (VRID {})",
                assignment.interface, assignment.vrid
            ),
            Self::Taken { carried, mac: station } => format!(
                "Another station, {} on {} of node {node}, has {address}: it is announced once that station lets go of it",
                mac(station),
                carried.assignment.interface
            ),
            Self::Unguarded { why } => format!(
                "Not everybody may use {address}, and node {node} cannot keep the others out: {why}; run its agent with its \
                 guard, or remove the source ranges of the Service"
            ),
            Self::Refused { why } => why.to_owned(),
            Self::Stopped => {
                format!("The agent on node {node}, the only one that may announce it, was stopped")
            }
            Self::Quarantined => format!("Node {node} no longer answers for {address}: it is in quarantine"),
        }
    }
}

/// All conditions with `Announced` set; others' conditions are kept, a merge patch replaces the list as a whole.
fn vip_patch(here: Here<'_>, vip: &VirtualIP, word: Word<'_>, carried: Option<&Carried<'_>>) -> Job {
    let (node, holds) = match word {
        Word::Announced(_) => (Some(here.node), true),
        Word::Taken { .. }
        | Word::Unguarded { .. }
        | Word::Refused { .. }
        | Word::Stopped
        | Word::Quarantined => (None, false),
    };
    let desired = DesiredCondition {
        type_: CONDITION_ANNOUNCED,
        holds,
        reason: word.reason(),
        message: word.sentence(here.node, vip.spec.address),
        generation: vip.metadata.generation,
    };
    let mut conditions = vip.status.as_ref().map_or_else(Vec::new, |status| status.conditions.clone());
    desired.set_in(&mut conditions, here.wall);
    let patch = json!({ "activeNode": node, "conditions": conditions });
    job(Kind::VirtualIP, vip, carried, &patch)
}

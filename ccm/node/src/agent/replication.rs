//! Replication of a virtual router's connections to other nodes: its state, and the engine's settings for it. Pure, but for the look at the
//! routes ([`way_back`]).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use jiff::Timestamp;
use windlass_api::connections_replicated as reasons;
use windlass_common::priorities;
use windlass_engine::{Priority, ReplicationStatus, RouterConfig, RouterKey, State};

use super::desired::{Assignment, Replica};

mod audience;
mod finding;
#[cfg(test)]
mod tests;
pub(crate) mod way_back;

pub(crate) use finding::{Finding, Obstacle};
use way_back::Astray;

/// Longest time for which a node that comes back leaves the Active in place because it lacks the connections.
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// The same where the Active does not answer, or this node cannot replicate yet: mostly there are no connections to wait for.
const SILENT_WAIT: Duration = Duration::from_secs(10);
/// Lag of another node after which it is reported.
const LAG: Duration = Duration::from_secs(10);
/// Time after becoming Active within which a missing copy of the connections is not reported: 200,000 take up to five seconds.
const FIRST_LAG: Duration = Duration::from_secs(5);
/// Delay after becoming Active before it counts that other nodes have the connections. A Backup serves none, so other nodes always have all
/// of them, and the engine takes a moment to learn more.
const SETTLING: Duration = Duration::from_secs(1);

/// Shortest time from the death of a peer until its replica counts as out of sync: three heartbeats of the sender, less the one that it may
/// have sent just before.
const NOTICED_AFTER: Duration = Duration::from_secs(1);

/// Extent to which another node has the connections that this one serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// It has all.
    All,
    /// It does not have all, as far as is known.
    NotAll,
    /// It does not have all: its kernel has no room for them.
    NoRoom,
}

/// Replication state between this node and another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) own: IpAddr,
    pub(crate) address: IpAddr,
    /// True if the peer answered lately.
    pub(crate) answers: bool,
    /// Its copy of the connections that this node serves.
    pub(crate) knowledge: Knowledge,
    /// True if this node has all connections that the peer serves.
    pub(crate) in_sync: bool,
}

/// State of the engine's replication.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) peers: Vec<Peer>,
    pub(crate) error: Option<String>,
}

impl From<&ReplicationStatus> for Known {
    fn from(status: &ReplicationStatus) -> Self {
        let peer = |one: &windlass_engine::PeerReplication| Peer {
            own: one.own,
            address: one.peer,
            answers: one.answers,
            knowledge: match (one.is_replica, one.is_full, one.knows_all) {
                (true, true, _) => Knowledge::NoRoom,
                (true, false, true) => Knowledge::All,
                (true, false, false) | (false, ..) => Knowledge::NotAll,
            },
            in_sync: one.in_sync,
        };
        Self { peers: status.peers.iter().map(peer).collect(), error: status.error.clone() }
    }
}

/// State of this node in a virtual router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) state: State,
    /// Address of the known Active.
    pub(crate) active: Option<IpAddr>,
}

/// Engine settings for a virtual router's connections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Share {
    replicas: BTreeSet<IpAddr>,
    vip_as_source: bool,
    /// Ranges of backends whose answers to the VIP would not arrive.
    astray: BTreeSet<IpNet>,
    succession: Succession,
}

/// This node's copy of the connections of the Active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnCopy {
    /// It has all.
    Current,
    /// It had all until the Active's heartbeats were missed, too recently for a takeover.
    OfTheSilent,
    /// It does not have all.
    Lacking,
}

/// Rule by which this node succeeds an Active.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Succession {
    /// By its priority, whether the Active is alive or dead.
    #[default]
    Whole,
    /// By its priority, but after a dead Active only. It takes over from none that is alive, whose connections it does not know.
    OfTheDead,
    /// As `OfTheDead`, but after nodes that know the connections.
    Trailing,
}

impl Succession {
    fn holds_back(self) -> bool {
        match self {
            Self::Whole => false,
            Self::OfTheDead | Self::Trailing => true,
        }
    }

    fn trails(self) -> bool {
        match self {
            Self::Whole | Self::OfTheDead => false,
            Self::Trailing => true,
        }
    }
}

impl Share {
    /// Returns the settings of a virtual router that was not examined yet.
    fn unlooked() -> Self {
        Self { succession: Succession::Trailing, ..Self::default() }
    }

    /// Returns the config with these settings applied.
    pub(crate) fn applied_to(&self, config: RouterConfig) -> RouterConfig {
        let preempt = config.preempt && !self.succession.holds_back();
        let trailing = Priority::new(priorities::trailing(config.priority.get())).ok();
        let priority = trailing.filter(|_| self.succession.trails()).unwrap_or(config.priority);
        let (replicas, astray) = (self.replicas.clone(), self.astray.clone());
        RouterConfig { replicas, vip_as_source: self.vip_as_source, astray, preempt, priority, ..config }
    }
}

/// Stored state of a virtual router.
#[derive(Debug)]
struct Router {
    share: Share,
    finding: Option<Finding>,
    /// True if another node had all connections at some time since replication began: while none has ever answered, backends do not answer
    /// to the VIP, so that planned moves keep connections as they do without replication.
    has_worked: bool,
    /// Start of the wait for the connections of the Active.
    waits_since: Option<Instant>,
    /// Time at which this node last had all connections of the Active.
    in_sync_at: Option<Instant>,
    /// Start of this node's Active period.
    active_since: Option<Instant>,
    /// Start of backends' answers to the VIP, if that was while this node was Active: connections from before are not replicated.
    replicates_since: Option<Timestamp>,
    /// Times at which other nodes last had all connections, by node name, since this node is Active.
    had_all: BTreeMap<String, Instant>,
    /// Answers that go astray, by the last conclusive look. An obstacle since then may be momentary.
    last_way: Option<Vec<Astray>>,
    /// Start of the current obstacle.
    obstructed_since: Option<Instant>,
}

/// Engine settings and findings of each virtual router whose connections are to be replicated.
#[derive(Debug, Default)]
pub(crate) struct Replication {
    routers: BTreeMap<RouterKey, Router>,
}

impl Replication {
    /// Returns the engine settings of a virtual router. One that was not examined yet takes no address from an Active, whose connections it
    /// cannot know.
    pub(crate) fn share(&self, key: &RouterKey) -> Share {
        self.routers.get(key).map_or_else(Share::unlooked, |router| router.share.clone())
    }

    /// Returns true if nothing is replicated and there is nothing to report about it.
    pub(crate) fn is_idle(&self) -> bool {
        self.routers.is_empty()
    }

    /// Returns the findings about the virtual routers for which this node is Active.
    pub(crate) fn findings(&self) -> BTreeMap<RouterKey, Finding> {
        let findings = self.routers.iter().filter_map(|(key, one)| Some((key.clone(), one.finding.clone()?)));
        findings.collect()
    }

    /// Evaluates the current state. Returns true if engine settings changed. `ways`: answers to a virtual router's addresses that go
    /// astray, or the obstacle to all.
    pub(crate) fn look<'a>(
        &mut self,
        assignments: &[Assignment],
        standings: &BTreeMap<RouterKey, Standing>,
        ways: impl Fn(&Assignment) -> Result<&'a [Astray], Obstacle>,
        known: &Known,
        now: Instant,
        wall: Timestamp,
    ) -> bool {
        let mut before = std::mem::take(&mut self.routers);
        let mut changed = false;
        for assignment in assignments.iter().filter(|one| one.replicates()) {
            let Ok(key) = assignment.key() else { continue };
            let unknown = Standing { state: State::Initialize, active: None };
            let standing = standings.get(&key).copied().unwrap_or(unknown);
            let mut router = before.remove(&key).unwrap_or_else(|| Router::new(Share::unlooked()));
            let share = router.share.clone();
            router.look(assignment, standing, ways(assignment), known, (now, wall));
            changed |= router.share != share;
            self.routers.insert(key, router);
        }
        changed
    }
}

impl Router {
    fn new(share: Share) -> Self {
        Self {
            share,
            finding: None,
            has_worked: false,
            waits_since: None,
            in_sync_at: None,
            active_since: None,
            replicates_since: None,
            had_all: BTreeMap::new(),
            last_way: None,
            obstructed_since: None,
        }
    }

    fn look(
        &mut self,
        assignment: &Assignment,
        standing: Standing,
        way: Result<&[Astray], Obstacle>,
        known: &Known,
        (now, wall): (Instant, Timestamp),
    ) {
        let is_active = standing.state == State::Active;
        let was_active = self.active_since.is_some();
        self.active_since = if is_active { self.active_since.or(Some(now)) } else { None };
        if let Some(finding) = out_of_scope(assignment) {
            *self = Self { active_since: self.active_since, ..Self::new(Share::default()) };
            self.finding = Some(finding).filter(|_| is_active);
            return;
        }
        let astray = match self.outlasting(way, now) {
            Ok(astray) => astray,
            Err(obstacle) => {
                let waits = obstacle.may_pass();
                let succession = if waits {
                    self.succession(standing, OwnCopy::Lacking, SILENT_WAIT, now)
                } else {
                    Succession::Whole
                };
                let share = Share { succession, ..Share::default() };
                let (active_since, waits_since) = (self.active_since, self.waits_since);
                *self = Self { waits_since, active_since, ..Self::new(share) };
                self.finding = obstacle.finding().filter(|_| is_active);
                return;
            }
        };
        let peers = || known.peers.iter().filter(|peer| peer.own == assignment.source);
        let is_any = |replica: &Replica, holds: fn(&Peer) -> bool| {
            peers().any(|peer| holds(peer) && replica.addresses.contains(&peer.address))
        };
        let told = audience::of(&assignment.replicas, |replica| is_any(replica, |peer| peer.answers));
        let have_all =
            || told.iter().filter(|replica| is_any(replica, |peer| peer.knowledge == Knowledge::All));
        if !was_active {
            self.had_all.clear();
        }
        if self.active_since.is_some_and(|since| now.duration_since(since) >= SETTLING) {
            self.had_all.extend(have_all().map(|replica| (replica.node.clone(), now)));
        }
        self.had_all.retain(|node, at| {
            now.duration_since(*at) < LAG && told.iter().any(|replica| replica.node == *node)
        });
        self.has_worked = known.error.is_none() && (self.has_worked || have_all().next().is_some());
        if !is_active {
            self.replicates_since = None;
        } else if self.has_worked && !self.share.vip_as_source {
            self.replicates_since = Timestamp::from_second(wall.as_second()).ok();
        }
        let of_active = || peers().filter(|peer| standing.active == Some(peer.address));
        let own_copy = self.own_copy(of_active().any(|peer| peer.in_sync), assignment, now);
        let longest = if of_active().any(|peer| peer.answers) { LONGEST_WAIT } else { SILENT_WAIT };
        let succession = self.succession(standing, own_copy, longest, now);
        self.share = Share {
            replicas: told.iter().flat_map(|replica| &replica.addresses).copied().collect(),
            vip_as_source: self.has_worked,
            astray: astray.iter().map(|stray| stray.range).collect(),
            succession,
        };
        self.finding =
            self.active_since.and_then(|since| self.finding(assignment, &told, &astray, known, since, now));
    }

    /// Returns the answers that go astray, or the obstacle to all. An obstacle that has not yet outlasted its patience changes nothing:
    /// otherwise a Backup would lose what it knows.
    fn outlasting(
        &mut self,
        way: Result<&[Astray], Obstacle>,
        now: Instant,
    ) -> Result<Vec<Astray>, Obstacle> {
        match way {
            Ok(astray) => {
                (self.last_way, self.obstructed_since) = (Some(astray.to_vec()), None);
                Ok(astray.to_vec())
            }
            Err(obstacle) => {
                let since = *self.obstructed_since.get_or_insert(now);
                let lasts = now.duration_since(since) >= obstacle.patience();
                self.last_way.clone().filter(|_| !lasts).ok_or(obstacle)
            }
        }
    }

    /// Returns the rule of succession. Without a known Active the node takes over in any case. Between two Actives it trails the nodes that
    /// know the connections if it did before: so the nodes that know them keep their order. `longest`: wait for those that it lacks.
    fn succession(
        &mut self,
        standing: Standing,
        own_copy: OwnCopy,
        longest: Duration,
        now: Instant,
    ) -> Succession {
        let waits_since = self.waits_since.take();
        match (standing.state, standing.active, own_copy) {
            (State::Active, ..) => {
                self.in_sync_at = None;
                Succession::Whole
            }
            (State::Backup, Some(_), OwnCopy::Current) => Succession::Whole,
            (State::Backup, Some(_), OwnCopy::OfTheSilent) => Succession::OfTheDead,
            (State::Backup, Some(_), OwnCopy::Lacking) => {
                let since = *self.waits_since.insert(waits_since.unwrap_or(now));
                let waits = now.duration_since(since) < longest;
                if waits { Succession::Trailing } else { Succession::Whole }
            }
            (State::Backup, None, _) => match self.share.succession {
                Succession::Whole | Succession::OfTheDead => Succession::OfTheDead,
                Succession::Trailing => Succession::Trailing,
            },
            (State::Initialize, ..) => Succession::Trailing,
        }
    }

    /// Returns this node's copy of the Active's connections. With slow adverts a dead Active counts as the Active until long after its
    /// heartbeats are missed: until the takeover its copy is as good as it was.
    fn own_copy(&mut self, in_sync: bool, assignment: &Assignment, now: Instant) -> OwnCopy {
        if in_sync {
            self.in_sync_at = Some(now);
            return OwnCopy::Current;
        }
        let patience = takeover_time(assignment).saturating_sub(NOTICED_AFTER);
        let lately = self.in_sync_at.is_some_and(|at| now.duration_since(at) < patience);
        if lately { OwnCopy::OfTheSilent } else { OwnCopy::Lacking }
    }

    fn finding(
        &self,
        assignment: &Assignment,
        told: &[&Replica],
        astray: &[Astray],
        known: &Known,
        since: Instant,
        now: Instant,
    ) -> Option<Finding> {
        if let Some(error) = &known.error {
            return Some(Finding { holds: false, reason: reasons::REPLICATION_FAILED, why: error.clone() });
        }
        let (have, lack): (Vec<&str>, Vec<&str>) = told
            .iter()
            .map(|replica| replica.node.as_str())
            .partition(|node| self.had_all.contains_key(*node));
        if have.is_empty() {
            let is_late = now.duration_since(since) >= FIRST_LAG;
            let is_full = |node: &str| {
                let replica = told.iter().find(|replica| replica.node == node);
                replica.is_some_and(|replica| {
                    known.peers.iter().any(|peer| {
                        peer.knowledge == Knowledge::NoRoom && replica.addresses.contains(&peer.address)
                    })
                })
            };
            let (full, lack) = lack.into_iter().partition(|node| is_full(node));
            let why = finding::not_in_sync(full, lack);
            return is_late.then_some(Finding { holds: false, reason: reasons::NOT_IN_SYNC, why });
        }
        let verb = if have.len() == 1 { "has" } else { "have" };
        let astray = (!astray.is_empty())
            .then(|| finding::astray(&way_back::words::of(astray, &assignment.interface)));
        let earlier = self.replicates_since.map(finding::earlier);
        let left_out: Vec<String> = astray.into_iter().chain(earlier).collect();
        let but = if left_out.is_empty() { "" } else { ", but for " };
        let why = format!("{} {verb} the connections{but}{}", have.join(" and "), left_out.join(", and "));
        Some(Finding { holds: true, reason: reasons::REPLICATED, why })
    }
}

/// Returns the longest time from an Active's death to a takeover: the Active-down interval, with a skew time of a whole interval
/// (RFC 9568 §6.1), after its last advert.
fn takeover_time(assignment: &Assignment) -> Duration {
    Duration::from_millis(u64::from(assignment.interval_milliseconds)) * 4
}

/// Returns the reason, if any, why a virtual router's connections are replicated on no node.
fn out_of_scope(assignment: &Assignment) -> Option<Finding> {
    let (reason, why) = if assignment.virtual_mac {
        let why =
            "its Announcement wants the virtual MAC address, with which the address is on the node itself";
        (reasons::VIRTUAL_MAC_ADDRESS, why)
    } else if assignment.replicas.is_empty() {
        (reasons::NO_OTHER_NODE, "no other node may announce the address")
    } else {
        return None;
    };
    Some(Finding { holds: false, reason, why: why.to_owned() })
}

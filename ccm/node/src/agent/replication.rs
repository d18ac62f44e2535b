//! Whether the connections of a virtual router are known to other nodes, and what the engine is told for that. Pure, but for the look
//! at the routes ([`way_back`]).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use jiff::Timestamp;
use windlass_api::{ExternalTrafficPolicy, connections_replicated as reasons};
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

/// How long a node that comes back leaves the one in place that announces, for want of its connections.
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// How long another node may lag behind before that is told.
const LAG: Duration = Duration::from_secs(10);
/// How long no other node has the connections of one that has just become Active before that is told: 200,000 take up to five seconds.
const FIRST_LAG: Duration = Duration::from_secs(5);
/// From when on it counts that other nodes have the connections of one that has become Active. Those of a Backup, of which there are none, they
/// have always, and the engine takes a moment to find out more.
const SETTLING: Duration = Duration::from_secs(1);

/// What another node has of the connections that this one serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// All.
    All,
    /// Not all, as far as is known.
    NotAll,
    /// Not all: its kernel has no room for them.
    NoRoom,
}

/// What this node and another know of each other's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) own: IpAddr,
    pub(crate) address: IpAddr,
    /// Whether it was heard lately.
    pub(crate) answers: bool,
    /// What it has of what this node serves.
    pub(crate) knowledge: Knowledge,
    /// Whether this node has all that it serves.
    pub(crate) in_sync: bool,
}

/// How the engine's replication stands.
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

/// How this node stands in a virtual router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) state: State,
    /// Who is known to be Active.
    pub(crate) active: Option<IpAddr>,
}

/// What the engine is told of a virtual router's connections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Share {
    replicas: BTreeSet<IpAddr>,
    vip_as_source: bool,
    /// Where backends are whose answers to the VIP would not arrive.
    astray: BTreeSet<IpNet>,
    succession: Succession,
}

/// How this node comes after an Active.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Succession {
    /// By its priority, from one that lives or has died.
    #[default]
    Whole,
    /// By its priority from one that has died. It takes over from none that lives, whose connections it does not know.
    OfTheDead,
    /// The same, but after nodes that know the connections.
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
    /// Of a virtual router that was not looked at yet.
    fn unlooked() -> Self {
        Self { succession: Succession::Trailing, ..Self::default() }
    }

    /// With what follows from it.
    pub(crate) fn applied_to(&self, config: RouterConfig) -> RouterConfig {
        let preempt = config.preempt && !self.succession.holds_back();
        let trailing = Priority::new(priorities::trailing(config.priority.get())).ok();
        let priority = trailing.filter(|_| self.succession.trails()).unwrap_or(config.priority);
        let (replicas, astray) = (self.replicas.clone(), self.astray.clone());
        RouterConfig { replicas, vip_as_source: self.vip_as_source, astray, preempt, priority, ..config }
    }
}

/// What is remembered of a virtual router.
#[derive(Debug)]
struct Router {
    share: Share,
    finding: Option<Finding>,
    /// Whether another node had all connections since replication began: where none ever answers, backends are not to answer to the
    /// VIP, so that planned moves keep connections as they do without.
    has_worked: bool,
    /// Since when it waits for the connections of the Active.
    waits_since: Option<Instant>,
    /// Since when this node is Active.
    active_since: Option<Instant>,
    /// Since when backends answer to the VIP, where that began while this node was Active: of what had begun before nobody is told.
    replicates_since: Option<Timestamp>,
    /// When other nodes had all connections last, by their names, since this node is Active.
    had_all: BTreeMap<String, Instant>,
    /// Which answers go astray, by the last look that found out. What is in the way since then, if anything, may be so for a moment.
    last_way: Option<Vec<Astray>>,
    /// Since when something is in the way.
    obstructed_since: Option<Instant>,
}

/// Of each virtual router whose connections are to be replicated what the engine and the cluster are told.
#[derive(Debug, Default)]
pub(crate) struct Replication {
    routers: BTreeMap<RouterKey, Router>,
}

impl Replication {
    /// What the engine is told of a virtual router. Of one that was not looked at yet: to take nothing from an Active, whose connections
    /// it cannot know.
    pub(crate) fn share(&self, key: &RouterKey) -> Share {
        self.routers.get(key).map_or_else(Share::unlooked, |router| router.share.clone())
    }

    /// Whether nothing is replicated, and nothing to be told of it.
    pub(crate) fn is_idle(&self) -> bool {
        self.routers.is_empty()
    }

    /// What is to be told of those for which this node is Active.
    pub(crate) fn findings(&self) -> BTreeMap<RouterKey, Finding> {
        let findings = self.routers.iter().filter_map(|(key, one)| Some((key.clone(), one.finding.clone()?)));
        findings.collect()
    }

    /// Looks at how everything stands now; says whether the engine is to be told something else. `ways`: which answers to a virtual
    /// router's addresses go astray, or what is in the way of all.
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
                let succession =
                    if waits { self.succession(standing, false, now) } else { Succession::Whole };
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
        let in_sync = peers().any(|peer| peer.in_sync && standing.active == Some(peer.address));
        let succession = self.succession(standing, in_sync, now);
        self.share = Share {
            replicas: told.iter().flat_map(|replica| &replica.addresses).copied().collect(),
            vip_as_source: self.has_worked,
            astray: astray.iter().map(|stray| stray.range).collect(),
            succession,
        };
        self.finding =
            self.active_since.and_then(|since| self.finding(assignment, &told, &astray, known, since, now));
    }

    /// Which answers go astray, or what is in the way of all. What has been in the way for no longer than it may be for a moment changes nothing: what
    /// a Backup knows would be forgotten for it.
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

    /// How it comes after an Active. Where none is heard it takes over in any case; between the end of one Active and the next it comes after
    /// nodes that know the connections if it did before: so all that know them keep their order.
    fn succession(&mut self, standing: Standing, in_sync: bool, now: Instant) -> Succession {
        match (standing.state, standing.active) {
            (State::Active, _) => {
                self.waits_since = None;
                Succession::Whole
            }
            (State::Backup, Some(_)) if in_sync => {
                self.waits_since = None;
                Succession::Whole
            }
            (State::Backup, Some(_)) => {
                let since = *self.waits_since.get_or_insert(now);
                let waits = now.duration_since(since) < LONGEST_WAIT;
                if waits { Succession::Trailing } else { Succession::Whole }
            }
            (State::Backup, None) => {
                self.waits_since = None;
                match self.share.succession {
                    Succession::Whole | Succession::OfTheDead => Succession::OfTheDead,
                    Succession::Trailing => Succession::Trailing,
                }
            }
            (State::Initialize, _) => {
                self.waits_since = None;
                Succession::Trailing
            }
        }
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

/// Why a virtual router's connections are not replicated on any node.
fn out_of_scope(assignment: &Assignment) -> Option<Finding> {
    let (reason, why) = if assignment.virtual_mac {
        let why =
            "its Announcement wants the virtual MAC address, with which the address is on the node itself";
        (reasons::VIRTUAL_MAC_ADDRESS, why)
    } else if assignment.external_traffic_policy == ExternalTrafficPolicy::Local {
        (
            reasons::LOCAL_TRAFFIC,
            "its Service has externalTrafficPolicy: Local, so that their backends die with it",
        )
    } else if assignment.replicas.is_empty() {
        (reasons::NO_OTHER_NODE, "no other node may announce the address")
    } else {
        return None;
    };
    Some(Finding { holds: false, reason, why: why.to_owned() })
}

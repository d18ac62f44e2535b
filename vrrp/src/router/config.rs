//! Configuration of a virtual router, and the times that follow from it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use crate::units::{Interval, Priority, Time, Versions};

/// Configuration of a virtual router on this node. May change while it runs, see [`super::Router::reconfigure`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Own priority.
    pub priority: Priority,
    /// Interval between own adverts while Active (Advertisement_Interval). A Backup uses the interval in the Active's adverts.
    pub interval: Interval,
    /// True if a Backup takes over from an Active of lower priority (Preempt_Mode).
    pub preempt: bool,
    /// Time for which a Backup leaves an Active of lower priority in place before it preempts, from the first of its adverts that
    /// arrives. A silent Active is replaced without this delay. An owner (priority 255) does not wait.
    pub preempt_delay: Duration,
    /// Priority from which on an Active is fit for its work: a lower one is not left in place for the preemption delay, and a Backup
    /// that is fit takes over from it after its skew time. Default: 1, of which every Active is.
    pub fit_from: Priority,
    /// Peers that preempt before this router. Each of them but the Active gets [`Self::preempt_turn`] to preempt first, so that
    /// addresses do not move twice where nodes learn other priorities at different moments.
    pub preferred: BTreeSet<IpAddr>,
    /// Time for which this router waits for each of the preferred peers.
    pub preempt_turn: Duration,
    /// Versions it speaks: they decide the skew time and which adverts count.
    pub versions: Versions,
    /// Source of own adverts; breaks ties between equal priorities.
    pub primary: IpAddr,
    /// The other candidates: adverts of other sources are not obeyed.
    pub peers: BTreeSet<IpAddr>,
    /// True if there may be candidates that [`Self::peers`] does not name, because they are not known yet.
    pub unknown_peers: bool,
    /// True if adverts also go by unicast to peers that multicast does not reach. Only where adverts go to a group, and where the
    /// peers do likewise.
    pub unicast_fallback: bool,
    /// The virtual addresses to announce while Active. Any number: they need not fit an advert.
    pub addresses: BTreeSet<IpAddr>,
}

impl Config {
    /// Time after its last advert for which an Active can be sure that no peer has taken over because of its silence: 3 intervals
    /// less an eighth of one (23/8). Peers wait 3 intervals and at least 1/256 more by their own clocks, so this holds as long as
    /// each of two clocks is off by at most 2.1 %. `None`: it has no peers, so no router can.
    pub fn active_period(&self) -> Option<Duration> {
        let interval = self.interval.duration();
        self.may_have_peers().then(|| interval.saturating_mul(23).checked_div(8)).flatten()
    }

    /// Returns true if there may be another candidate.
    pub fn may_have_peers(&self) -> bool {
        self.unknown_peers || !self.peers.is_empty()
    }

    /// Active_Adver_Interval: the interval learned from the Active, else the own one. Version 2 knows only the own one (RFC 3768
    /// §6.1).
    pub(super) fn rate(&self, learned: Option<Interval>) -> Interval {
        match self.versions {
            Versions::V2 => self.interval,
            Versions::V3 | Versions::V2AndV3 => learned.unwrap_or(self.interval),
        }
    }

    /// Skew_Time (RFC 9568 §6.1) at the interval `learned` from the Active.
    pub(super) fn skew(&self, learned: Option<Interval>) -> Duration {
        self.versions.skew(self.rate(learned), self.priority)
    }

    /// Active_Down_Interval (RFC 9568 §6.1) at the interval `learned` from the Active.
    pub(super) fn active_down(&self, learned: Option<Interval>) -> Duration {
        self.versions.active_down(self.rate(learned), self.priority)
    }

    /// Returns true if this router is to replace, at `now`, an Active of this lower priority whose first advert arrived at `since`
    /// (T7, T14).
    pub(super) fn preempts(&self, active: IpAddr, priority: Priority, since: Time, now: Time) -> bool {
        self.priority == Priority::OWNER || (self.preempt && now.since(since) >= self.wait(active, priority))
    }

    /// Returns true if an Active of this priority is not fit for its work, and this router is.
    pub(super) fn is_fitter_than(&self, priority: Priority) -> bool {
        priority < self.fit_from && self.fit_from <= self.priority
    }

    /// Returns the time for which an Active of this lower priority is left in place.
    fn wait(&self, active: IpAddr, priority: Priority) -> Duration {
        let delay = if priority < self.fit_from { Duration::ZERO } else { self.preempt_delay };
        let turns = self.preferred.iter().filter(|peer| **peer != active).count();
        delay.saturating_add(self.preempt_turn.saturating_mul(u32::try_from(turns).unwrap_or(u32::MAX)))
    }

    /// Returns true if this router yields to an Active of `priority` at `source` (T12). Of two routers that know each other's
    /// priority exactly one does: the order of (priority, address) is total, and equal addresses never get here (T15).
    pub(super) fn yields_to(&self, priority: Priority, source: IpAddr) -> bool {
        (priority, source) > (self.priority, self.primary)
    }
}

//! One virtual router's state machine (RFC 9568 §6.4). Time is an argument, what is to be done is a value.
//!
//! ```text
//!                  startup, priority 255
//!        ┌──────────────────────────────────────────┐
//!  ┌─────┴──────┐  startup  ┌────────┐ down timer ┌─▼──────┐
//!  │ Initialize ├──────────►│ Backup ├───────────►│ Active │
//!  │            │◄──────────┤        │◄───────────┤        │
//!  └─────▲──────┘ shutdown, └────────┘ superior   └─┬──────┘
//!        │        interrupt            advert, or   │
//!        │                             overslept    │
//!        └──────────────────────────────────────────┘
//!                  shutdown, interrupt
//! ```
//!
//! # Beyond RFC 9568, each for a failure seen in the field
//! - **Peers.** Adverts are obeyed only from [`Config::peers`]; a stranger with our VRID changes nothing.
//! - **Overslept Active.** An Active that was not run for as long as a peer needs to take over (3 intervals since its last
//!   advert) becomes Backup and listens before it speaks again, whatever input wakes it. Without peers it need not.
//! - **Overslept Backup.** A Backup that is woken a whole Active_Down_Interval after its deadline cannot know whether the
//!   LAN was silent or itself stopped; it listens for one more interval, once.
//! - **Parting advert.** An Active that yields to a superior one sends one last advert, so that the winner knows it was
//!   contested and announces its addresses again (T13): else hosts that heard only the loser keep the stale entry.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use crate::units::{Interval, Priority, Time, Version, Versions, Vrid};

#[cfg(test)]
mod tests;

/// What a virtual router is told to be on this node. May change while it runs, see [`Router::reconfigure`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Own priority.
    pub priority: Priority,
    /// Time between own adverts while Active (Advertisement_Interval). A Backup uses what the Active says.
    pub interval: Interval,
    /// Whether a Backup takes over from an Active of lower priority (Preempt_Mode).
    pub preempt: bool,
    /// How long a Backup leaves an Active of lower priority in place, from the first advert of it that it hears, before it
    /// preempts. A silent Active is replaced without this delay.
    pub preempt_delay: Duration,
    /// Versions it speaks: they decide the skew time and which adverts count.
    pub versions: Versions,
    /// Source of own adverts; breaks ties between equal priorities.
    pub primary: IpAddr,
    /// The other candidates: adverts from anyone else are not obeyed.
    pub peers: BTreeSet<IpAddr>,
    /// The virtual addresses to announce while Active. Any number: they need not fit an advert.
    pub addresses: BTreeSet<IpAddr>,
}

/// State of a virtual router (RFC 9568 §6.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(clippy::exhaustive_enums, reason = "the RFC has three states")]
pub enum State {
    /// Not taking part.
    Initialize,
    /// Watching the Active.
    Backup,
    /// Serving the addresses.
    Active,
}

impl State {
    /// `initialize`, `backup` or `active`, as RFC 8347 spells them.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::Backup => "backup",
            Self::Active => "active",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why the state changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The router was started.
    Startup,
    /// Started with priority 255: the owner of the addresses need not wait.
    Owner,
    /// No advert within the Active_Down_Interval.
    ActiveSilent,
    /// The Active said that it resigns (priority 0).
    ActiveResigned,
    /// The Active has a lower priority than this router, which may preempt it.
    Preempted,
    /// A peer with a better claim is Active.
    SuperiorActive {
        /// The peer.
        source: IpAddr,
        /// Its priority; equal to the own one if its address is higher.
        priority: Priority,
    },
    /// The driver did not run for so long that a peer may have taken over.
    Overslept,
    /// The router was told to stop.
    Shutdown,
    /// Its interface can no longer be used.
    InterfaceLost,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Startup => f.write_str("started"),
            Self::Owner => f.write_str("started as owner of the addresses"),
            Self::ActiveSilent => f.write_str("the Active is silent"),
            Self::ActiveResigned => f.write_str("the Active resigned"),
            Self::Preempted => f.write_str("the Active has a lower priority"),
            Self::SuperiorActive { source, priority } => {
                write!(f, "{source} is Active with priority {priority}")
            }
            Self::Overslept => f.write_str("not run for so long that a peer may have taken over"),
            Self::Shutdown => f.write_str("stopped"),
            Self::InterfaceLost => f.write_str("interface lost"),
        }
    }
}

/// Something the driver must do, in the order given.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a driver must not overlook an action")]
pub enum Action {
    /// Send an advert with this priority; `None` is priority 0, "I resign".
    SendAdvert {
        /// Priority to send.
        priority: Option<Priority>,
    },
    /// The state changed. To Active: answer for the addresses from now on; from Active: stop answering at once.
    Transition {
        /// State left.
        from: State,
        /// State entered.
        to: State,
        /// Why.
        reason: Reason,
    },
    /// Tell the LAN where the addresses are (gratuitous ARP).
    Announce(Announce),
}

/// What to announce.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a driver must not overlook an announcement")]
pub enum Announce {
    /// All addresses: this router has just become Active.
    Takeover,
    /// All addresses again: another router also thought it was Active.
    Contention,
    /// These addresses were added while Active.
    Added(BTreeSet<IpAddr>),
}

/// A valid advert of this router's VRID, as heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heard {
    /// Source address of the packet.
    pub source: IpAddr,
    /// Its priority; `None` is priority 0, "I resign".
    pub priority: Option<Priority>,
    /// Its sender's advertisement interval.
    pub interval: Interval,
    /// Its version.
    pub version: Version,
}

/// What became of an advert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a driver counts each")]
pub enum Verdict {
    /// Obeyed: it set a timer or the state.
    Obeyed,
    /// From a peer with an inferior claim; answered if this router is Active.
    Inferior,
    /// Not from a peer: ignored.
    Stranger,
    /// From this router's own address: a duplicate address or a looped packet. Ignored (T15).
    OwnAddress,
    /// This router is in Initialize.
    NotRunning,
}

/// What a Backup will have waited for when its timer fires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waiting {
    /// A silent Active.
    Silence,
    /// A resigned one: the timer is Skew_Time.
    Resigned,
    /// One of lower priority, which is being ignored.
    Preempting,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Initialize,
    Backup {
        /// Active_Down_Timer.
        deadline: Time,
        /// Active_Adver_Interval: as learned from the Active, else the own one.
        learned: Interval,
        waiting: Waiting,
        /// The extra interval of an overslept Backup is used up.
        listened_again: bool,
        /// The router last heard as Active.
        active: Option<IpAddr>,
    },
    Active {
        /// Adver_Timer.
        next_advert: Time,
        last_advert: Time,
    },
}

/// The state machine of one virtual router on one node. See the crate's documentation for how to drive it.
#[derive(Clone, Debug)]
pub struct Router {
    vrid: Vrid,
    config: Config,
    phase: Phase,
    actions: VecDeque<Action>,
}

impl Router {
    /// A router in Initialize.
    pub fn new(vrid: Vrid, config: Config) -> Self {
        Self { vrid, config, phase: Phase::Initialize, actions: VecDeque::with_capacity(4) }
    }

    /// Its VRID.
    pub fn vrid(&self) -> Vrid {
        self.vrid
    }

    /// Its configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Its state.
    pub fn state(&self) -> State {
        match self.phase {
            Phase::Initialize => State::Initialize,
            Phase::Backup { .. } => State::Backup,
            Phase::Active { .. } => State::Active,
        }
    }

    /// Address of the router it knows to be Active: its own, a peer's, or none heard yet.
    pub fn active(&self) -> Option<IpAddr> {
        match self.phase {
            Phase::Initialize => None,
            Phase::Backup { active, .. } => active,
            Phase::Active { .. } => Some(self.config.primary),
        }
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        match self.phase {
            Phase::Initialize => None,
            Phase::Backup { deadline, .. } => Some(deadline),
            Phase::Active { next_advert, .. } => Some(next_advert),
        }
    }

    /// The next action to carry out.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Startup event (T1, T2). No effect on a running router.
    pub fn startup(&mut self, now: Time) {
        match self.phase {
            Phase::Initialize => {
                if self.config.priority == Priority::OWNER {
                    self.promote(Reason::Owner, now);
                } else {
                    self.enter_backup(Reason::Startup, self.config.interval, None, now);
                }
            }
            Phase::Backup { .. } | Phase::Active { .. } => {}
        }
    }

    /// Shutdown event: an Active resigns with priority 0 (T9), a Backup leaves silently (T3).
    pub fn shutdown(&mut self, now: Time) {
        self.yield_if_overslept(now);
        match self.phase {
            Phase::Initialize => {}
            Phase::Backup { .. } => self.enter(Phase::Initialize, Reason::Shutdown),
            Phase::Active { .. } => {
                self.enter(Phase::Initialize, Reason::Shutdown);
                self.actions.push_back(Action::SendAdvert { priority: None });
            }
        }
    }

    /// The interface can no longer be used: to Initialize without a word, as nothing could carry it.
    pub fn interrupt(&mut self) {
        match self.phase {
            Phase::Initialize => {}
            Phase::Backup { .. } | Phase::Active { .. } => {
                self.enter(Phase::Initialize, Reason::InterfaceLost);
            }
        }
    }

    /// A valid advert with this router's VRID arrived on its interface.
    pub fn handle_advert(&mut self, heard: Heard, now: Time) -> Verdict {
        if heard.source == self.config.primary {
            return Verdict::OwnAddress;
        }
        if !self.config.peers.contains(&heard.source) {
            return Verdict::Stranger;
        }
        self.yield_if_overslept(now);
        let own = self.config.priority;
        match (&mut self.phase, heard.priority) {
            (Phase::Initialize, Some(_) | None) => Verdict::NotRunning,
            (Phase::Backup { deadline, learned, waiting, .. }, None) => {
                // T5
                *deadline = now + learned.skew(own);
                *waiting = Waiting::Resigned;
                Verdict::Obeyed
            }
            (Phase::Backup { deadline, learned, waiting, listened_again, active }, Some(priority)) => {
                *active = Some(heard.source);
                if !self.config.preempt || priority >= own {
                    // T6, T8
                    *learned = heard.interval;
                    *deadline = now + learned.active_down(own);
                    *waiting = Waiting::Silence;
                    *listened_again = false;
                    Verdict::Obeyed
                } else {
                    // T7: the timer runs on and the interval is not adopted.
                    *waiting = Waiting::Preempting;
                    Verdict::Inferior
                }
            }
            (Phase::Active { .. }, None) => {
                // T11
                self.send_advert(now);
                Verdict::Obeyed
            }
            (Phase::Active { .. }, Some(priority)) => {
                if priority > own || (priority == own && heard.source > self.config.primary) {
                    // T12
                    let reason = Reason::SuperiorActive { source: heard.source, priority };
                    self.enter_backup(reason, heard.interval, Some(heard.source), now);
                    self.actions.push_back(Action::SendAdvert { priority: Some(own) });
                    Verdict::Obeyed
                } else {
                    // T13
                    self.send_advert(now);
                    self.actions.push_back(Action::Announce(Announce::Contention));
                    Verdict::Inferior
                }
            }
        }
    }

    /// The time of [`Self::poll_timeout`] has come. Called early it does nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        self.yield_if_overslept(now);
        let own = self.config.priority;
        match &mut self.phase {
            Phase::Initialize => {}
            Phase::Backup { deadline, learned, waiting, listened_again, .. } => {
                if now < *deadline {
                    return;
                }
                let patience = learned.active_down(own);
                if now.since(*deadline) >= patience && !*listened_again && !self.config.peers.is_empty() {
                    *deadline = now + patience;
                    *listened_again = true;
                    return;
                }
                // T4
                let reason = match waiting {
                    Waiting::Silence => Reason::ActiveSilent,
                    Waiting::Resigned => Reason::ActiveResigned,
                    Waiting::Preempting => Reason::Preempted,
                };
                self.promote(reason, now);
            }
            Phase::Active { next_advert, .. } => {
                let due = *next_advert;
                if now >= due {
                    // T10. Counted from the deadline, so that adverts do not drift by the driver's lateness.
                    self.send_advert(now);
                    let on_time = due + self.config.interval.duration();
                    if let Phase::Active { next_advert, .. } = &mut self.phase
                        && on_time > now
                    {
                        *next_advert = on_time;
                    }
                }
            }
        }
    }

    /// Changes the configuration of a router, running or not, and keeps its state.
    ///
    /// An Active says at once what its Backups must know (priority, interval, source, list): a longer interval not told
    /// in time would look like silence. New addresses are announced. A Backup keeps its running timer.
    pub fn reconfigure(&mut self, config: Config, now: Time) {
        self.yield_if_overslept(now);
        let old = std::mem::replace(&mut self.config, config);
        match self.phase {
            Phase::Initialize | Phase::Backup { .. } => {}
            Phase::Active { .. } => {
                let new = &self.config;
                let added: BTreeSet<_> = new.addresses.difference(&old.addresses).copied().collect();
                let told = |c: &Config| (c.priority, c.interval, c.primary);
                if told(&old) != told(new) || old.addresses != new.addresses {
                    self.send_advert(now);
                }
                if !added.is_empty() {
                    self.actions.push_back(Action::Announce(Announce::Added(added)));
                }
            }
        }
    }

    /// Peers take over 3 intervals and some skew after the last advert they heard: from then on this router does not
    /// know any more that it is the only Active.
    fn yield_if_overslept(&mut self, now: Time) {
        match self.phase {
            Phase::Initialize | Phase::Backup { .. } => {}
            Phase::Active { last_advert, .. } => {
                let peers_patience = self.config.interval.duration() * 3;
                if !self.config.peers.is_empty() && now.since(last_advert) >= peers_patience {
                    self.enter_backup(Reason::Overslept, self.config.interval, None, now);
                }
            }
        }
    }

    /// T1, T4: advert first, so that an Active that is still there yields before anyone answers twice.
    fn promote(&mut self, reason: Reason, now: Time) {
        let from = self.state();
        self.phase = Phase::Active { next_advert: now, last_advert: now };
        self.send_advert(now);
        self.actions.push_back(Action::Transition { from, to: State::Active, reason });
        self.actions.push_back(Action::Announce(Announce::Takeover));
    }

    fn enter_backup(&mut self, reason: Reason, learned: Interval, active: Option<IpAddr>, now: Time) {
        let deadline = now + learned.active_down(self.config.priority);
        let waiting = Waiting::Silence;
        self.enter(Phase::Backup { deadline, learned, waiting, listened_again: false, active }, reason);
    }

    fn enter(&mut self, phase: Phase, reason: Reason) {
        let from = self.state();
        self.phase = phase;
        self.actions.push_back(Action::Transition { from, to: self.state(), reason });
    }

    /// Sends an advert and restarts the Adver_Timer. Only an Active calls it.
    fn send_advert(&mut self, now: Time) {
        self.actions.push_back(Action::SendAdvert { priority: Some(self.config.priority) });
        self.phase = Phase::Active { next_advert: now + self.config.interval.duration(), last_advert: now };
    }
}

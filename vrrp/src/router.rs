//! State machine of one virtual router (RFC 9568 §6.4). Time is an argument, actions are values.
//!
//! ```text
//!                  startup, priority 255
//!        ┌──────────────────────────────────────────┐
//!  ┌─────┴──────┐  startup  ┌────────┐ down timer ┌─▼──────┐
//!  │ Initialize ├──────────►│ Backup ├───────────►│ Active │
//!  │            │◄──────────┤        │◄───────────┤        │
//!  └─────▲──────┘ shutdown, └────────┘ superior   └─┬──────┘
//!        │        interrupt            advert, or   │
//!        │                             stalled      │
//!        └──────────────────────────────────────────┘
//!                  shutdown, interrupt
//! ```
//!
//! # Beyond RFC 9568, each for a failure seen in the field
//! - **Peers.** Adverts are obeyed only from [`Config::peers`]; another router with our VRID changes nothing.
//! - **Stalled Active.** An Active that was not run for as long as a peer needs to take over ([`Config::active_period`]
//!   since its last advert) becomes Backup and listens before it speaks again, whatever input wakes it. Without peers it
//!   need not.
//! - **Stalled Backup.** A Backup that is woken a whole Active_Down_Interval after its deadline cannot know whether the
//!   LAN was silent or itself stopped; it listens for one more interval, once.
//! - **Parting advert.** An Active that yields to a superior one sends one last advert, so that the winner knows it was
//!   contested and announces its addresses again (T13): else hosts that heard only the loser keep the stale entry.
//! - **Preemption delay.** With [`Config::preempt_delay`] a Backup obeys an Active of lower priority for that long, counted
//!   from its first advert. An advert of equal or higher priority, and every return to Backup, ends the count.
//! - **Unicast fallback.** With [`Config::unicast_fallback`] adverts also go by unicast to peers that multicast does not reach.
//! - **Version 2** keeps its own rules: the skew counts in seconds, the interval is the own one, an advert with another is
//!   dropped. With both versions, the version 2 adverts of a peer that speaks version 3 are ignored in every state, not
//!   only in Backup: else an Active would answer each of a peer's adverts twice.

use std::collections::VecDeque;
use std::net::IpAddr;

use crate::units::{Interval, Priority, Time, Vrid};

mod adverts;
mod config;
pub(crate) mod fallback;
mod outcome;
mod reconfigure;
mod state_data;
#[cfg(test)]
mod tests;
mod upgrade;

pub use config::Config;
use fallback::{Copies, UnicastFallback};
pub use outcome::{Action, AdvertOutcome, Announce, ReceivedAdvert, State, TransitionReason};
use state_data::{Active, Backup, StateData};
use upgrade::UpgradedPeers;

/// Most actions of one input: the queue never grows beyond, as its driver drains it after each.
const MAX_ACTIONS: usize = 4;

/// The state machine of one virtual router on one node. See the crate's documentation for how to drive it.
#[derive(Clone, Debug)]
pub struct Router {
    vrid: Vrid,
    config: Config,
    state_data: StateData,
    upgraded: UpgradedPeers,
    fallback: UnicastFallback,
    actions: VecDeque<Action>,
}

impl Router {
    /// A router in Initialize.
    pub fn new(vrid: Vrid, config: Config) -> Self {
        let (upgraded, fallback) = (UpgradedPeers::new(&config), UnicastFallback::new(&config));
        let actions = VecDeque::with_capacity(MAX_ACTIONS);
        Self { vrid, config, state_data: StateData::Initialize, upgraded, fallback, actions }
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
        match self.state_data {
            StateData::Initialize => State::Initialize,
            StateData::Backup(_) => State::Backup,
            StateData::Active(_) => State::Active,
        }
    }

    /// Address of the router it knows to be Active: its own, a peer's, or none yet.
    pub fn active(&self) -> Option<IpAddr> {
        match self.state_data {
            StateData::Initialize => None,
            StateData::Backup(backup) => backup.active,
            StateData::Active(_) => Some(self.config.primary),
        }
    }

    /// Time until which an Active may answer for its addresses without being run: no peer can have taken over by then because of its
    /// silence ([`Config::active_period`]). The end of time without peers, `None` unless Active. Every advert moves it.
    pub fn active_until(&self) -> Option<Time> {
        match self.state_data {
            StateData::Initialize | StateData::Backup(_) => None,
            StateData::Active(active) => Some(match self.config.active_period() {
                None => Time::from_nanos(u64::MAX),
                Some(active_period) => active.last_advert + active_period,
            }),
        }
    }

    /// Returns true if two adverts of the Active are missing: this Backup takes over soon, unless another does. Detected with
    /// [`Config::unicast_fallback`] alone.
    pub fn misses_active(&self) -> bool {
        match self.state_data {
            StateData::Initialize | StateData::Active(_) => false,
            StateData::Backup(backup) => backup.misses_active,
        }
    }

    /// Time at which [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        match self.state_data {
            StateData::Initialize => None,
            StateData::Backup(backup) => Some(backup.due_next()),
            StateData::Active(active) => Some(active.next_advert),
        }
    }

    /// The peers to which the advert of the last [`Action::SendAdvert`] goes by unicast, too, or that of the last
    /// [`Action::SendUnicast`] alone.
    pub fn copies(&self) -> &[IpAddr] {
        self.fallback.copies()
    }

    /// Takes the peer to which the advert of the last [`Action::SendAdvert`] also goes by unicast, in case it is Active and neither
    /// router receives the other's multicast. Not needed for a peer whose multicast arrives now, in any virtual router of the LAN:
    /// its claim would arrive, and be answered.
    pub fn poll_turn(&mut self) -> Option<IpAddr> {
        self.fallback.poll_turn()
    }

    /// Peers between which and this router multicast does not pass, for longer than a mistake lasts: those to which an Active sends
    /// unicast because they ask for it, and the Active whose adverts reach a Backup by unicast alone.
    pub fn without_multicast(&self, now: Time) -> impl Iterator<Item = IpAddr> + '_ {
        let unheard = match self.state_data {
            StateData::Initialize | StateData::Active(_) => None,
            StateData::Backup(backup) => backup.unheard(&self.config, now),
        };
        unheard.into_iter().chain(self.fallback.deaf(&self.config, now))
    }

    /// A peer's advert arrived a second time, by multicast if not by `unicast`: it was dealt with.
    pub fn hear_again(&mut self, source: IpAddr, unicast: bool, now: Time) {
        match &mut self.state_data {
            StateData::Backup(backup) if backup.active == Some(source) => backup.hear(source, unicast, now),
            StateData::Initialize | StateData::Backup(_) | StateData::Active(_) => {}
        }
    }

    /// The next action to carry out.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Startup event (T1, T2). No effect on a running router.
    pub fn startup(&mut self, now: Time) {
        match self.state_data {
            StateData::Initialize => {
                if self.config.priority == Priority::OWNER {
                    self.promote(TransitionReason::Owner, now);
                } else {
                    self.enter_backup(TransitionReason::Startup, None, None, now);
                }
            }
            StateData::Backup(_) | StateData::Active(_) => {}
        }
    }

    /// Startup event of a router all of whose addresses this node has served as Active of other virtual routers until now: it
    /// does not wait for an Active, of which there can be none better founded. A peer of higher priority preempts it, as it
    /// would any Active. Not in the RFC, where an address never changes its virtual router. No effect on a running router.
    pub fn startup_in_service(&mut self, now: Time) {
        match self.state_data {
            StateData::Initialize => self.promote(TransitionReason::InService, now),
            StateData::Backup(_) | StateData::Active(_) => {}
        }
    }

    /// Shutdown event: an Active resigns with priority 0 (T9), a Backup leaves silently (T3).
    pub fn shutdown(&mut self, now: Time) {
        self.yield_if_stalled(now);
        match self.state_data {
            StateData::Initialize => {}
            StateData::Backup(_) => self.enter(StateData::Initialize, TransitionReason::Shutdown),
            StateData::Active(_) => {
                self.fallback.choose(Copies::Needed, &self.config, now);
                self.enter(StateData::Initialize, TransitionReason::Shutdown);
                self.actions.push_back(Action::SendAdvert { priority: None });
            }
        }
    }

    /// The interface can no longer be used: to Initialize without a word, as nothing could carry it.
    pub fn interrupt(&mut self) {
        match self.state_data {
            StateData::Initialize => {}
            StateData::Backup(_) | StateData::Active(_) => {
                self.enter(StateData::Initialize, TransitionReason::InterfaceLost);
            }
        }
    }

    /// The time of [`Self::poll_timeout`] has come. Called early it does nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        self.yield_if_stalled(now);
        match &mut self.state_data {
            StateData::Initialize => {}
            StateData::Backup(backup) => {
                if backup.ask_silent(now) {
                    match &backup.active {
                        Some(peer) => self.fallback.choose_only([peer]),
                        None => self.fallback.choose_only(&self.config.peers),
                    }
                    self.actions.push_back(Action::SendUnicast { priority: None });
                }
                if now < backup.deadline || backup.listen_again(&self.config, now) {
                    return;
                }
                // T4
                let reason = backup.reason;
                self.promote(reason, now);
            }
            StateData::Active(active) => {
                let due = active.next_advert;
                if now < due {
                    return;
                }
                // T10. Counted from the deadline, so that adverts do not drift by the driver's lateness.
                let on_time = due + self.config.interval.duration();
                let next_advert = if on_time > now { on_time } else { now + self.config.interval.duration() };
                self.send_advert(Copies::InTurn, now);
                self.state_data = StateData::Active(Active { next_advert, last_advert: now, answers: 0 });
            }
        }
    }

    /// Becomes Backup once the active period is over: from then on another router may be Active.
    fn yield_if_stalled(&mut self, now: Time) {
        if self.active_until().is_some_and(|end| now >= end) {
            self.enter_backup(TransitionReason::Stalled, None, None, now);
        }
    }

    /// T1, T4: sends an advert first, so that an Active that is still there yields before both answer.
    fn promote(&mut self, reason: TransitionReason, now: Time) {
        let from = self.state();
        self.send_advert(Copies::All, now);
        self.actions.push_back(Action::Transition { from, to: State::Active, reason });
        self.actions.push_back(Action::Announce(Announce::Takeover));
    }

    fn enter_backup(
        &mut self,
        reason: TransitionReason,
        learned: Option<Interval>,
        active: Option<IpAddr>,
        now: Time,
    ) {
        self.enter(StateData::Backup(Backup::new(&self.config, learned, active, now)), reason);
    }

    fn enter(&mut self, state_data: StateData, reason: TransitionReason) {
        let from = self.state();
        self.fallback.end_active();
        self.state_data = state_data;
        self.actions.push_back(Action::Transition { from, to: self.state(), reason });
    }

    /// Sends an advert and starts the Adver_Timer anew: the router is Active from then on, if it was not.
    fn send_advert(&mut self, copies: Copies, now: Time) {
        self.fallback.choose(copies, &self.config, now);
        self.actions.push_back(Action::SendAdvert { priority: Some(self.config.priority) });
        let next_advert = now + self.config.interval.duration();
        self.state_data = StateData::Active(Active { next_advert, last_advert: now, answers: 0 });
    }
}

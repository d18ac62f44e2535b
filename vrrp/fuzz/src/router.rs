//! The state machine: a configuration, then commands as a careless but honest driver gives them. Time never goes back.

use std::net::IpAddr;
use std::time::Duration;

use windlass_vrrp::units::{Interval, Priority, Time, Version, Versions, Vrid};
use windlass_vrrp::{
    Action, AdvertOutcome, Announce, Config, ReceivedAdvert, Router, State, TransitionReason,
};

use crate::input::Input;

/// Most actions that one input causes: a yield, a promotion and what belongs to them.
const ACTIONS: usize = 8;
/// Longest delay before preemption that an input asks for.
const DELAY: Duration = Duration::from_secs(255);
/// No timer is longer: three of the longest intervals and a skew of at most one, and the delay before preemption.
const LONGEST_TIMER: Duration = Duration::from_secs(4 * 255 + DELAY.as_secs());

/// One input of `router`.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let Some(config) = config(&mut input) else { return };
    let router = Router::new(Vrid::MIN, config);
    let mut driver = Driver { router, now: Time::from_nanos(1), state: State::Initialize };
    while driver.command(&mut input).is_some() {}
}

fn host(number: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, number & 0x03])
}

fn interval(input: &mut Input<'_>, version: Version) -> Option<Interval> {
    let number = input.short()?;
    let [seconds, _] = number.to_be_bytes();
    let interval = match version {
        Version::V2 => Interval::from_seconds(seconds.max(1)),
        Version::V3 => Interval::from_centiseconds((number & 0x0fff).max(1)),
    };
    interval.ok()
}

fn config(input: &mut Input<'_>) -> Option<Config> {
    let [flags, priority, peers, addresses] = input.bytes()?;
    let (versions, version) = match flags & 0x03 {
        0 | 1 => (Versions::V3, Version::V3),
        2 => (Versions::V2, Version::V2),
        _ => (Versions::V2AndV3, Version::V2),
    };
    let some = |bits: u8| move |number: &u8| bits & (1 << number) != 0;
    let [preferred, fit_from] = input.bytes()?;
    Some(Config {
        priority: Priority::new(priority).unwrap_or(Priority::DEFAULT),
        interval: interval(input, version)?,
        preempt: flags & 0x04 != 0,
        preempt_delay: if flags & 0x08 != 0 { DELAY * u32::from(flags >> 4) / 15 } else { Duration::ZERO },
        fit_from: Priority::new(fit_from).unwrap_or(Priority::LOWEST),
        preferred: (0..4).filter(some(preferred)).map(host).collect(),
        preempt_turn: DELAY * u32::from(preferred >> 4) / 15,
        versions,
        primary: host(peers >> 6),
        peers: (0..4).filter(some(peers)).map(host).collect(),
        unknown_peers: peers & 0x10 != 0,
        unicast_fallback: peers & 0x20 != 0,
        addresses: (0..8).filter(some(addresses)).map(|number| IpAddr::from([203, 0, 113, number])).collect(),
    })
}

struct Driver {
    router: Router,
    now: Time,
    /// The state by the transitions told.
    state: State,
}

impl Driver {
    fn command(&mut self, input: &mut Input<'_>) -> Option<()> {
        match input.byte()? % 8 {
            0 => self.router.startup(self.now),
            1 => {
                self.router.shutdown(self.now);
                assert_eq!(self.router.state(), State::Initialize);
            }
            2 => {
                self.router.interrupt();
                assert_eq!(self.router.state(), State::Initialize);
            }
            3 => self.on_time(),
            4 => {
                self.now = self.now + Duration::from_micros(u64::from(input.word()?));
                self.router.handle_timeout(self.now);
            }
            // In the unit of intervals, so that two instants coincide.
            5 => self.now = self.now + Duration::from_millis(u64::from(input.short()?) * 10),
            6 => self.hear(input)?,
            _ => {
                let config = config(input)?;
                self.router.reconfigure(config, self.now);
            }
        }
        self.carry_out();
        Some(())
    }

    /// The timer, at its time or late; and before it, when nothing may happen.
    fn on_time(&mut self) {
        let Some(due) = self.router.poll_timeout() else { return };
        if self.now < due {
            self.router.handle_timeout(self.now);
            assert_eq!(self.router.poll_timeout(), Some(due), "called early");
            assert_eq!(self.router.poll_action(), None, "called early");
            self.now = due;
        }
        self.router.handle_timeout(self.now);
        let next = self.router.poll_timeout();
        assert!(
            next.is_some_and(|next| next > self.now),
            "{next:?} at {:?}: it would fire for ever",
            self.now
        );
    }

    fn hear(&mut self, input: &mut Input<'_>) -> Option<()> {
        let [flags, priority] = input.bytes()?;
        let version = if flags & 0x04 == 0 { Version::V3 } else { Version::V2 };
        let interval = interval(input, version)?;
        let heard = ReceivedAdvert {
            source: host(flags),
            priority: Priority::new(priority).ok(),
            interval,
            version,
            unicast: flags & 0x08 != 0,
        };
        let before = (self.router.state(), self.router.poll_timeout());
        let outcome = self.router.handle_advert(heard, self.now);
        let own = self.router.config();
        let looped = heard.source == own.primary;
        let stranger = !looped && !own.peers.contains(&heard.source);
        let superior = heard.priority > Some(own.priority);
        assert_eq!(outcome == AdvertOutcome::NotAPeer, stranger);
        assert_eq!(outcome == AdvertOutcome::OwnAddress, looped);
        if stranger || looped {
            assert_eq!((self.router.state(), self.router.poll_timeout()), before, "{heard:?}");
            assert_eq!(self.router.poll_action(), None, "{heard:?}");
        }
        if outcome == AdvertOutcome::Obeyed && superior {
            assert_eq!(self.router.state(), State::Backup, "{heard:?}");
        }
        Some(())
    }

    /// Takes the actions and checks that a driver can carry them out in this order.
    fn carry_out(&mut self) {
        let actions: Vec<Action> = std::iter::from_fn(|| self.router.poll_action()).collect();
        assert!(actions.len() <= ACTIONS, "{actions:?}");
        for (at, action) in actions.iter().enumerate() {
            let previous = at.checked_sub(1).map(|previous| &actions[previous]);
            match action {
                Action::SendAdvert { priority: Some(priority) } => {
                    assert_eq!(*priority, self.router.config().priority);
                    let promoted =
                        matches!(actions.get(at + 1), Some(Action::Transition { to: State::Active, .. }));
                    let parting = matches!(
                        previous,
                        Some(Action::Transition {
                            from: State::Active,
                            to: State::Backup,
                            reason: TransitionReason::SuperiorActive { .. }
                        })
                    );
                    assert!(self.state == State::Active || promoted || parting, "{actions:?}");
                }
                Action::SendAdvert { priority: None } => {
                    let resigned = Action::Transition {
                        from: State::Active,
                        to: State::Initialize,
                        reason: TransitionReason::Shutdown,
                    };
                    assert_eq!(previous, Some(&resigned));
                }
                Action::SendUnicast { priority } => {
                    let active = self.state == State::Active;
                    let expected = active.then_some(self.router.config().priority);
                    assert_eq!(*priority, expected, "{actions:?}");
                }
                Action::Transition { from, to, reason } => {
                    assert_eq!(*from, self.state, "{actions:?}");
                    must_fit(*from, *to, *reason);
                    self.state = *to;
                }
                Action::Announce(Announce::Takeover) => {
                    assert!(
                        matches!(previous, Some(Action::Transition { to: State::Active, .. })),
                        "{actions:?}"
                    );
                }
                Action::Announce(Announce::Contention) => {
                    assert_eq!(self.state, State::Active, "{actions:?}")
                }
                Action::Announce(Announce::Added(added)) => {
                    assert_eq!(self.state, State::Active, "{actions:?}");
                    assert!(!added.is_empty() && added.is_subset(&self.router.config().addresses));
                }
            }
        }
        assert_eq!(self.state, self.router.state(), "{actions:?}");
        let told = |peer: &IpAddr| {
            self.router.config().unicast_fallback && self.router.config().peers.contains(peer)
        };
        assert!(self.router.copies().iter().all(told), "{:?}", self.router.copies());
        match (self.router.state(), self.router.poll_timeout()) {
            (State::Initialize, due) => assert_eq!(due, None),
            (State::Backup | State::Active, Some(due)) => {
                assert!(due.since(self.now) <= LONGEST_TIMER, "{due:?} at {:?}", self.now);
            }
            (state, None) => panic!("no deadline in {state}"),
        }
    }
}

/// The arrows of RFC 9568 §6.4, and those of a stalled router.
fn must_fit(from: State, to: State, reason: TransitionReason) {
    let fits = match (from, to) {
        (State::Initialize, State::Backup) => matches!(reason, TransitionReason::Startup),
        (State::Initialize, State::Active) => matches!(reason, TransitionReason::Owner),
        (State::Backup, State::Active) => {
            matches!(
                reason,
                TransitionReason::ActiveSilent
                    | TransitionReason::ActiveResigned
                    | TransitionReason::Preempted
            )
        }
        (State::Active, State::Backup) => {
            matches!(reason, TransitionReason::SuperiorActive { .. } | TransitionReason::Stalled)
        }
        (State::Backup | State::Active, State::Initialize) => {
            matches!(reason, TransitionReason::Shutdown | TransitionReason::InterfaceLost)
        }
        (State::Initialize, State::Initialize)
        | (State::Backup, State::Backup)
        | (State::Active, State::Active) => false,
    };
    assert!(fits, "{from} to {to}: {reason}");
}

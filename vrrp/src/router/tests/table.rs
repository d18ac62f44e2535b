//! RFC 9568 §6.4 and the crate's additions as one table, walked over all guards, states and events.

use super::*;

/// The configuration under which the events come; all have priority 100 and 1 s.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Guard {
    /// [`config`].
    Plain,
    NoPreempt,
    /// A preemption delay of 10 s.
    Delayed,
    V2,
    V2AndV3,
    /// Plain, alone on its LAN.
    NoPeers,
}

const GUARDS: [Guard; 6] =
    [Guard::Plain, Guard::NoPreempt, Guard::Delayed, Guard::V2, Guard::V2AndV3, Guard::NoPeers];

fn guarded(guard: Guard) -> Config {
    match guard {
        Guard::Plain => config(),
        Guard::NoPreempt => Config { preempt: false, ..config() },
        Guard::Delayed => Config { preempt_delay: Duration::from_secs(10), ..config() },
        Guard::V2 => Config { versions: Versions::V2, ..config() },
        Guard::V2AndV3 => Config { versions: Versions::V2AndV3, ..config() },
        Guard::NoPeers => Config { peers: BTreeSet::new(), ..config() },
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Startup,
    Shutdown,
    Interrupt,
    TimerDue,
    TimerEarly,
    /// The adverts of others come with an interval of 2 s, to see who adopts it.
    Resignation,
    Superior,
    EqualFromHigherAddress,
    EqualFromLowerAddress,
    Inferior,
    /// With the own interval.
    SuperiorInV2,
    /// In version 2, but the peer was just heard in version 3.
    SuperiorInV2AfterV3,
    FromStranger,
    FromOwnAddress,
    Reconfigured,
    Stalled,
}

const EVENTS: [Event; 16] = [
    Event::Startup,
    Event::Shutdown,
    Event::Interrupt,
    Event::TimerDue,
    Event::TimerEarly,
    Event::Resignation,
    Event::Superior,
    Event::EqualFromHigherAddress,
    Event::EqualFromLowerAddress,
    Event::Inferior,
    Event::SuperiorInV2,
    Event::SuperiorInV2AfterV3,
    Event::FromStranger,
    Event::FromOwnAddress,
    Event::Reconfigured,
    Event::Stalled,
];

const STATES: [State; 3] = [State::Initialize, State::Backup, State::Active];

/// Feeds `event` to `router` and returns when it happened.
fn feed(router: &mut Router, event: Event) -> Time {
    let due = router.poll_timeout().unwrap_or(START);
    let soon = START + millis(500);
    let in_v2 = |heard| ReceivedAdvert { version: Version::V2, ..heard };
    let mut hear = |heard: ReceivedAdvert| _ = router.handle_advert(heard, soon);
    match event {
        Event::Startup => router.startup(soon),
        Event::Shutdown => router.shutdown(soon),
        Event::Interrupt => router.interrupt(),
        Event::TimerDue => {
            router.handle_timeout(due);
            return due;
        }
        Event::TimerEarly => router.handle_timeout(soon),
        Event::Reconfigured => {
            let config = Config { addresses: [VIP, SECOND_VIP].into(), ..router.config().clone() };
            router.reconfigure(config, soon);
        }
        Event::Stalled => {
            let late = due + Duration::from_secs(10);
            router.handle_timeout(late);
            return late;
        }
        Event::Resignation => hear(advert(HIGHER, 0, 2000)),
        Event::Superior => hear(advert(LOWER, 101, 2000)),
        Event::EqualFromHigherAddress => hear(advert(HIGHER, 100, 2000)),
        Event::EqualFromLowerAddress => hear(advert(LOWER, 100, 2000)),
        Event::Inferior => hear(advert(HIGHER, 99, 2000)),
        Event::SuperiorInV2 => hear(in_v2(advert(LOWER, 101, 1000))),
        Event::SuperiorInV2AfterV3 => {
            let upgraded = &mut router.upgraded;
            upgraded.is_superseded(&advert(LOWER, 101, 1000), &router.config, START);
            router.handle_advert(in_v2(advert(LOWER, 101, 1000)), soon);
        }
        Event::FromStranger => hear(advert(STRANGER, 255, 2000)),
        Event::FromOwnAddress => hear(advert(OWN, 100, 2000)),
    }
    soon
}

/// Timer after the event.
#[derive(Clone, Copy, Debug)]
enum Timer {
    Off,
    /// As it was before.
    Kept,
    /// This many microseconds after the event.
    In(u64),
}

/// Rule, guard, state, event, actions in order, next state, timer. A pair of state and event without a row of its own for
/// a guard does what its row for [`Guard::Plain`] says.
type Row = (&'static str, Guard, State, Event, &'static [&'static str], State, Timer);

/// 3·A + skew.
const DOWN: Timer = Timer::In(3_609_375);
const DOWN_OF_2_S: Timer = Timer::In(7_218_750);
const SKEW: Timer = Timer::In(609_375);
const ADVERT: Timer = Timer::In(1_000_000);

fn table() -> Vec<Row> {
    use Event as E;
    use Guard::{Delayed, NoPeers, NoPreempt, Plain, V2, V2AndV3};
    use State::{Active, Backup, Initialize};
    use Timer::{Kept, Off};
    const YIELDS: &[&str] = &["active -> backup: 192.0.2.5 is Active with priority 101", "advert 100"];
    const TAKES_OVER: &[&str] = &["advert 100", "backup -> active: the Active is silent", "announce"];
    vec![
        ("T2", Plain, Initialize, E::Startup, &["initialize -> backup: started"], Backup, DOWN),
        ("", Plain, Initialize, E::Shutdown, &[], Initialize, Off),
        ("", Plain, Initialize, E::Interrupt, &[], Initialize, Off),
        ("", Plain, Initialize, E::TimerDue, &[], Initialize, Off),
        ("", Plain, Initialize, E::TimerEarly, &[], Initialize, Off),
        ("", Plain, Initialize, E::Resignation, &[], Initialize, Off),
        ("", Plain, Initialize, E::Superior, &[], Initialize, Off),
        ("", Plain, Initialize, E::EqualFromHigherAddress, &[], Initialize, Off),
        ("", Plain, Initialize, E::EqualFromLowerAddress, &[], Initialize, Off),
        ("", Plain, Initialize, E::Inferior, &[], Initialize, Off),
        ("", Plain, Initialize, E::SuperiorInV2, &[], Initialize, Off),
        ("", Plain, Initialize, E::SuperiorInV2AfterV3, &[], Initialize, Off),
        ("", Plain, Initialize, E::FromStranger, &[], Initialize, Off),
        ("T15", Plain, Initialize, E::FromOwnAddress, &[], Initialize, Off),
        ("", Plain, Initialize, E::Reconfigured, &[], Initialize, Off),
        ("", Plain, Initialize, E::Stalled, &[], Initialize, Off),
        ("", Plain, Backup, E::Startup, &[], Backup, Kept),
        ("T3", Plain, Backup, E::Shutdown, &["backup -> initialize: stopped"], Initialize, Off),
        ("", Plain, Backup, E::Interrupt, &["backup -> initialize: interface lost"], Initialize, Off),
        ("T4", Plain, Backup, E::TimerDue, TAKES_OVER, Active, ADVERT),
        ("", Plain, Backup, E::TimerEarly, &[], Backup, Kept),
        ("T5", Plain, Backup, E::Resignation, &[], Backup, SKEW),
        ("R11", V2, Backup, E::Resignation, &[], Backup, Kept),
        ("T6", Plain, Backup, E::Superior, &[], Backup, DOWN_OF_2_S),
        ("R11", V2, Backup, E::Superior, &[], Backup, Kept),
        ("T8", Plain, Backup, E::EqualFromHigherAddress, &[], Backup, DOWN_OF_2_S),
        ("R11", V2, Backup, E::EqualFromHigherAddress, &[], Backup, Kept),
        ("T8", Plain, Backup, E::EqualFromLowerAddress, &[], Backup, DOWN_OF_2_S),
        ("R11", V2, Backup, E::EqualFromLowerAddress, &[], Backup, Kept),
        ("T7", Plain, Backup, E::Inferior, &[], Backup, Kept),
        ("T6", NoPreempt, Backup, E::Inferior, &[], Backup, DOWN_OF_2_S),
        ("preempt delay", Delayed, Backup, E::Inferior, &[], Backup, DOWN_OF_2_S),
        ("T6", Plain, Backup, E::SuperiorInV2, &[], Backup, DOWN),
        ("T6", Plain, Backup, E::SuperiorInV2AfterV3, &[], Backup, DOWN),
        ("§8.4.2", V2AndV3, Backup, E::SuperiorInV2AfterV3, &[], Backup, Kept),
        ("peers", Plain, Backup, E::FromStranger, &[], Backup, Kept),
        ("T15", Plain, Backup, E::FromOwnAddress, &[], Backup, Kept),
        ("", Plain, Backup, E::Reconfigured, &[], Backup, Kept),
        ("listen again", Plain, Backup, E::Stalled, &[], Backup, DOWN),
        ("T4", NoPeers, Backup, E::Stalled, TAKES_OVER, Active, ADVERT),
        ("", Plain, Active, E::Startup, &[], Active, Kept),
        ("T9", Plain, Active, E::Shutdown, &["active -> initialize: stopped", "resign"], Initialize, Off),
        ("", Plain, Active, E::Interrupt, &["active -> initialize: interface lost"], Initialize, Off),
        ("T10", Plain, Active, E::TimerDue, &["advert 100"], Active, ADVERT),
        ("", Plain, Active, E::TimerEarly, &[], Active, Kept),
        ("T11", Plain, Active, E::Resignation, &["advert 100"], Active, ADVERT),
        ("R11", V2, Active, E::Resignation, &[], Active, Kept),
        ("T12", Plain, Active, E::Superior, YIELDS, Backup, DOWN_OF_2_S),
        ("R11", V2, Active, E::Superior, &[], Active, Kept),
        (
            "T12",
            Plain,
            Active,
            E::EqualFromHigherAddress,
            &["active -> backup: 192.0.2.20 is Active with priority 100", "advert 100"],
            Backup,
            DOWN_OF_2_S,
        ),
        ("R11", V2, Active, E::EqualFromHigherAddress, &[], Active, Kept),
        ("T13", Plain, Active, E::EqualFromLowerAddress, &["advert 100", "announce again"], Active, ADVERT),
        ("R11", V2, Active, E::EqualFromLowerAddress, &[], Active, Kept),
        ("T13", Plain, Active, E::Inferior, &["advert 100", "announce again"], Active, ADVERT),
        ("R11", V2, Active, E::Inferior, &[], Active, Kept),
        ("T12", Plain, Active, E::SuperiorInV2, YIELDS, Backup, DOWN),
        ("T12", Plain, Active, E::SuperiorInV2AfterV3, YIELDS, Backup, DOWN),
        ("§8.4.2", V2AndV3, Active, E::SuperiorInV2AfterV3, &[], Active, Kept),
        ("peers", Plain, Active, E::FromStranger, &[], Active, Kept),
        ("T15", Plain, Active, E::FromOwnAddress, &[], Active, Kept),
        ("", Plain, Active, E::Reconfigured, &["advert 100", "announce added {203.0.113.2}"], Active, ADVERT),
        (
            "stalled",
            Plain,
            Active,
            E::Stalled,
            &["active -> backup: not run for so long that a peer may have taken over"],
            Backup,
            DOWN,
        ),
        ("T10", NoPeers, Active, E::Stalled, &["advert 100"], Active, ADVERT),
    ]
}

/// Without peers every advert is a stranger's.
fn stranger_row(guard: Guard, state: State, event: Event) -> Option<Row> {
    let heard = match event {
        Event::Resignation
        | Event::Superior
        | Event::EqualFromHigherAddress
        | Event::EqualFromLowerAddress
        | Event::Inferior
        | Event::SuperiorInV2
        | Event::SuperiorInV2AfterV3 => true,
        Event::Startup
        | Event::Shutdown
        | Event::Interrupt
        | Event::TimerDue
        | Event::TimerEarly
        | Event::FromStranger
        | Event::FromOwnAddress
        | Event::Reconfigured
        | Event::Stalled => false,
    };
    (guard == Guard::NoPeers && heard).then_some(("peers", guard, state, event, &[], state, Timer::Kept))
}

#[test]
fn the_table_has_one_plain_row_for_every_state_and_event_and_no_row_twice() {
    let table = table();
    let rows: BTreeSet<_> = table.iter().map(|row| (row.1, row.2, row.3)).collect();
    assert_eq!(rows.len(), table.len(), "no row twice");
    for state in STATES {
        for event in EVENTS {
            assert!(rows.contains(&(Guard::Plain, state, event)), "no row for {state} + {event:?}");
        }
    }
}

// shows: rfc9568 B2, B6, B10, R11, T2 to T13, T15, V3
#[test]
fn every_state_meets_every_event_under_every_guard_as_the_table_says() {
    let table = table();
    let row_of =
        |guard, state, event| table.iter().find(|r| (r.1, r.2, r.3) == (guard, state, event)).copied();
    for guard in GUARDS {
        for (state, event) in STATES.iter().flat_map(|s| EVENTS.map(|e| (*s, e))) {
            let row = stranger_row(guard, state, event).or_else(|| row_of(guard, state, event));
            let (rule, _, _, _, expected, next, timer) =
                row.or_else(|| row_of(Guard::Plain, state, event)).unwrap();
            let mut router = router(state, guarded(guard), START);
            let before = router.poll_timeout();
            let now = feed(&mut router, event);
            let row = format!("{rule} {state} + {event:?} ({guard:?})");
            assert_eq!(actions(&mut router), expected, "{row}");
            assert_eq!(router.state(), next, "{row}");
            let after = match timer {
                Timer::Off => None,
                Timer::Kept => before,
                Timer::In(micros) => Some(now + Duration::from_micros(micros)),
            };
            assert_eq!(router.poll_timeout(), after, "{row}");
        }
    }
}

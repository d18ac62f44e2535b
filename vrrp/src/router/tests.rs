use std::time::Duration;

use super::*;

const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
const LOWER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 5);
const HIGHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 20);
const STRANGER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 66);
const VIP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const SECOND_VIP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);

fn priority(value: u8) -> Priority {
    Priority::new(value).unwrap()
}

fn interval(millis: u32) -> Interval {
    Interval::from_millis(millis).unwrap()
}

/// Priority 100, 1 s: Skew_Time 609.375 ms, Active_Down_Interval 3609.375 ms.
fn config() -> Config {
    Config {
        priority: priority(100),
        interval: interval(1000),
        preempt: true,
        primary: OWN,
        peers: [LOWER, HIGHER].into(),
        addresses: [VIP].into(),
    }
}

fn advert(source: Ipv4Addr, value: u8, millis: u32) -> Heard {
    Heard { source, priority: Priority::new(value).ok(), interval: interval(millis) }
}

/// The actions of one input, in words.
fn actions(router: &mut Router) -> Vec<String> {
    std::iter::from_fn(|| router.poll_action())
        .map(|action| match action {
            Action::SendAdvert { priority: Some(priority) } => format!("advert {priority}"),
            Action::SendAdvert { priority: None } => "resign".to_owned(),
            Action::Transition { from, to, reason } => format!("{from} -> {to}: {reason}"),
            Action::Announce(Announce::Takeover) => "announce".to_owned(),
            Action::Announce(Announce::Contention) => "announce again".to_owned(),
            Action::Announce(Announce::Added(added)) => format!("announce added {added:?}"),
        })
        .collect()
}

/// A router that has been in `state` since `now`; an Active has just sent an advert.
fn router(state: State, config: Config, now: Time) -> Router {
    let mut router = Router::new(Vrid::new(1).unwrap(), config);
    match state {
        State::Initialize => {}
        State::Backup => router.startup(now),
        State::Active => {
            router.startup(Time::default());
            router.handle_timeout(router.poll_timeout().unwrap_or(now));
            // On time up to now, as a driver would be.
            while let Some(due) = router.poll_timeout().filter(|due| *due < now) {
                router.handle_timeout(due);
            }
            router.reconfigure(Config { priority: priority(101), ..router.config().clone() }, now);
            router.reconfigure(Config { priority: priority(100), ..router.config().clone() }, now);
        }
    }
    while router.poll_action().is_some() {}
    assert_eq!(router.state(), state);
    router
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Startup,
    Shutdown,
    Interrupt,
    TimerDue,
    TimerEarly,
    Resignation,
    Superior,
    EqualFromHigherAddress,
    EqualFromLowerAddress,
    Inferior,
    FromStranger,
    FromOwnAddress,
    Reconfigured,
    Overslept,
}

const EVENTS: [Event; 14] = [
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
    Event::FromStranger,
    Event::FromOwnAddress,
    Event::Reconfigured,
    Event::Overslept,
];

/// Feeds `event` to `router` and returns when it happened.
fn feed(router: &mut Router, event: Event, now: Time) -> Time {
    let due = router.poll_timeout().unwrap_or(now);
    let soon = now + Duration::from_millis(500);
    // Adverts of others come with an interval of 2 s, to see who adopts it.
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
            let addresses = [VIP, SECOND_VIP].into();
            router.reconfigure(Config { addresses, ..config() }, soon);
        }
        Event::Overslept => {
            let late = due + Duration::from_secs(10);
            router.handle_timeout(late);
            return late;
        }
        Event::Resignation => _ = router.handle_advert(advert(HIGHER, 0, 2000), soon),
        Event::Superior => _ = router.handle_advert(advert(LOWER, 101, 2000), soon),
        Event::EqualFromHigherAddress => _ = router.handle_advert(advert(HIGHER, 100, 2000), soon),
        Event::EqualFromLowerAddress => _ = router.handle_advert(advert(LOWER, 100, 2000), soon),
        Event::Inferior => _ = router.handle_advert(advert(HIGHER, 99, 2000), soon),
        Event::FromStranger => _ = router.handle_advert(advert(STRANGER, 255, 2000), soon),
        Event::FromOwnAddress => _ = router.handle_advert(advert(OWN, 255, 2000), soon),
    }
    soon
}

/// Timer after the event.
#[derive(Debug)]
enum Timer {
    Off,
    /// As it was before.
    Kept,
    /// This many microseconds after the event.
    In(u64),
}

/// Rule, state, event, actions in order, next state, timer.
type Row = (&'static str, State, Event, &'static [&'static str], State, Timer);

/// RFC 9568 §6.4 and the crate's additions, one row per state and event: actions in order, state, timer.
#[test]
fn every_state_meets_every_event_as_the_table_says() {
    use Event as E;
    use State::{Active, Backup, Initialize};
    let down = Timer::In(3_609_375);
    let down_of_2_s = || Timer::In(6_000_000 + 1_218_750);
    let table: Vec<Row> = vec![
        ("T2", Initialize, E::Startup, &["initialize -> backup: started"], Backup, down),
        ("", Initialize, E::Shutdown, &[], Initialize, Timer::Off),
        ("", Initialize, E::Interrupt, &[], Initialize, Timer::Off),
        ("", Initialize, E::TimerDue, &[], Initialize, Timer::Off),
        ("", Initialize, E::TimerEarly, &[], Initialize, Timer::Off),
        ("", Initialize, E::Resignation, &[], Initialize, Timer::Off),
        ("", Initialize, E::Superior, &[], Initialize, Timer::Off),
        ("", Initialize, E::EqualFromHigherAddress, &[], Initialize, Timer::Off),
        ("", Initialize, E::EqualFromLowerAddress, &[], Initialize, Timer::Off),
        ("", Initialize, E::Inferior, &[], Initialize, Timer::Off),
        ("", Initialize, E::FromStranger, &[], Initialize, Timer::Off),
        ("T15", Initialize, E::FromOwnAddress, &[], Initialize, Timer::Off),
        ("", Initialize, E::Reconfigured, &[], Initialize, Timer::Off),
        ("", Initialize, E::Overslept, &[], Initialize, Timer::Off),
        ("", Backup, E::Startup, &[], Backup, Timer::Kept),
        ("T3", Backup, E::Shutdown, &["backup -> initialize: stopped"], Initialize, Timer::Off),
        ("", Backup, E::Interrupt, &["backup -> initialize: interface lost"], Initialize, Timer::Off),
        (
            "T4",
            Backup,
            E::TimerDue,
            &["advert 100", "backup -> active: the Active is silent", "announce"],
            Active,
            Timer::In(1_000_000),
        ),
        ("", Backup, E::TimerEarly, &[], Backup, Timer::Kept),
        ("T5", Backup, E::Resignation, &[], Backup, Timer::In(609_375)),
        ("T6", Backup, E::Superior, &[], Backup, down_of_2_s()),
        ("T8", Backup, E::EqualFromHigherAddress, &[], Backup, down_of_2_s()),
        ("T8", Backup, E::EqualFromLowerAddress, &[], Backup, down_of_2_s()),
        ("T7", Backup, E::Inferior, &[], Backup, Timer::Kept),
        ("peers", Backup, E::FromStranger, &[], Backup, Timer::Kept),
        ("T15", Backup, E::FromOwnAddress, &[], Backup, Timer::Kept),
        ("", Backup, E::Reconfigured, &[], Backup, Timer::Kept),
        ("listen again", Backup, E::Overslept, &[], Backup, Timer::In(3_609_375)),
        ("", Active, E::Startup, &[], Active, Timer::Kept),
        ("T9", Active, E::Shutdown, &["active -> initialize: stopped", "resign"], Initialize, Timer::Off),
        ("", Active, E::Interrupt, &["active -> initialize: interface lost"], Initialize, Timer::Off),
        ("T10", Active, E::TimerDue, &["advert 100"], Active, Timer::In(1_000_000)),
        ("", Active, E::TimerEarly, &[], Active, Timer::Kept),
        ("T11", Active, E::Resignation, &["advert 100"], Active, Timer::In(1_000_000)),
        (
            "T12",
            Active,
            E::Superior,
            &["active -> backup: 192.0.2.5 is Active with priority 101", "advert 100"],
            Backup,
            down_of_2_s(),
        ),
        (
            "T12",
            Active,
            E::EqualFromHigherAddress,
            &["active -> backup: 192.0.2.20 is Active with priority 100", "advert 100"],
            Backup,
            down_of_2_s(),
        ),
        (
            "T13",
            Active,
            E::EqualFromLowerAddress,
            &["advert 100", "announce again"],
            Active,
            Timer::In(1_000_000),
        ),
        ("T13", Active, E::Inferior, &["advert 100", "announce again"], Active, Timer::In(1_000_000)),
        ("peers", Active, E::FromStranger, &[], Active, Timer::Kept),
        ("T15", Active, E::FromOwnAddress, &[], Active, Timer::Kept),
        (
            "",
            Active,
            E::Reconfigured,
            &["advert 100", "announce added {203.0.113.2}"],
            Active,
            Timer::In(1_000_000),
        ),
        (
            "overslept",
            Active,
            E::Overslept,
            &["active -> backup: not run for so long that a peer may have taken over"],
            Backup,
            Timer::In(3_609_375),
        ),
    ];
    let rows: BTreeSet<_> = table.iter().map(|row| (row.1, row.2)).collect();
    assert_eq!((rows.len(), table.len()), (3 * EVENTS.len(), 3 * EVENTS.len()), "one row for each pair");

    for (rule, state, event, expected, next, timer) in table {
        let start = Time::from_nanos(100_000_000_000);
        let mut router = router(state, config(), start);
        let before = router.poll_timeout();
        let now = feed(&mut router, event, start);
        let row = format!("{rule} {state} + {event:?}");
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

#[test]
fn the_verdict_tells_what_became_of_an_advert() {
    let now = Time::from_nanos(100_000_000_000);
    let verdict = |state, heard| router(state, config(), now).handle_advert(heard, now);
    for (state, heard, expected) in [
        (State::Initialize, advert(LOWER, 200, 1000), Verdict::NotRunning),
        (State::Backup, advert(LOWER, 200, 1000), Verdict::Obeyed),
        (State::Backup, advert(LOWER, 50, 1000), Verdict::Inferior),
        (State::Backup, advert(LOWER, 0, 1000), Verdict::Obeyed),
        (State::Active, advert(LOWER, 200, 1000), Verdict::Obeyed),
        (State::Active, advert(LOWER, 50, 1000), Verdict::Inferior),
        (State::Active, advert(STRANGER, 255, 1000), Verdict::Stranger),
        (State::Active, advert(OWN, 255, 1000), Verdict::OwnAddress),
    ] {
        assert_eq!(verdict(state, heard), expected, "{state} hears {heard:?}");
    }
}

#[test]
fn an_owner_is_active_as_soon_as_it_starts() {
    let owner = Config { priority: Priority::OWNER, ..config() };
    let mut router = router(State::Initialize, owner, Time::default());
    router.startup(Time::default());
    let expected = ["advert 255", "initialize -> active: started as owner of the addresses", "announce"]
        .map(String::from);
    assert_eq!(actions(&mut router), expected);
}

#[test]
fn without_preempt_a_backup_obeys_an_active_of_lower_priority() {
    let now = Time::default();
    let mut router = router(State::Backup, Config { preempt: false, ..config() }, now);
    let later = now + Duration::from_secs(3);
    assert_eq!(router.handle_advert(advert(LOWER, 1, 1000), later), Verdict::Obeyed);
    assert_eq!(router.poll_timeout(), Some(later + interval(1000).active_down(priority(100))));
    assert_eq!(router.active(), Some(LOWER));
}

#[test]
fn the_reason_of_a_takeover_tells_silence_resignation_and_preemption_apart() {
    for (last_heard, expected) in [
        (advert(HIGHER, 200, 1000), Reason::ActiveSilent),
        (advert(HIGHER, 0, 1000), Reason::ActiveResigned),
        (advert(HIGHER, 50, 1000), Reason::Preempted),
    ] {
        let mut router = router(State::Backup, config(), Time::default());
        router.handle_advert(last_heard, Time::default());
        router.handle_timeout(router.poll_timeout().unwrap());
        let told = std::iter::from_fn(|| router.poll_action()).find_map(|action| match action {
            Action::Transition { reason, .. } => Some(reason),
            Action::SendAdvert { .. } | Action::Announce(_) => None,
        });
        assert_eq!(told, Some(expected));
    }
}

type Wake = fn(&mut Router, Time);

/// The rule from both sides: an Active that was away for less than a peer's patience goes on, one nanosecond later it
/// yields; and nothing is sent before it listens, whatever wakes it.
#[test]
fn an_active_that_overslept_listens_before_it_speaks_whatever_wakes_it() {
    let start = Time::from_nanos(100_000_000_000);
    let on_time = start + Duration::from_nanos(2_999_999_999);
    let too_late = start + Duration::from_secs(3);
    let wakes: [(&str, Wake); 5] = [
        ("timer", |router, now| router.handle_timeout(now)),
        ("inferior advert", |router, now| _ = router.handle_advert(advert(LOWER, 1, 1000), now)),
        ("resignation", |router, now| _ = router.handle_advert(advert(LOWER, 0, 1000), now)),
        ("shutdown", |router, now| router.shutdown(now)),
        ("reconfiguration", |router, now| {
            router.reconfigure(Config { addresses: [SECOND_VIP].into(), ..config() }, now);
        }),
    ];
    for (name, wake) in wakes {
        let mut punctual = router(State::Active, config(), start);
        wake(&mut punctual, on_time);
        let done = actions(&mut punctual);
        assert!(
            done.iter().any(|action| action.starts_with("advert") || action == "resign"),
            "{name}: {done:?}"
        );

        let mut late = router(State::Active, config(), start);
        wake(&mut late, too_late);
        let done = actions(&mut late);
        assert!(done[0].starts_with("active -> backup: not run"), "{name}: {done:?}");
        assert!(
            !done.iter().any(|a| a.starts_with("adv") || a.starts_with("ann") || a == "resign"),
            "{name}: {done:?}"
        );
        assert_ne!(late.state(), State::Active, "{name}");
    }
}

#[test]
fn an_active_without_peers_has_nobody_to_listen_to() {
    let start = Time::from_nanos(100_000_000_000);
    let mut router = router(State::Active, Config { peers: BTreeSet::new(), ..config() }, start);
    router.reconfigure(Config { peers: BTreeSet::new(), ..config() }, start);
    router.handle_timeout(start + Duration::from_mins(1));
    assert_eq!(router.state(), State::Active);
}

#[test]
fn a_backup_that_overslept_listens_for_one_more_interval_and_only_one() {
    let mut router = router(State::Backup, config(), Time::default());
    for expected in [State::Backup, State::Active] {
        let due = router.poll_timeout().unwrap();
        router.handle_timeout(due + Duration::from_hours(1));
        assert_eq!(router.state(), expected);
    }
}

#[test]
fn adverts_keep_their_cadence_when_the_driver_is_a_little_late() {
    let start = Time::from_nanos(100_000_000_000);
    let mut router = router(State::Active, config(), start);
    for tick in 1..=10_u32 {
        let due = router.poll_timeout().unwrap();
        assert_eq!(due, start + interval(1000).duration() * tick);
        router.handle_timeout(due + Duration::from_millis(30));
        assert_eq!(actions(&mut router), ["advert 100"]);
    }
}

/// Backups whose timer still runs on the old interval must hear of the longer one before it ends.
#[test]
fn an_active_tells_changes_at_once_and_stays_active() {
    let start = Time::from_nanos(100_000_000_000);
    let soon = start + Duration::from_millis(1);
    for (name, changed, expected) in [
        ("interval", Config { interval: interval(5000), ..config() }, vec!["advert 100"]),
        ("priority", Config { priority: priority(7), ..config() }, vec!["advert 7"]),
        ("source", Config { primary: Ipv4Addr::new(192, 0, 2, 11), ..config() }, vec!["advert 100"]),
        ("an address less", Config { addresses: BTreeSet::new(), ..config() }, vec!["advert 100"]),
        ("preempt", Config { preempt: false, ..config() }, vec![]),
        ("peers", Config { peers: [LOWER].into(), ..config() }, vec![]),
        ("nothing", config(), vec![]),
    ] {
        let mut router = router(State::Active, config(), start);
        router.reconfigure(changed, soon);
        assert_eq!(actions(&mut router), expected, "{name}");
        assert_eq!(router.state(), State::Active, "{name}");
    }
}

#[test]
fn a_peer_that_is_one_no_longer_is_not_obeyed_any_more() {
    let mut router = router(State::Backup, config(), Time::default());
    router.reconfigure(Config { peers: [LOWER].into(), ..config() }, Time::default());
    assert_eq!(router.handle_advert(advert(HIGHER, 200, 1000), Time::default()), Verdict::Stranger);
    assert_eq!(router.handle_advert(advert(LOWER, 200, 1000), Time::default()), Verdict::Obeyed);
}

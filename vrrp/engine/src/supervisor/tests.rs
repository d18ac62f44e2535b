use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, channel};

use super::*;
use crate::event_queue;

/// Limit of every wait.
const LIMIT: Duration = Duration::from_secs(30);

/// A supervisor and the events that it reports.
fn supervisor() -> (Supervisor, Receiver<Event>) {
    let (events, reported) = event_queue::channel();
    (Supervisor::new(events), reported.into_receiver())
}

fn panics(text: &str) -> ! {
    // Without the panic hook's backtrace.
    resume_unwind(Box::new(text.to_owned()))
}

#[test]
fn delays_double_up_to_a_minute_and_begin_anew_after_a_longer_time_without_a_fault() {
    let mut delay = Duration::ZERO;
    let mut delays = Vec::new();
    for _ in 0..12 {
        delay = next_delay(delay, Duration::ZERO);
        delays.push(delay);
    }
    assert_eq!(delays[0], FIRST_DELAY);
    assert!(delays.windows(2).all(|pair| pair[1] == (pair[0] * 2).min(LONGEST_DELAY)), "{delays:?}");
    assert_eq!(delays[11], LONGEST_DELAY);
    assert_eq!(next_delay(LONGEST_DELAY, LONGEST_DELAY), LONGEST_DELAY);
    assert_eq!(next_delay(LONGEST_DELAY, LONGEST_DELAY * 2), FIRST_DELAY);
}

#[test]
fn a_helper_that_panics_or_fails_is_reported_with_its_words_and_started_again_until_it_works() {
    let (mut supervisor, reported) = supervisor();
    let (faults, lost) = channel();
    let (free, freed) = channel::<()>();
    let mut starts = 0;
    let on_fault = move |error: &str| drop(faults.send(error.to_owned()));
    let thread = supervisor
        .spawn(
            "windlass-connections",
            on_fault,
            |_| false,
            move |helper| {
                starts += 1;
                helper.begin_round();
                match starts {
                    1 => panics("a sum was missed"),
                    2 => return Err("no netlink".to_owned()),
                    _ => helper.end_round(),
                }
                let _ = freed.recv();
                Ok(())
            },
        )
        .unwrap();
    for words in ["panicked, which is a bug, report it: a sum was missed", "failed: no netlink"] {
        let Ok(Event::HelperAway { thread, error }) = reported.recv_timeout(LIMIT) else { panic!("{words}") };
        assert_eq!(thread, "windlass-connections");
        assert!(error.contains(words) && error.contains("connections are not replicated"), "{error}");
        assert_eq!(lost.recv_timeout(LIMIT).unwrap(), error);
    }
    let back = reported.recv_timeout(LIMIT).unwrap();
    assert!(matches!(back, Event::HelperBack { thread: "windlass-connections" }), "{back:?}");
    let status = supervisor.status();
    assert_eq!(status.iter().map(|one| (one.faults, one.error.clone())).collect::<Vec<_>>(), [(2, None)]);
    supervisor.stop();
    drop(free);
    thread.join();
}

// shows: threats T-33
#[test]
fn a_helper_that_stalls_is_reported_once_while_it_lasts_and_the_end_does_not_wait_for_it() {
    let (mut supervisor, reported) = supervisor();
    let (free, freed) = channel::<()>();
    let (tell, told) = channel();
    let thread = supervisor
        .spawn(
            "windlass-links",
            |_| (),
            |_| false,
            move |helper| {
                helper.begin_round();
                let _ = freed.recv();
                helper.end_round();
                tell.send(()).unwrap();
                helper.begin_round();
                let _ = freed.recv();
                Ok(())
            },
        )
        .unwrap();
    supervisor.watch_for(Duration::from_millis(5)).unwrap();
    let Ok(Event::HelperAway { error, .. }) = reported.recv_timeout(LIMIT) else { panic!("not reported") };
    assert!(error.contains("windlass-links has stalled for 0 s"), "{error}");
    assert!(supervisor.status()[0].error.is_some());
    free.send(()).unwrap();
    told.recv_timeout(LIMIT).unwrap();
    let back = reported.recv_timeout(LIMIT).unwrap();
    assert!(matches!(back, Event::HelperBack { .. }), "{back:?}");
    supervisor.stop();
    // It is still busy with its second round.
    thread.finish(GRACE);
    drop(free);
}

#[test]
fn a_helper_that_is_away_when_the_engine_ends_is_started_once_more_for_its_last_work() {
    let (mut supervisor, reported) = supervisor();
    let (tell, told) = channel();
    let is_engine_stopping = Arc::clone(&supervisor.shared);
    let thread = supervisor
        .spawn(
            "windlass-hold",
            |_| (),
            |_| false,
            move |_| {
                if !*is_engine_stopping.is_stopping.lock().unwrap() {
                    panics("away");
                }
                tell.send(()).unwrap();
                panics("away for good");
            },
        )
        .unwrap();
    let away = reported.recv_timeout(LIMIT).unwrap();
    assert!(matches!(away, Event::HelperAway { .. }), "{away:?}");
    supervisor.stop();
    thread.join();
    assert_eq!(told.iter().count(), 1);
}

#[test]
fn a_panic_that_is_fatal_ends_the_helper_and_is_no_fault_of_a_helper() {
    let (mut supervisor, reported) = supervisor();
    let (tell, told) = channel();
    let is_fatal = move |panic: &str| tell.send(panic.to_owned()).is_ok();
    let thread = supervisor.spawn("windlass-hold", |_| (), is_fatal, |_| panics("bound")).unwrap();
    thread.join();
    assert_eq!(told.recv().unwrap(), "bound");
    assert_eq!(supervisor.status()[0].faults, 0);
    supervisor.stop();
    assert!(reported.try_recv().is_err());
}

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use windlass_vrrp::Vrid;

use super::*;
use crate::config::RouterConfig;
use crate::event_queue::{EventSender, channel};
use crate::supervisor::{GRACE, HelperThread, Supervisor};

/// The thread, as the engine has it.
fn start(on_event: impl Fn(Event) + Send + 'static) -> (EventSender, Supervisor, HelperThread) {
    let (event_sender, waiting) = channel();
    let mut supervisor = Supervisor::new(event_sender.clone());
    let body = move |helper: &Helper| {
        deliver(&waiting, &on_event, helper);
        Ok(())
    };
    let thread = supervisor.spawn("windlass-events", |_| (), |_| false, body).unwrap();
    (event_sender, supervisor, thread)
}

fn event(number: u8) -> Event {
    let source = "192.0.2.1".parse().unwrap();
    Event::Recovered { key: RouterConfig::new("eth0", Vrid::new(number).unwrap(), source).key() }
}

#[test]
fn events_come_in_order_and_all_before_the_end_whatever_the_user_does_with_them() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let book = Arc::clone(&told);
    let (event_sender, mut supervisor, event_thread) = start(move |event| {
        book.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        // The user's mistake, without a word, and a backtrace, by the panic hook: that takes a while.
        resume_unwind(Box::new("panicked"));
    });
    for number in 1..=9 {
        event_sender.send(event(number));
    }
    supervisor.stop();
    drop(event_sender);
    // Not by `finish`, which on a busy machine may not wait for so long.
    event_thread.join();
    let told = told.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(*told, (1..=9).map(event).collect::<Vec<_>>());
}

#[test]
fn nobody_waits_for_a_user_who_blocks_and_what_does_not_fit_is_counted() {
    let (free, blocked) = mpsc::channel::<()>();
    let blocked = Mutex::new(blocked);
    let (event_sender, mut supervisor, event_thread) = start(move |_| {
        let _ = blocked.lock().unwrap().recv();
    });
    // One is with the user, or waits as well.
    for _ in 0..MAX_WAITING_EVENTS + 3 {
        event_sender.send(event(1));
    }
    let lost = event_sender.lost();
    assert!((2..=3).contains(&lost), "{lost}");
    supervisor.stop();
    drop(event_sender);
    event_thread.finish(GRACE);
    drop(free);
}

//! A process that is stopped for a while.

use nix::sys::signal::Signal;
use windlass_engine::{Engine, Event, Options, State, TransitionReason};

use crate::body::Body;
use crate::lab::{Lan, require_root, router};

const MARK: &str = "WINDLASS_TEST_FROZEN";

/// Not a test of its own: the process that the test below freezes. Prints states and reasons until its input ends.
#[test]
#[ignore = "the body of another test's process"]
fn router_process() {
    if std::env::var_os(MARK).is_none() {
        return;
    }
    let options = Options::new(|event| {
        if let Event::StateChanged { state, reason, .. } = event {
            println!("{MARK} {state}: {reason}");
        }
    });
    let engine = Engine::start(options).unwrap();
    engine.apply(vec![router(0, 2)]);
    std::io::stdin().read_line(&mut String::new()).unwrap();
    engine.shutdown();
}

#[test]
fn an_active_that_was_frozen_listens_before_it_speaks_again() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let mut process = Body::start(&lan.hosts[0], "frozen::router_process", MARK, "1");
    assert_eq!(process.next(), "backup: started");
    assert_eq!(process.next(), "active: the Active is silent");
    let peer = lan.hosts[1].engine();
    peer.engine.apply(vec![router(1, 2)]);
    peer.await_status("Backup that hears the Active", |status| status.active == Some(crate::lab::source(0)));

    process.signal(Signal::SIGSTOP);
    assert_eq!(peer.await_state(State::Active), TransitionReason::ActiveSilent);
    process.signal(Signal::SIGCONT);
    assert_eq!(process.next(), "backup: not run for so long that a peer may have taken over");
    // Having listened, it takes its place back.
    assert_eq!(process.next(), "active: the Active has a lower priority");
    assert!(matches!(peer.await_state(State::Backup), TransitionReason::SuperiorActive { .. }));
    assert_eq!(peer.status().counters.contentions, 0, "nothing was said before listening");
}

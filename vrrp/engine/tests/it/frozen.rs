//! A process that is stopped for a while.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use windlass_engine::{Engine, Event, Options, State, TransitionReason};

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

struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_active_that_was_frozen_listens_before_it_speaks_again() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let mut child = Stopped(lan.hosts[0].run(|| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "frozen::router_process", "--ignored", "--nocapture"])
            .env(MARK, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }));
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let mut next = || loop {
        let line = lines.next().expect("the process ended").unwrap();
        if let Some((_, told)) = line.split_once(&format!("{MARK} ")) {
            return told.to_owned();
        }
    };
    assert_eq!(next(), "backup: started");
    assert_eq!(next(), "active: the Active is silent");
    let peer = lan.hosts[1].engine();
    peer.engine.apply(vec![router(1, 2)]);
    peer.await_status("Backup that hears the Active", |status| status.active == Some(crate::lab::source(0)));

    let pid = Pid::from_raw(i32::try_from(child.0.id()).unwrap());
    kill(pid, Signal::SIGSTOP).unwrap();
    assert_eq!(peer.await_state(State::Active), TransitionReason::ActiveSilent);
    kill(pid, Signal::SIGCONT).unwrap();
    assert_eq!(next(), "backup: not run for so long that a peer may have taken over");
    // Having listened, it takes its place back.
    assert_eq!(next(), "active: the Active has a lower priority");
    assert!(matches!(peer.await_state(State::Backup), TransitionReason::SuperiorActive { .. }));
    assert_eq!(peer.status().counters.contentions, 0, "nothing was said before listening");
}

use std::sync::atomic::AtomicBool;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::vip::checks::runner::{Check, repeat, run, run_backend};
use crate::vip::checks::{CheckState, Verdict};
use crate::vip::settings::{CheckKind, CheckSettings, Rhythm};

fn rhythm(interval: u64, rise: u32, fall: u32) -> Rhythm {
    let interval = Duration::from_millis(interval);
    Rhythm { interval, timeout: interval, rise, fall }
}

fn starting() -> (watch::Sender<CheckState>, watch::Receiver<CheckState>) {
    watch::channel(CheckState::starting(std::time::Instant::now()))
}

async fn await_verdict(changes: &mut watch::Receiver<CheckState>, verdict: Verdict) -> CheckState {
    let found = tokio::time::timeout(AMPLE, changes.wait_for(|state| state.verdict == verdict)).await;
    found.unwrap_or_else(|_| panic!("not {verdict:?} in time")).unwrap().clone()
}

#[tokio::test]
async fn a_check_follows_its_server_and_ends_with_its_token() {
    let is_well = Arc::new(AtomicBool::new(true));
    let failures = Arc::new(AtomicU32::new(0));
    let (well, failed) = (Arc::clone(&is_well), Arc::clone(&failures));
    let address = server(move |stream| {
        let answer = if well.load(Ordering::SeqCst) { OK } else { UNAVAILABLE };
        if !well.load(Ordering::SeqCst) {
            failed.fetch_add(1, Ordering::SeqCst);
        }
        async move { drop(reply(stream, answer).await) }
    })
    .await;
    let kind = CheckKind::Server { target: address.into(), question: page(&[200], None) };
    let check = CheckSettings { kind, rhythm: rhythm(300, 2, 3), weight: 100 };
    let (sender, mut changes) = starting();
    let token = CancellationToken::new();
    let running = tokio::spawn(run(check, sender, token.clone()));

    let state = await_verdict(&mut changes, Verdict::Passing).await;
    assert_eq!(state.error, None);
    is_well.store(false, Ordering::SeqCst);
    let state = await_verdict(&mut changes, Verdict::Failing).await;
    assert_eq!(state.error.as_deref(), Some("it answers 503 Service Unavailable: not yet"));
    assert!(failures.load(Ordering::SeqCst) >= 3, "not before the third failure");
    is_well.store(true, Ordering::SeqCst);
    let state = await_verdict(&mut changes, Verdict::Passing).await;
    assert!(state.in_a_row >= 2, "{state:?}");
    token.cancel();
    tokio::time::timeout(AMPLE, running).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_command_and_a_backend_are_checked_likewise() {
    let command = CheckKind::Command(vec!["/bin/false".to_owned()]);
    let check = CheckSettings { kind: command, rhythm: rhythm(1000, 1, 1), weight: 100 };
    let (sender, mut changes) = starting();
    let token = CancellationToken::new();
    tokio::spawn(run(check, sender, token.clone()));
    let state = await_verdict(&mut changes, Verdict::Failing).await;
    assert_eq!(state.error.as_deref(), Some("it ended with exit code 1"));

    let (backend, _) = pages(OK).await;
    let (sender, mut changes) = starting();
    tokio::spawn(run_backend(backend, page(&[200], None), rhythm(1000, 1, 1), sender, token.clone()));
    await_verdict(&mut changes, Verdict::Passing).await;
    token.cancel();
}

/// What an attempt does: it takes so many ms, of its time or with the process standing still, and succeeds or not.
#[derive(Clone, Copy)]
struct Attempt {
    takes: u64,
    succeeds: bool,
}

const WELL: Attempt = Attempt { takes: 10, succeeds: true };
const FAILS: Attempt = Attempt { takes: 10, succeeds: false };
const HANGS: Attempt = Attempt { takes: 500, succeeds: false };
/// The process stood still meanwhile.
const FROZEN: Attempt = Attempt { takes: 10_000, succeeds: false };
const FROZEN_WELL: Attempt = Attempt { takes: 10_000, succeeds: true };

/// Makes these attempts, and ends the check then.
struct Script<'a> {
    attempts: std::slice::Iter<'a, Attempt>,
    changes: watch::Receiver<CheckState>,
    token: CancellationToken,
    /// When each attempt began, and the verdict before it.
    seen: &'a mut Vec<(Instant, char)>,
}

impl Check for Script<'_> {
    async fn attempt(&mut self, within: Within) -> Answer {
        let verdict = match self.changes.borrow().verdict {
            Verdict::Unknown => '?',
            Verdict::Passing => 'P',
            Verdict::Failing => 'F',
        };
        self.seen.push((within.start(), verdict));
        let Some(attempt) = self.attempts.next() else {
            self.token.cancel();
            return std::future::pending().await;
        };
        tokio::time::advance(Duration::from_millis(attempt.takes)).await;
        if attempt.succeeds { Ok(()) } else { Err("failed".to_owned()) }
    }
}

/// In virtual time, with an interval of 500 ms, rise 2 and fall 3: when each attempt began, in ms, and the verdict after it.
async fn script(attempts: &[Attempt]) -> Vec<(u128, char)> {
    let (sender, changes) = starting();
    let token = CancellationToken::new();
    let start = Instant::now();
    let mut seen = Vec::new();
    let check = Script { attempts: attempts.iter(), changes, token: token.clone(), seen: &mut seen };
    repeat(rhythm(500, 2, 3), check, sender, token).await;
    let after = seen.iter().skip(1).map(|(_, verdict)| *verdict);
    seen.iter().map(|(begun, _)| begun.duration_since(start).as_millis()).zip(after).collect()
}

#[tokio::test(start_paused = true)]
async fn attempts_begin_an_interval_apart_and_who_hangs_fails_after_three_intervals() {
    let rows = script(&[WELL, HANGS, HANGS, HANGS, WELL, WELL]).await;
    assert_eq!(rows, [(0, 'P'), (500, 'P'), (1000, 'P'), (1500, 'F'), (2000, 'F'), (2500, 'P')]);
}

#[tokio::test(start_paused = true)]
async fn what_failed_before_or_while_the_process_stood_still_does_not_count() {
    let rows = script(&[WELL, FAILS, FAILS, FROZEN, FAILS, FAILS, FAILS]).await;
    let expected =
        [(0, 'P'), (500, 'P'), (1000, 'P'), (1500, 'P'), (11_500, 'P'), (12_000, 'P'), (12_500, 'F')];
    assert_eq!(rows, expected, "and nothing is made up for in a burst");
    let rows = script(&[FAILS, FROZEN_WELL, WELL]).await;
    assert_eq!(rows, [(0, 'F'), (500, 'F'), (10_500, 'P')], "a success is one all the same");
}

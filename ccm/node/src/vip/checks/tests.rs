use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::runner::{Check, repeat, run};
use super::{Answer, CheckState, Verdict};
use crate::checks::Within;
use crate::checks::tests::servers::{AMPLE, OK, UNAVAILABLE, page, reply, server};
use crate::vip::settings::{CheckKind, Rhythm};

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
    let (sender, mut changes) = starting();
    let token = CancellationToken::new();
    let stop = token.clone();
    let running = tokio::spawn(async move { run(kind, rhythm(300, 2, 3), &sender, &stop).await });

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
async fn a_command_is_checked_likewise() {
    let command = CheckKind::Command(vec!["/bin/false".to_owned()]);
    let (sender, mut changes) = starting();
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move { run(command, rhythm(1000, 1, 1), &sender, &stop).await });
    let state = await_verdict(&mut changes, Verdict::Failing).await;
    assert_eq!(state.error.as_deref(), Some("it ended with exit code 1"));
    token.cancel();
}

/// What an attempt does: it answers after so many ms of its time, or would, or with the process standing still, and succeeds or not.
#[derive(Clone, Copy)]
struct Attempt {
    takes: u64,
    succeeds: bool,
}

const WELL: Attempt = Attempt { takes: 10, succeeds: true };
/// Under load.
const SLOW: Attempt = Attempt { takes: 300, succeeds: true };
const FAILS: Attempt = Attempt { takes: 10, succeeds: false };
/// For longer than any attempt is waited for.
const HANGS: Attempt = Attempt { takes: 3_600_000, succeeds: false };
/// The process stood still meanwhile.
const FROZEN: Attempt = Attempt { takes: 10_000, succeeds: false };
const FROZEN_WELL: Attempt = Attempt { takes: 10_000, succeeds: true };

/// Makes these attempts, and ends the check then.
struct Script<'a> {
    attempts: std::slice::Iter<'a, Attempt>,
    changes: watch::Receiver<CheckState>,
    token: CancellationToken,
    /// When each attempt began, and the verdict before it and since when it was so.
    seen: &'a mut Vec<(Instant, char, Instant)>,
}

impl Check for Script<'_> {
    async fn attempt(&mut self, within: Within) -> Answer {
        let (verdict, since) = {
            let state = self.changes.borrow();
            let verdict = match state.verdict {
                Verdict::Unknown => '?',
                Verdict::Passing => 'P',
                Verdict::Failing => 'F',
            };
            (verdict, state.since.into())
        };
        self.seen.push((within.start(), verdict, since));
        let Some(attempt) = self.attempts.next() else {
            self.token.cancel();
            return std::future::pending().await;
        };
        let takes = Duration::from_millis(attempt.takes);
        let is_stall = [FROZEN.takes, FROZEN_WELL.takes].contains(&attempt.takes);
        if takes > within.limit() && !is_stall {
            tokio::time::advance(within.limit()).await;
            return Err("no answer".to_owned());
        }
        tokio::time::advance(takes).await;
        if attempt.succeeds { Ok(()) } else { Err("failed".to_owned()) }
    }
}

/// In virtual time, with an interval of 500 ms, rise 2 and `fall`: when each attempt began, and the verdict after it and since when, in ms.
async fn judged(fall: u32, attempts: &[Attempt]) -> Vec<(u128, char, u128)> {
    let (sender, changes) = starting();
    let token = CancellationToken::new();
    let start = Instant::now();
    let mut seen = Vec::new();
    let check = Script { attempts: attempts.iter(), changes, token: token.clone(), seen: &mut seen };
    repeat(rhythm(500, 2, fall), check, &sender, &token).await;
    let ms = |at: &Instant| at.duration_since(start).as_millis();
    let after = seen.iter().skip(1);
    seen.iter()
        .zip(after)
        .map(|((begun, ..), (_, verdict, since))| (ms(begun), *verdict, ms(since)))
        .collect()
}

/// With a fall of 3: when each attempt began, in ms, and the verdict after it.
async fn script(attempts: &[Attempt]) -> Vec<(u128, char)> {
    judged(3, attempts).await.into_iter().map(|(begun, verdict, _)| (begun, verdict)).collect()
}

#[tokio::test(start_paused = true)]
async fn attempts_begin_an_interval_apart_and_who_hangs_fails_after_three_of_them() {
    let rows = script(&[WELL, HANGS, HANGS, HANGS, WELL, WELL]).await;
    assert_eq!(rows, [(0, 'P'), (500, 'P'), (1000, 'P'), (1500, 'F'), (2000, 'F'), (2500, 'P')]);
}

/// It hangs from just after an attempt that it answered: the longest that a failure can take.
#[tokio::test(start_paused = true)]
async fn who_hangs_fails_within_fall_intervals_and_fifty_milliseconds() {
    for (fall, expected) in [(2, 1050), (3, 1550), (5, 2550)] {
        let attempts = [&[WELL][..], &[HANGS].repeat(usize::try_from(fall).unwrap())].concat();
        let rows = judged(fall, &attempts).await;
        assert_eq!(
            rows.last().map(|(_, verdict, since)| (*verdict, *since)),
            Some(('F', expected)),
            "{fall}"
        );
    }
    let rows = judged(1, &[WELL, HANGS]).await;
    assert_eq!(rows, [(0, 'P', 10), (500, 'F', 1000)], "without another attempt it has all its time");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_slow_passes_after_two_attempts_that_hung() {
    let rows = script(&[SLOW, HANGS, HANGS, SLOW, HANGS, HANGS, SLOW]).await;
    assert!(rows.iter().all(|(_, verdict)| *verdict == 'P'), "{rows:?}");
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

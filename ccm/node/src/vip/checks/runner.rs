//! A check made again and again.

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Answer;
use super::cadence::Cadence;
use super::rise_and_fall::{CheckState, RiseAndFall};
use crate::checks::{Probe, Target, Within, command};
use crate::vip::settings::{CheckKind, Rhythm};

/// Makes a check until `token` is cancelled. `changes` always has the last state; its receivers are woken when the verdict or the error
/// changes.
pub(crate) async fn run(
    kind: CheckKind,
    rhythm: Rhythm,
    changes: &watch::Sender<CheckState>,
    token: &CancellationToken,
) {
    match kind {
        CheckKind::Server { target, question } => {
            repeat(rhythm, ServerCheck { target, probe: Probe::new(question) }, changes, token).await;
        }
        CheckKind::Command(words) => repeat(rhythm, CommandCheck(words), changes, token).await,
    }
}

/// Check that is attempted again and again.
pub(super) trait Check {
    /// Attempts it, for no longer than `within`.
    fn attempt(&mut self, within: Within) -> impl Future<Output = Answer> + Send;
}

struct ServerCheck {
    target: Target,
    probe: Probe,
}

impl Check for ServerCheck {
    async fn attempt(&mut self, within: Within) -> Answer {
        self.probe.ask(&self.target, within).await.map_err(|failure| failure.to_string())
    }
}

struct CommandCheck(Vec<String>);

impl Check for CommandCheck {
    async fn attempt(&mut self, within: Within) -> Answer {
        command::run(&self.0, within).await
    }
}

/// Attempts the check in its rhythm, and judges what is found.
pub(super) async fn repeat(
    rhythm: Rhythm,
    mut check: impl Check,
    changes: &watch::Sender<CheckState>,
    token: &CancellationToken,
) {
    let Rhythm { interval, timeout, rise, fall } = rhythm;
    let start = Instant::now();
    let mut cadence = Cadence::new(start, interval);
    let mut judge = RiseAndFall::new(rise, fall, start.into_std());
    loop {
        if token.run_until_cancelled(sleep_until(cadence.next())).await.is_none() {
            return;
        }
        if cadence.stalled(cadence.next(), Instant::now()) {
            judge.note_stall();
        }
        let within = Within::from_now(judge.patience(timeout));
        let Some(answer) = token.run_until_cancelled(check.attempt(within)).await else { return };
        let now = Instant::now();
        let stalled = cadence.stalled(within.end(), now);
        if stalled {
            judge.note_stall();
        }
        // An attempt that failed while the process stood still did not have its time. A success is one all the same.
        if answer.is_ok() || !stalled {
            judge.note(answer, now.saturating_duration_since(within.start()), now.into_std());
        }
        changes.send_if_modified(|state| {
            let new = judge.state();
            let is_news = state.verdict != new.verdict || state.error != new.error;
            state.clone_from(new);
            is_news
        });
        cadence.advance(now);
    }
}

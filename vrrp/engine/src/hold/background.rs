//! Jobs of the hold thread that take long, each done by a helper thread of ordinary priority: no takeover waits for one.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use windlass_vrrp::Time;

use crate::faults;
use crate::handle::SharedState;

#[cfg(test)]
mod tests;

/// Time after which a job counts as stalled.
const STALLED: Duration = Duration::from_secs(30);
/// Time until the thread is started again after it failed.
const RETRY: Duration = Duration::from_secs(5);

/// Helper thread that does one kind of job, one at a time. The first job starts it, in the network namespace of the calling thread.
pub(super) struct Background<J, O> {
    name: &'static str,
    perform: fn(J) -> O,
    shared: Arc<SharedState>,
    thread: Option<Channels<J, O>>,
    under_way: Option<UnderWay>,
    /// Time from which on the thread may be started again.
    retry: Time,
}

struct Channels<J, O> {
    jobs: Sender<J>,
    outcomes: Receiver<O>,
}

/// Job that the thread has.
#[derive(Clone, Copy)]
struct UnderWay {
    since: Time,
    is_reported: bool,
}

/// Failure of the helper thread in the middle of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lost;

impl<J: Send + 'static, O: Send + 'static> Background<J, O> {
    /// Nothing runs yet. The hold thread is woken when a job is done.
    pub(super) fn new(name: &'static str, shared: &Arc<SharedState>, perform: fn(J) -> O) -> Self {
        let shared = Arc::clone(shared);
        Self { name, perform, shared, thread: None, under_way: None, retry: Time::default() }
    }

    /// Time from which on it takes a job; `None` while one is under way.
    pub(super) fn ready_at(&self, now: Time) -> Option<Time> {
        self.under_way.is_none().then(|| self.retry.max(now))
    }

    /// Returns true if it takes a job now.
    pub(super) fn is_ready(&self, now: Time) -> bool {
        self.ready_at(now).is_some_and(|ready| ready <= now)
    }

    /// Hands a job to the thread, which [is ready](Self::is_ready). Returns true if the thread has it.
    pub(super) fn submit(&mut self, job: J, now: Time) -> bool {
        let is_sent = self.thread().is_some_and(|thread| thread.jobs.send(job).is_ok());
        if is_sent {
            self.under_way = Some(UnderWay { since: now, is_reported: false });
        } else {
            self.thread = None;
            self.retry = now + RETRY;
        }
        is_sent
    }

    /// Returns the outcome of the job once it is done.
    pub(super) fn poll(&mut self, now: Time) -> Option<Result<O, Lost>> {
        let under_way = self.under_way.as_mut()?;
        let outcome =
            self.thread.as_ref().map_or(Err(TryRecvError::Disconnected), |thread| thread.outcomes.try_recv());
        match outcome {
            Ok(outcome) => {
                self.under_way = None;
                Some(Ok(outcome))
            }
            Err(TryRecvError::Empty) => {
                if now >= under_way.since + STALLED && !under_way.is_reported {
                    under_way.is_reported = true;
                    tracing::error!(thread = self.name, "a helper thread has not finished its job for 30 s");
                }
                None
            }
            Err(TryRecvError::Disconnected) => {
                tracing::error!(
                    thread = self.name,
                    "a helper thread panicked; it is started again after 5 s"
                );
                (self.thread, self.under_way, self.retry) = (None, None, now + RETRY);
                Some(Err(Lost))
            }
        }
    }

    /// Has a last job done, and waits for all jobs for at most this long.
    pub(super) fn finish(mut self, last: J, limit: Duration) {
        let deadline = Instant::now() + limit;
        if self.thread().is_none_or(|thread| thread.jobs.send(last).is_err()) {
            return;
        }
        let Some(Channels { jobs, outcomes }) = self.thread.take() else { return };
        // Then the thread ends after the last job, and closes the other channel.
        drop(jobs);
        while outcomes.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok() {}
    }

    fn thread(&mut self) -> Option<&Channels<J, O>> {
        if self.thread.is_none() {
            match self.start() {
                Ok(thread) => self.thread = Some(thread),
                Err(error) => tracing::error!(thread = self.name, %error, "cannot start a helper thread"),
            }
        }
        self.thread.as_ref()
    }

    /// Starts the thread. Real-time scheduling is not inherited.
    fn start(&self) -> io::Result<Channels<J, O>> {
        let (jobs, received) = mpsc::channel();
        let (done, outcomes) = mpsc::channel();
        let (perform, reporter) =
            (self.perform, Reporter { done: Some(done), shared: Arc::clone(&self.shared) });
        thread::Builder::new().name(self.name.to_owned()).spawn(move || {
            for job in received {
                faults::round();
                if !reporter.report(perform(job)) {
                    return;
                }
            }
        })?;
        Ok(Channels { jobs, outcomes })
    }
}

/// Reports outcomes to the hold thread, and wakes it also if there are no more because the helper thread panicked.
struct Reporter<O> {
    done: Option<Sender<O>>,
    shared: Arc<SharedState>,
}

impl<O> Reporter<O> {
    /// Returns false if no thread waits for it.
    fn report(&self, outcome: O) -> bool {
        let is_sent = self.done.as_ref().is_some_and(|done| done.send(outcome).is_ok());
        self.shared.wake_hold();
        is_sent
    }
}

impl<O> Drop for Reporter<O> {
    fn drop(&mut self) {
        self.done = None;
        self.shared.wake_hold();
    }
}

//! Jobs of the hold thread that take long, each done by a helper thread of ordinary priority: no takeover waits for one.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvError, Sender, TryRecvError};
use std::time::Duration;

use crate::handle::SharedState;
use crate::supervisor::Helper;

#[cfg(test)]
mod tests;

/// A job together with the channel of its outcome.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Body of a helper thread; returns when no hold thread can submit jobs any more. A panic loses only the job that is under way.
pub(crate) fn work(jobs: &Receiver<Job>, helper: &Helper) {
    helper.end_round();
    for job in jobs {
        helper.begin_round();
        job();
        helper.end_round();
    }
}

/// Jobs of one kind for a helper thread, one at a time.
pub(super) struct Background<J, O> {
    jobs: Sender<Job>,
    perform: fn(J) -> O,
    shared: Arc<SharedState>,
    /// Outcome of the job that is under way.
    outcome: Option<Receiver<O>>,
}

impl<J: Send + 'static, O: Send + 'static> Background<J, O> {
    /// Sends no job yet. The hold thread is woken when a job is done; if one is lost, the supervisor's report of the fault must do that.
    pub(super) fn new(jobs: &Sender<Job>, shared: &Arc<SharedState>, perform: fn(J) -> O) -> Self {
        Self { jobs: jobs.clone(), perform, shared: Arc::clone(shared), outcome: None }
    }

    /// Returns true if no job is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.outcome.is_none()
    }

    /// Hands a job to the thread. Of a job that is under way, the outcome is dropped.
    pub(super) fn submit(&mut self, job: J) {
        let (done, outcome) = mpsc::channel();
        let (perform, shared) = (self.perform, Arc::clone(&self.shared));
        // If no thread takes it, it counts as lost.
        let _ = self.jobs.send(Box::new(move || {
            // If no thread waits for the outcome, that is no fault.
            let _ = done.send(perform(job));
            shared.wake_hold();
        }));
        self.outcome = Some(outcome);
    }

    /// Returns the outcome of the job once it is done; an error if the thread panicked instead.
    pub(super) fn poll(&mut self) -> Option<Result<O, RecvError>> {
        let outcome = match self.outcome.as_ref()?.try_recv() {
            Ok(outcome) => Ok(outcome),
            Err(TryRecvError::Disconnected) => Err(RecvError),
            Err(TryRecvError::Empty) => return None,
        };
        self.outcome = None;
        Some(outcome)
    }

    /// Has a last job done, and waits for all jobs for at most this long.
    pub(super) fn finish(mut self, last: J, limit: Duration) {
        self.submit(last);
        let _ = self.outcome.map(|outcome| outcome.recv_timeout(limit));
    }
}

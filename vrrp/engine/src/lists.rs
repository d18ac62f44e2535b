//! The thread `windlass-lists`: lists the kernel's connections, and has it forget those that are over, for threads that others wait for.
//!
//! A list walks the kernel's whole table, however little of it is asked for and whichever network namespace its entries are of: 35 ms of a
//! processor for 225,000 entries. Until its first piece is full nobody changes the table, and as long as a walk finds nothing that
//! processor takes no packets. So lists are few, and no takeover waits for one.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use windlass_vrrp::Time;

use crate::clock;

#[cfg(test)]
mod tests;

/// Who has had a list leaves the kernel alone for this many times as long as that took.
const REST: u32 = 9;

type Job = Box<dyn FnOnce() + Send>;

/// The way to the thread. It ends when the last of these is gone.
#[derive(Clone)]
pub(crate) struct Lists(Sender<Job>);

/// What the thread is to do.
pub(crate) struct Jobs(Receiver<Job>);

/// Both ends.
pub(crate) fn lists() -> (Lists, Jobs) {
    let (sender, receiver) = channel();
    (Lists(sender), Jobs(receiver))
}

/// The thread's body: one job at a time.
pub(crate) fn run(jobs: Jobs) {
    for job in jobs.0 {
        job();
    }
}

/// One kind of list that one thread asks for again and again.
pub(crate) struct Listing<T> {
    lists: Lists,
    /// Where the answer comes, with the time that it took.
    asked: Option<Receiver<(T, Duration)>>,
    rests_until: Time,
}

impl<T: Send + 'static> Listing<T> {
    /// Nothing was asked for.
    pub(crate) fn new(lists: Lists) -> Self {
        Self { lists, asked: None, rests_until: Time::default() }
    }

    /// Whether an answer is to come.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Whether no answer is to come, and the last list is as long ago as it has to be for lists to take a tenth of the time at most.
    pub(crate) fn has_rested(&self, now: Time) -> bool {
        !self.is_asked() && self.rests_until <= now
    }

    /// When [`Self::has_rested`] holds; `None` while an answer is to come.
    pub(crate) fn rested(&self) -> Option<Time> {
        (!self.is_asked()).then_some(self.rests_until)
    }

    /// Has the thread do this, in place of what was asked for before.
    pub(crate) fn ask(&mut self, list: impl FnOnce() -> T + Send + 'static) {
        let (tell, told) = channel();
        self.asked = Some(told);
        // Nobody takes it while the engine ends, and nobody may want the answer then.
        let _ = self.lists.0.send(Box::new(move || {
            let begun = clock::now();
            let answer = list();
            let _ = tell.send((answer, clock::now().since(begun)));
        }));
    }

    /// The answer, once.
    pub(crate) fn answer(&mut self, now: Time) -> Option<T> {
        match self.asked.as_ref()?.try_recv() {
            Ok((answer, took)) => {
                (self.asked, self.rests_until) = (None, now + took * REST);
                Some(answer)
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                self.asked = None;
                None
            }
        }
    }
}

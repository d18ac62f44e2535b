//! Helper threads, whose work the election does not need.
//!
//! A helper that panics or fails loses its function until it is started again: after 1 s, then after twice as long each time, 1 min at most.
//! A helper that stalls is reported. Neither makes a virtual router resign nor ends the engine, and no other thread waits for a helper.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use windlass_kernel::clock;

use crate::event::Event;
use crate::event_queue::EventSender;
use crate::faults;
use crate::status::HelperStatus;

#[cfg(test)]
mod tests;

/// Time from a first fault to the next start.
const FIRST_DELAY: Duration = if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(1) };
/// Longest time from a fault to the next start. A helper that ran for longer than this before its fault begins with the first delay again.
const LONGEST_DELAY: Duration = Duration::from_mins(1);
/// Length of a round from which on the helper counts as stalled.
const STALL: Duration = Duration::from_secs(10);
/// Longest time between two looks for stalled helpers.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time that the end of the engine waits for a helper that has nothing to complete.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// Starts helpers and watches them.
pub(crate) struct Supervisor {
    helpers: Vec<Arc<Helper>>,
    shared: Arc<Shared>,
    watchdog: Option<JoinHandle<()>>,
}

/// State that the supervisor, its helpers and the watchdog share.
struct Shared {
    /// Receiver of reports; `None` once the engine ends.
    reports: Mutex<Option<EventSender>>,
    is_stopping: Mutex<bool>,
    stopped: Condvar,
}

/// A helper as its own thread, the watchdog and the user see it.
pub(crate) struct Helper {
    thread: &'static str,
    /// Nanoseconds of the clock at which the present round began; 0 between rounds.
    busy_since: AtomicU64,
    faults: AtomicU64,
    /// The fault that keeps it from its work.
    fault: ArcSwapOption<String>,
    on_fault: Box<dyn Fn(&str) + Send + Sync>,
    shared: Arc<Shared>,
}

/// Handle to a helper's thread.
pub(crate) struct HelperThread {
    name: &'static str,
    thread: JoinHandle<()>,
    /// Closed when the thread's work is over. In a mutex for the sake of `Sync` alone.
    ended: Mutex<Receiver<()>>,
}

impl Supervisor {
    pub(crate) fn new(reports: EventSender) -> Self {
        let reports = Mutex::new(Some(reports));
        let shared = Shared { reports, is_stopping: Mutex::new(false), stopped: Condvar::new() };
        Self { helpers: Vec::new(), shared: Arc::new(shared), watchdog: None }
    }

    /// Starts a helper. `body` returns when the engine stops, calls [`Helper::begin_round`] before its work and [`Helper::end_round`] before
    /// it waits, and makes all its state anew when it is called again. `on_fault` withdraws what the helper reported of its function; it
    /// may run while the helper does. `is_fatal` ends the engine and returns true if a panic of the helper must do so.
    pub(crate) fn spawn(
        &mut self,
        thread: &'static str,
        on_fault: impl Fn(&str) + Send + Sync + 'static,
        is_fatal: impl Fn(&str) -> bool + Send + 'static,
        mut body: impl FnMut(&Helper) -> Result<(), String> + Send + 'static,
    ) -> io::Result<HelperThread> {
        let helper = Arc::new(Helper {
            thread,
            busy_since: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            fault: ArcSwapOption::empty(),
            on_fault: Box::new(on_fault),
            shared: Arc::clone(&self.shared),
        });
        self.helpers.push(Arc::clone(&helper));
        let (closed_at_the_end, ended) = sync_channel::<()>(0);
        let handle = thread::Builder::new().name(thread.to_owned()).spawn(move || {
            helper.supervise(&is_fatal, &mut body);
            drop(body);
            drop(closed_at_the_end);
        })?;
        Ok(HelperThread { name: thread, thread: handle, ended: Mutex::new(ended) })
    }

    /// Starts the watchdog over the helpers started so far, which reports those that stall.
    pub(crate) fn watch(&mut self) -> io::Result<()> {
        self.watch_for(STALL)
    }

    fn watch_for(&mut self, stall: Duration) -> io::Result<()> {
        let (helpers, shared) = (self.helpers.clone(), Arc::clone(&self.shared));
        let body = move || {
            while !shared.wait_for_stop(stall.min(WATCH_INTERVAL)) {
                for helper in &helpers {
                    helper.look_for_stall(stall);
                }
            }
        };
        self.watchdog = Some(thread::Builder::new().name("windlass-watchdog".to_owned()).spawn(body)?);
        Ok(())
    }

    pub(crate) fn status(&self) -> Vec<HelperStatus> {
        self.helpers.iter().map(|helper| helper.status()).collect()
    }

    /// Ends the watchdog, and the pauses of helpers that are away: each does its last work now. From now on faults are only logged.
    pub(crate) fn stop(&mut self) {
        *self.shared.is_stopping.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.stopped.notify_all();
        drop(self.shared.reports.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(watchdog) = self.watchdog.take() {
            let _ = watchdog.join();
        }
    }
}

impl Shared {
    /// Waits until the engine stops, for this time at most. Returns true if it stops.
    fn wait_for_stop(&self, limit: Duration) -> bool {
        let is_stopping = self.is_stopping.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.stopped.wait_timeout_while(is_stopping, limit, |is_stopping| !*is_stopping);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn report(&self, event: Event) {
        if let Some(events) = &*self.reports.lock().unwrap_or_else(PoisonError::into_inner) {
            events.send(event);
        }
    }
}

impl Helper {
    /// Records that the helper begins a round of work.
    pub(crate) fn begin_round(&self) {
        self.busy_since.store(clock::now().nanos(), Ordering::Release);
        faults::round();
    }

    /// Records that the helper has completed a round and is about to wait: it does its work.
    pub(crate) fn end_round(&self) {
        self.busy_since.store(0, Ordering::Release);
        self.recover();
    }

    fn recover(&self) {
        if self.fault.load().is_some() && self.fault.swap(None).is_some() {
            tracing::info!(thread = self.thread, "the thread works again");
            self.shared.report(Event::HelperBack { thread: self.thread });
        }
    }

    /// Runs the body until the engine stops.
    fn supervise(&self, is_fatal: &dyn Fn(&str) -> bool, body: &mut dyn FnMut(&Self) -> Result<(), String>) {
        let (mut delay, mut is_last) = (Duration::ZERO, false);
        loop {
            let begun = clock::now();
            // The body makes its state anew.
            let outcome = catch_unwind(AssertUnwindSafe(|| body(self)));
            self.busy_since.store(0, Ordering::Release);
            let error = match outcome {
                Ok(Ok(())) => return,
                Ok(Err(error)) => format!("{} failed: {error}", self.thread),
                Err(panic) => {
                    let panic = panic_text(&*panic);
                    if is_fatal(panic) {
                        return;
                    }
                    format!("{} panicked, which is a bug, report it: {panic}", self.thread)
                }
            };
            delay = next_delay(delay, clock::now().since(begun));
            self.fail(&format!("{error}; {}; started again in {delay:?}", consequence(self.thread)));
            if is_last {
                return;
            }
            is_last = self.shared.wait_for_stop(delay);
        }
    }

    /// Reports a fault, which lasts until the helper completes a round.
    fn fail(&self, error: &str) {
        tracing::error!(thread = self.thread, "{error}");
        self.faults.fetch_add(1, Ordering::Relaxed);
        self.fault.store(Some(Arc::new(error.to_owned())));
        (self.on_fault)(error);
        self.shared.report(Event::HelperAway { thread: self.thread, error: error.to_owned() });
    }

    /// Reports a round that takes longer than this, once.
    fn look_for_stall(&self, limit: Duration) {
        let since = self.busy_since.load(Ordering::Acquire);
        let busy = Duration::from_nanos(clock::now().nanos().saturating_sub(since));
        if since == 0 || busy < limit || self.fault.load().is_some() {
            return;
        }
        let (thread, seconds) = (self.thread, busy.as_secs());
        self.fail(&format!(
            "{thread} has stalled for {seconds} s, in the kernel or for want of processor time; {}; it continues by itself once it can. If that \
             lasts, restart the process",
            consequence(thread)
        ));
        if self.busy_since.load(Ordering::Acquire) != since {
            // It came round meanwhile, and may have found no fault to recover from.
            self.recover();
        }
    }

    fn status(&self) -> HelperStatus {
        HelperStatus {
            thread: self.thread,
            faults: self.faults.load(Ordering::Relaxed),
            error: self.fault.load().as_deref().cloned(),
        }
    }
}

impl HelperThread {
    /// Waits until the helper has ended, for this time at most, and not from within the helper itself.
    pub(crate) fn finish(self, grace: Duration) {
        if self.thread.thread().id() == thread::current().id() {
            return;
        }
        let ended = self.ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        match ended.recv_timeout(grace) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => drop(self.thread.join()),
            Err(RecvTimeoutError::Timeout) => {
                tracing::warn!(
                    thread = self.name,
                    "the thread is still busy {grace:?} after the engine's end; not waiting for it"
                );
            }
        }
    }

    /// Waits until the helper has ended.
    pub(crate) fn join(self) {
        let _ = self.thread.join();
    }
}

/// Delay after a fault, from the delay before it and the time for which the helper ran.
fn next_delay(last: Duration, ran: Duration) -> Duration {
    if ran > LONGEST_DELAY { FIRST_DELAY } else { last.saturating_mul(2).clamp(FIRST_DELAY, LONGEST_DELAY) }
}

/// Effect of a helper's absence.
fn consequence(thread: &str) -> &'static str {
    match thread {
        "windlass-connections" => "connections are not replicated",
        "windlass-links" => "changes of interfaces and their addresses are not followed",
        "windlass-hold" => {
            "the guard stays as it is, and connections of virtual IPs that move are not forwarded"
        }
        "windlass-forget" => "connections that are over stay in connection tracking until they expire",
        "windlass-sets" => "elements of the guard's sets that another program changes are not restored",
        "windlass-endings" => "connections that outlive the claim of a Service stay in connection tracking",
        "windlass-sharing" => {
            "packets for shared addresses are directed as before, and changes of nodes are not followed"
        }
        "windlass-bgp" => "BGP sessions are closed, and the peers have withdrawn this node's routes",
        "windlass-bfd" => "BGP sessions stay, and dead BGP peers are found by the hold time alone",
        "windlass-events" => "events of the engine are not reported",
        _ => "its function is missing",
    }
}

/// Message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

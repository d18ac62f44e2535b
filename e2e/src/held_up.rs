//! An agent that is held up again and again, as by a hypervisor that has no time for its node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::ensure;
use nix::sys::signal::{Signal, kill};

use crate::node::Node;

/// Holds it up until this is dropped.
#[must_use = "until it is dropped"]
pub struct HeldUp {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Node<'_> {
    /// Stops the agent's process for so long, and lets it run for so long, in turn.
    pub fn hold_up_agent(&self, stopped: Duration, running: Duration) -> anyhow::Result<HeldUp> {
        let agents = self.agents();
        ensure!(!agents.is_empty(), "no windlass agent runs on {}", self.name());
        let ends = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let ends = Arc::clone(&ends);
            move || {
                while !ends.load(Ordering::Relaxed) {
                    for (signal, time) in [(Signal::SIGSTOP, stopped), (Signal::SIGCONT, running)] {
                        // It may have ended meanwhile.
                        for pid in &agents {
                            let _ = kill(*pid, signal);
                        }
                        thread::sleep(time);
                    }
                }
            }
        });
        Ok(HeldUp { ends, thread: Some(thread) })
    }
}

impl Drop for HeldUp {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

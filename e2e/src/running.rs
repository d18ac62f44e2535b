//! Threads of clients on hosts of a lab.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use anyhow::{Context as _, anyhow, ensure};
use tokio::task::LocalSet;

use crate::{lab::Lab, sandbox::Entrance, wait::await_that};

/// Limit of the wait for a number of answers or events, including an outage.
const LIMIT: Duration = Duration::from_mins(1);

/// Request to a client to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Requests the end.
    pub(crate) fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns true once the end is requested.
    pub(crate) fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Client that runs in a thread of its own. Dropping it requests its end.
#[derive(Debug)]
pub(crate) struct Running<T> {
    stop: Stop,
    thread: Option<JoinHandle<anyhow::Result<T>>>,
}

impl<T: Send + 'static> Running<T> {
    /// Starts a client on a host. `what` is the first part of its thread's name.
    pub(crate) fn start(
        lab: &Lab,
        host: &str,
        what: &str,
        client: impl FnOnce(&Stop) -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let entrance = Entrance::new(&lab.sandbox, host)?;
        let stop = Stop::default();
        let requested = stop.clone();
        let thread = std::thread::Builder::new().name(format!("{what}-{host}")).spawn(move || {
            entrance.enter()?;
            client(&requested)
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Starts a client of several tasks on a host.
    pub(crate) fn start_tasks<F: Future<Output = anyhow::Result<T>>>(
        lab: &Lab,
        host: &str,
        what: &str,
        client: impl FnOnce(Stop) -> F + Send + 'static,
    ) -> anyhow::Result<Self> {
        Self::start(lab, host, what, |stop| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(LocalSet::new().run_until(client(stop.clone())))
        })
    }

    /// Returns true until the client has ended.
    pub(crate) fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Requests the end of the client, without a wait.
    pub(crate) fn end(&self) {
        self.stop.request();
    }

    /// Requests the end of the client, waits for it and returns the client's results.
    pub(crate) fn stop(mut self) -> anyhow::Result<T> {
        self.end();
        let thread = self.thread.take().context("the client was stopped before")?;
        thread.join().map_err(|_| anyhow!("the client panicked"))?
    }
}

/// Waits until a client has counted so many more.
pub(crate) async fn await_more(counted: &AtomicU64, count: u64, what: &str) -> anyhow::Result<()> {
    let before = counted.load(Ordering::Relaxed);
    await_that(&format!("{count} further {what}"), LIMIT, async || {
        let more = counted.load(Ordering::Relaxed) - before;
        ensure!(more >= count, "{more} were");
        Ok(Some(()))
    })
    .await
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.stop.request();
    }
}

//! Connections that are opened once and kept, half of them busy and half idle, and what became of each of them.

use std::{
    io,
    net::SocketAddr,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, ensure};
use tokio::{
    net::TcpStream,
    time::{MissedTickBehavior, interval, sleep},
};

use crate::{
    crowd::allow_files,
    lab::Lab,
    load::{OPENING, ask, within},
    running::{Running, Stop},
    wait::await_that,
};

/// Files of the process beside the connections.
const FURTHER_FILES: u64 = 500;

/// Which connections are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptOptions {
    /// Number of connections to each target. Every other one is busy.
    pub connections: usize,
    /// Interval between the requests on a busy connection, unless it waits for an answer; the connections take turns.
    pub pause: Duration,
}

/// Result of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptConnection {
    /// It asked all the time; else only when it was opened and at the end.
    pub busy: bool,
    /// The longest time from a request to its answer since [`KeptConnections::watch`], or why it ended: it was reset, or
    /// nothing came for five seconds.
    pub stall: Result<Duration, String>,
}

/// Connections that are there. Dropping it ends them.
#[derive(Debug)]
pub struct KeptConnections {
    shared: Arc<Shared>,
    running: Running<Vec<Vec<KeptConnection>>>,
}

/// State that the clients and their owner share.
#[derive(Debug, Default)]
struct Shared {
    opened: AtomicUsize,
    watched: AtomicBool,
}

impl Lab {
    /// Opens connections from host `client` to HTTP servers at each of `targets`. Returns when all are open and were answered once.
    pub async fn keep_connections(
        &self,
        client: &str,
        targets: &[SocketAddr],
        options: KeptOptions,
    ) -> anyhow::Result<KeptConnections> {
        let (wanted, targets) = (targets.len() * options.connections, targets.to_vec());
        allow_files(wanted as u64 + FURTHER_FILES)?;
        let shared = Arc::new(Shared::default());
        let told = Arc::clone(&shared);
        let running =
            Running::start_tasks(self, client, "kept", move |stop| run(targets, options, told, stop))?;
        let kept = KeptConnections { shared, running };
        await_that("all connections are open", OPENING, async || {
            let opened = kept.shared.opened.load(Ordering::Relaxed);
            ensure!(opened == wanted, "{opened} of {wanted} are open");
            Ok(Some(()))
        })
        .await?;
        Ok(kept)
    }
}

impl KeptConnections {
    /// From now on it counts how long answers take.
    pub fn watch(&self) {
        self.shared.watched.store(true, Ordering::Relaxed);
    }

    /// Sends a last request on every connection, closes the connections and returns their results, by target.
    pub fn stop(self) -> anyhow::Result<Vec<Vec<KeptConnection>>> {
        self.running.stop()
    }
}

async fn run(
    targets: Vec<SocketAddr>,
    options: KeptOptions,
    shared: Arc<Shared>,
    stop: Stop,
) -> anyhow::Result<Vec<Vec<KeptConnection>>> {
    let shared = Rc::new(shared);
    let all = u32::try_from(targets.len() * options.connections)?.max(1);
    let mut nth = 0;
    let mut tasks = Vec::new();
    for target in targets {
        let mut of_target = Vec::new();
        for number in 0..options.connections {
            let (busy, turn) = (number % 2 == 0, options.pause * nth / all);
            nth += 1;
            let (shared, stop) = (Rc::clone(&shared), stop.clone());
            of_target.push(tokio::task::spawn_local(async move {
                let stall = keep(target, busy.then_some(turn), options.pause, &shared, &stop).await;
                KeptConnection { busy, stall: stall.map_err(|error| error.to_string()) }
            }));
        }
        tasks.push(of_target);
    }
    let mut seen = Vec::new();
    for of_target in tasks {
        let mut connections = Vec::new();
        for task in of_target {
            connections.push(task.await.context("a client panicked")?);
        }
        seen.push(connections);
    }
    Ok(seen)
}

/// Opens a connection, with retries, and sends a request on it each `pause`, the first after its `turn`; without a turn only at the
/// end. Returns the longest time that an answer took while it was watched.
async fn keep(
    target: SocketAddr,
    turn: Option<Duration>,
    pause: Duration,
    shared: &Shared,
    stop: &Stop,
) -> io::Result<Duration> {
    let mut stream = loop {
        match open(target).await {
            Ok(stream) => break stream,
            Err(error) if stop.is_requested() => return Err(error),
            Err(_) => sleep(pause).await,
        }
    };
    shared.opened.fetch_add(1, Ordering::Relaxed);
    sleep(turn.unwrap_or_default()).await;
    let mut longest = Duration::ZERO;
    let mut ticks = interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !stop.is_requested() {
        ticks.tick().await;
        if turn.is_some() {
            let took = ask(&mut stream).await?;
            // One that was asked before and answered after the beginning of the watch counts: it saw what is watched.
            if shared.watched.load(Ordering::Relaxed) {
                longest = longest.max(took);
            }
        }
    }
    Ok(longest.max(ask(&mut stream).await?))
}

/// A connection that was answered once.
async fn open(target: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = within(TcpStream::connect(target)).await?;
    ask(&mut stream).await?;
    Ok(stream)
}

#[cfg(test)]
mod tests;

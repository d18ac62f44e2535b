//! A client with many connections: some that are established and kept, and new ones all the time. It tells what failed and what
//! broke.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::ensure;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{MissedTickBehavior, interval, timeout},
};

use crate::{
    lab::Lab,
    running::{Running, Stop},
    statistics::add_counts,
    wait::await_that,
};

/// Limit of a client's wait for an answer: longer than the second retransmission of a SYN (after 3 s).
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Limit of the opening of all connections.
pub(crate) const OPENING: Duration = Duration::from_secs(30);

/// Options of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    /// Connections that are kept. Every other one asks twice a second; the rest ask at the beginning and at the end.
    pub connections: usize,
    /// New connections a second, each for one request.
    pub requests_per_second: u32,
}

/// Results of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadOutcome {
    /// Requests on connections of their own.
    pub requests: u64,
    /// Requests without an answer: refused, reset, or nothing for five seconds.
    pub failed: u64,
    /// Connections that were kept.
    pub connections: u64,
    /// Kept connections that ended, or on which a question got no answer within five seconds.
    pub broken: u64,
    /// The longest time that an answer took.
    pub slowest: Duration,
    /// Number of errors, by error.
    pub errors: BTreeMap<String, u64>,
}

/// Ports of the client from which connections are kept.
type Ports = Arc<Mutex<Vec<u16>>>;

/// A running client. Dropping it ends it.
#[derive(Debug)]
pub struct Load {
    ports: Ports,
    running: Running<LoadOutcome>,
}

impl Lab {
    /// Opens connections from host `client` to the Service's HTTP port, and asks until [`Load::stop`]. Returns when all are open.
    pub async fn load(
        &self,
        client: &str,
        address: impl Into<IpAddr>,
        port: u16,
        options: LoadOptions,
    ) -> anyhow::Result<Load> {
        let target = SocketAddr::new(address.into(), port);
        let ports = Ports::default();
        let opened = Arc::clone(&ports);
        let running =
            Running::start_tasks(self, client, "load", move |stop| run(target, options, opened, stop))?;
        let load = Load { ports, running };
        await_that("all connections are open", OPENING, async || {
            let open = load.ports().len();
            ensure!(open == options.connections, "{open} of {} are open", options.connections);
            Ok(Some(()))
        })
        .await?;
        Ok(load)
    }
}

impl Load {
    /// Ports of the client from which connections are kept.
    pub fn ports(&self) -> Vec<u16> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts the last requests on every connection and the end of the client, without a wait; [`Self::stop`] returns the
    /// results. Several clients thus end in the time of one.
    pub fn end(&self) {
        self.running.end();
    }

    /// Sends a last request on every connection, stops the client and returns its results.
    pub fn stop(self) -> anyhow::Result<LoadOutcome> {
        self.running.stop()
    }
}

impl LoadOutcome {
    /// Takes in what a client saw of another address.
    pub fn merge(&mut self, other: Self) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.connections += other.connections;
        self.broken += other.broken;
        self.slowest = self.slowest.max(other.slowest);
        add_counts(&mut self.errors, other.errors);
    }

    fn note(&mut self, result: &io::Result<Duration>) -> bool {
        match result {
            Ok(took) => self.slowest = self.slowest.max(*took),
            Err(error) => *self.errors.entry(error.to_string()).or_default() += 1,
        }
        result.is_ok()
    }
}

async fn run(
    target: SocketAddr,
    options: LoadOptions,
    opened: Ports,
    stop: Stop,
) -> anyhow::Result<LoadOutcome> {
    let outcome = Rc::new(RefCell::new(LoadOutcome::default()));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..options.connections {
        let (outcome, opened, stop) = (Rc::clone(&outcome), Arc::clone(&opened), stop.clone());
        let pause = (number % 2 == 0).then_some(Duration::from_millis(500));
        tasks.spawn_local(async move {
            let kept = keep(target, pause, &opened, &stop, &outcome).await;
            let mut outcome = outcome.borrow_mut();
            outcome.connections += 1;
            outcome.broken += u64::from(!outcome.note(&kept));
        });
    }
    let mut ticks = interval(Duration::from_secs(1) / options.requests_per_second.max(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !stop.is_requested() {
        ticks.tick().await;
        if options.requests_per_second > 0 {
            let outcome = Rc::clone(&outcome);
            tasks.spawn_local(async move {
                let answered = request(target).await;
                let mut outcome = outcome.borrow_mut();
                outcome.requests += 1;
                outcome.failed += u64::from(!outcome.note(&answered));
            });
        }
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
    let outcome = outcome.borrow().clone();
    Ok(outcome)
}

/// Opens a connection and asks on it each `pause`, or at the beginning and the end.
async fn keep(
    target: SocketAddr,
    pause: Option<Duration>,
    opened: &Mutex<Vec<u16>>,
    stop: &Stop,
    outcome: &RefCell<LoadOutcome>,
) -> io::Result<Duration> {
    let mut stream = within(TcpStream::connect(target)).await?;
    ask(&mut stream).await?;
    opened.lock().unwrap_or_else(PoisonError::into_inner).push(stream.local_addr()?.port());
    let mut ticks = interval(pause.unwrap_or(Duration::from_millis(100)));
    while !stop.is_requested() {
        ticks.tick().await;
        if pause.is_some() {
            let took = ask(&mut stream).await?;
            outcome.borrow_mut().note(&Ok(took));
        }
    }
    ask(&mut stream).await
}

/// One request on a connection of its own; how long the answer took.
async fn request(target: SocketAddr) -> io::Result<Duration> {
    let begin = Instant::now();
    let told = |step: &str, error: io::Error| io::Error::new(error.kind(), format!("{step}: {error}"));
    let mut stream = within(TcpStream::connect(target)).await.map_err(|error| told("connecting", error))?;
    ask(&mut stream).await.map_err(|error| told("asking", error))?;
    // Closed by a reset, a connection leaves no TIME_WAIT; with those, a client would run out of ports.
    stream.set_zero_linger()?;
    Ok(begin.elapsed())
}

/// Asks for the server's name, and reads the whole answer within the time that a client has; how long that took.
pub(crate) async fn ask(stream: &mut TcpStream) -> io::Result<Duration> {
    let begin = Instant::now();
    within(exchange(stream)).await?;
    Ok(begin.elapsed())
}

/// Asks for the server's name, and reads the whole answer.
pub(crate) async fn exchange(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(b"GET /hostname HTTP/1.1\r\nHost: lab\r\n\r\n").await?;
    let mut answer = Vec::new();
    while !is_whole(&answer) {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// The work, if it is done within the time that a client has.
pub(crate) async fn within<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(PATIENCE, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Returns true if an HTTP answer with a length is complete.
pub(crate) fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    length.is_some_and(|length| body.len() >= length)
}

#[cfg(test)]
mod tests;

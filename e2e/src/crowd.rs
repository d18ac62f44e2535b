//! Thousands of clients that think and ask, as people do with a page: half of them keep their connection, half open one for each
//! question.

mod client;
mod tally;

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use self::client::Client;
pub use self::tally::{Latencies, Tally};
use crate::{lab::Lab, running::Running, soak::Random};

/// Files of the process beside the clients' connections.
const FURTHER_FILES: u64 = 500;

/// Options of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrowdOptions {
    /// Number of clients. Every other one keeps its connection.
    pub clients: usize,
    /// The shortest time from an answer to the next question.
    pub least_thought: Duration,
    /// The longest; all in between are equally likely.
    pub most_thought: Duration,
    /// Seed from which the times follow.
    pub seed: u64,
}

/// Clients that ask. Dropping it ends them.
#[derive(Debug)]
pub struct Crowd {
    shared: Arc<Shared>,
    threads: Vec<Running<()>>,
}

/// State that the clients of all threads share.
#[derive(Debug)]
struct Shared {
    /// Index of the phase of which a question is that begins now.
    phase: AtomicUsize,
    tallies: Mutex<Vec<Tally>>,
}

impl Lab {
    /// Lets clients on these hosts ask the Services at these addresses, evenly spread over hosts and addresses, until
    /// [`Crowd::stop`]. Each thinks first, for a time up to the longest. The first phase has begun.
    pub fn crowd(
        &self,
        hosts: &[&str],
        addresses: &[IpAddr],
        port: u16,
        options: CrowdOptions,
    ) -> anyhow::Result<Crowd> {
        ensure!(!hosts.is_empty() && !addresses.is_empty(), "a crowd needs hosts and addresses");
        ensure!(options.least_thought <= options.most_thought, "{options:?}: the least is above the most");
        allow_files(options.clients as u64 + FURTHER_FILES)?;
        let targets: Vec<SocketAddr> = addresses.iter().map(|address| (*address, port).into()).collect();
        let mut crowd = Crowd { shared: Arc::new(Shared::new()), threads: Vec::new() };
        for (nth, host) in hosts.iter().enumerate() {
            let clients: Vec<Client> = (0..options.clients)
                .filter(|number| number % hosts.len() == nth)
                .map(|number| Client::new(number, &targets, hosts.len(), options))
                .collect();
            let shared = Arc::clone(&crowd.shared);
            let run = move |stop| client::run(clients, shared, stop);
            crowd.threads.push(Running::start_tasks(self, host, "crowd", run)?);
        }
        Ok(crowd)
    }
}

impl Crowd {
    /// Begins another phase: questions asked from now on are of it, answers to earlier ones are still of the one before.
    pub fn begin_phase(&self) {
        let mut tallies = self.shared.tallies();
        tallies.push(Tally::default());
        self.shared.phase.store(tallies.len() - 1, Ordering::Relaxed);
    }

    /// Waits for outstanding answers, stops the clients and returns their results, phase by phase.
    pub fn stop(self) -> anyhow::Result<Vec<Tally>> {
        self.threads.iter().for_each(Running::end);
        self.threads.into_iter().try_for_each(Running::stop)?;
        Ok(std::mem::take(&mut *self.shared.tallies()))
    }
}

impl Shared {
    fn new() -> Self {
        let tallies = Mutex::new(vec![Tally::default()]);
        Self { phase: AtomicUsize::new(0), tallies }
    }

    fn tallies(&self) -> std::sync::MutexGuard<'_, Vec<Tally>> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CrowdOptions {
    fn thought(&self, random: &mut Random) -> Duration {
        self.least_thought + between_zero_and(self.most_thought.saturating_sub(self.least_thought), random)
    }
}

/// A time up to `most`, in milliseconds.
fn between_zero_and(most: Duration, random: &mut Random) -> Duration {
    let most = u64::try_from(most.as_millis()).unwrap_or(u64::MAX - 1);
    Duration::from_millis(random.below(most + 1))
}

/// Lets this process have so many files open.
pub(crate) fn allow_files(wanted: u64) -> anyhow::Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft >= wanted {
        return Ok(());
    }
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted))
        .with_context(|| format!("raising the limit of open files from {soft} to {wanted}"))
}

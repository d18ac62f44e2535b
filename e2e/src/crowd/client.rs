//! One client, and many of them on one thread.

use std::{
    cell::Cell,
    io,
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use tokio::{net::TcpStream, time::timeout};

use super::{CrowdOptions, Shared, between_zero_and};
use crate::{
    load::{PATIENCE, exchange},
    running::Stop,
    soak::Random,
};

/// Interval between a thread's checks for the end.
const LOOK: Duration = Duration::from_millis(50);
/// An odd number without a pattern, so that seeds of neighbours have nothing in common (2^64 divided by the golden ratio).
const APART: u64 = 0x9e37_79b9_7f4a_7c15;

/// A client before its first question.
#[derive(Debug)]
pub(super) struct Client {
    target: SocketAddr,
    keeps: bool,
    random: Random,
    options: CrowdOptions,
}

/// Step of a client towards an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    /// It asks on the connection that it kept.
    #[default]
    AskingOnKept,
    /// It opens a connection.
    Connecting,
    /// It asks on one that it has just opened.
    AskingOnNew,
}

/// Progress of a question, and its cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Course {
    /// The last thing that the client did.
    step: Step,
    /// The connection that the client had kept was dead, or was given up.
    broken: bool,
}

impl Client {
    /// The `number`-th of all clients; every `hosts` of them are one on each host.
    pub(super) fn new(number: usize, targets: &[SocketAddr], hosts: usize, options: CrowdOptions) -> Self {
        // Each pair of a client that keeps and one that does not asks the same address, pairs take turns.
        let on_host = number / hosts;
        let seed = options.seed.wrapping_add((number as u64 + 1).wrapping_mul(APART));
        Self {
            target: targets[on_host / 2 % targets.len()],
            keeps: on_host.is_multiple_of(2),
            random: Random(seed),
            options,
        }
    }

    /// Thinks and asks, for ever.
    async fn live(mut self, shared: &Shared, stop: &Stop, asking: &Cell<usize>) {
        let mut kept = None;
        let mut thought = between_zero_and(self.options.most_thought, &mut self.random);
        loop {
            tokio::time::sleep(thought).await;
            if stop.is_requested() {
                return;
            }
            let phase = shared.phase.load(Ordering::Relaxed);
            asking.set(asking.get() + 1);
            let begin = Instant::now();
            let (result, course) = self.question(&mut kept).await;
            asking.set(asking.get() - 1);
            let took = result.map(|()| begin.elapsed()).map_err(|error| course.told(&error));
            if let Some(tally) = shared.tallies().get_mut(phase) {
                tally.note(took, course.broken);
            }
            thought = self.options.thought(&mut self.random);
        }
    }

    /// One question, within the time that a client has.
    async fn question(&self, kept: &mut Option<TcpStream>) -> (io::Result<()>, Course) {
        let mut course = Course::default();
        let answered = timeout(PATIENCE, answer(self.target, self.keeps, kept, &mut course)).await;
        let answered = answered.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        if answered.is_err() && kept.take().is_some() {
            course.broken = true;
        }
        (answered, course)
    }
}

impl Course {
    /// Returns the error as one of few sentences that can be counted.
    fn told(self, error: &io::Error) -> String {
        let step = match self.step {
            Step::AskingOnKept => "asking on the connection that was kept",
            Step::Connecting if self.broken => "connecting, in place of a kept connection",
            Step::Connecting => "connecting",
            Step::AskingOnNew => "asking on a new connection",
        };
        format!("{step}: {error}")
    }
}

/// Asks on the connection that is kept, and where there is none, or it is dead, on a new one.
async fn answer(
    target: SocketAddr,
    keeps: bool,
    kept: &mut Option<TcpStream>,
    course: &mut Course,
) -> io::Result<()> {
    if let Some(stream) = kept {
        if exchange(stream).await.is_ok() {
            return Ok(());
        }
        *kept = None;
        course.broken = true;
    }
    course.step = Step::Connecting;
    let mut stream = TcpStream::connect(target).await?;
    course.step = Step::AskingOnNew;
    exchange(&mut stream).await?;
    if keeps {
        *kept = Some(stream);
    } else {
        // Closed by a reset, a connection leaves no TIME_WAIT; with those, a client would run out of ports.
        stream.set_zero_linger()?;
    }
    Ok(())
}

/// Runs clients until they are stopped, and then until none waits for an answer any more.
pub(super) async fn run(clients: Vec<Client>, shared: Arc<Shared>, stop: Stop) -> anyhow::Result<()> {
    let asking = Rc::new(Cell::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for client in clients {
        let (shared, stop, asking) = (Arc::clone(&shared), stop.clone(), Rc::clone(&asking));
        tasks.spawn_local(async move { client.live(&shared, &stop, &asking).await });
    }
    while !stop.is_requested() || asking.get() > 0 {
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! Samples how many nodes answer for an address: one question every 10 ms, by ARP or neighbour discovery, and the nodes that
//! answer it before the next question.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};

use crate::{
    lab::Lab,
    neighbours::{Asker, Questions},
    running::{Running, Stop},
    topology::Mac,
};

/// Time from one question to the next; an answer counts for the question before it.
const QUESTION: Duration = Duration::from_millis(10);
/// A pause in which fewer answer ends no time of several answering, or of one: an answer may be lost, or late on a busy machine.
const PAUSE: Duration = Duration::from_millis(100);

/// A time in which several nodes answered for one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubled {
    /// The address.
    pub address: IpAddr,
    /// The first question with several answers.
    pub begin: Instant,
    /// The last one.
    pub end: Instant,
    /// Nodes that answered.
    pub nodes: BTreeSet<String>,
}

/// A node that alone answers for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alone {
    /// Its name.
    pub node: String,
    /// The first question since which it answered, and it alone; pauses like those in [`Doubled`] are none.
    pub since: Instant,
    /// The last one that was answered.
    last: Instant,
}

/// The node that was the last to answer alone for an address, whatever pauses there were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its name.
    pub node: String,
    /// Number of answers since the last sole answer of another node.
    pub answered: u64,
}

/// Results so far.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// The most nodes that answered one question, by address; 0 if none ever did.
    pub most: BTreeMap<IpAddr, usize>,
    /// The node that alone answered all recent questions, by address.
    pub alone: BTreeMap<IpAddr, Alone>,
    /// Nodes that answered the last question, by address.
    pub last: BTreeMap<IpAddr, BTreeSet<String>>,
    /// Times in which several nodes answered, the latest last.
    pub doubled: Vec<Doubled>,
    /// Number of times that the sole answer came from another node than the one before, by address.
    pub moves: BTreeMap<IpAddr, u32>,
    /// The last node that answered alone, by address.
    pub owners: BTreeMap<IpAddr, Owner>,
}

/// A running sampler. Dropping it ends it.
#[derive(Debug)]
pub struct Answering {
    seen: Arc<Mutex<Answers>>,
    running: Running<()>,
}

impl Lab {
    /// Sends questions for each of these addresses from host `client`. Only the nodes' answers count: foreign hosts may
    /// answer as they like.
    pub fn answering(&self, client: &str, addresses: &[IpAddr]) -> anyhow::Result<Answering> {
        let nodes = self.all_nodes().map(|node| (node.mac(), node.name().to_owned())).collect();
        self.answering_of(client, addresses, nodes, Rhythm::all_at_once(addresses))
    }

    /// Starts the same sampler for other nodes, and at another rate.
    pub(crate) fn answering_of(
        &self,
        client: &str,
        addresses: &[IpAddr],
        nodes: BTreeMap<Mac, String>,
        rhythm: Rhythm,
    ) -> anyhow::Result<Answering> {
        let asker = Asker::of(self.host(client)?);
        let sampler = Sampler { nodes, addresses: addresses.to_vec(), rhythm };
        let seen = Arc::new(Mutex::new(Answers::default()));
        let shared = Arc::clone(&seen);
        let running = Running::start(self, client, "answering", move |stop| {
            let questions = asker.open(sampler.addresses.iter().any(IpAddr::is_ipv6))?;
            sampler.ask_until(&questions, stop, &shared).context("asking who has an address")
        })?;
        Ok(Answering { seen, running })
    }
}

impl Answering {
    /// Returns the results so far, or an error once the sampler has failed.
    pub fn seen(&self) -> anyhow::Result<Answers> {
        ensure!(self.running.is_running(), "nobody asks any more");
        Ok(self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Stops the sampler and returns the results.
    pub fn stop(self) -> anyhow::Result<Answers> {
        self.running.stop()?;
        Ok(self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// Rate of the questions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rhythm {
    /// Number of addresses asked for together; further ones are asked for in turn.
    pub(crate) at_once: usize,
    /// Time until the next question. An answer counts if it arrives earlier.
    pub(crate) pause: Duration,
}

impl Rhythm {
    /// All of these each 10 ms.
    pub(crate) fn all_at_once(addresses: &[IpAddr]) -> Self {
        Self { at_once: addresses.len(), pause: QUESTION }
    }
}

struct Sampler {
    nodes: BTreeMap<Mac, String>,
    addresses: Vec<IpAddr>,
    rhythm: Rhythm,
}

impl Sampler {
    fn ask_until(&self, questions: &Questions, stop: &Stop, seen: &Mutex<Answers>) -> anyhow::Result<()> {
        let mut next = Instant::now();
        let chunks = self.addresses.chunks(self.rhythm.at_once.max(1)).cycle();
        for addresses in chunks.take_while(|_| !stop.is_requested()) {
            let asked = Instant::now();
            for address in addresses {
                questions.ask(*address);
            }
            next = (next + self.rhythm.pause).max(asked);
            let mut answers: BTreeMap<IpAddr, BTreeSet<String>> = BTreeMap::new();
            for (address, mac) in questions.answers_until(next)? {
                if let Some(node) = self.nodes.get(&mac) {
                    answers.entry(address).or_default().insert(node.clone());
                }
            }
            seen.lock().unwrap_or_else(PoisonError::into_inner).note(asked, addresses, answers);
        }
        Ok(())
    }
}

impl Answers {
    fn note(
        &mut self,
        asked: Instant,
        addresses: &[IpAddr],
        mut answers: BTreeMap<IpAddr, BTreeSet<String>>,
    ) {
        for address in addresses {
            let nodes = answers.remove(address).unwrap_or_default();
            let most = self.most.entry(*address).or_default();
            *most = nodes.len().max(*most);
            if nodes.len() > 1 {
                self.note_doubled(asked, *address, &nodes);
            }
            self.note_alone(asked, *address, &nodes);
            self.last.insert(*address, nodes);
        }
    }

    fn note_doubled(&mut self, asked: Instant, address: IpAddr, nodes: &BTreeSet<String>) {
        let latest = self.doubled.iter_mut().rev().find(|doubled| doubled.address == address);
        match latest {
            Some(doubled) if asked.saturating_duration_since(doubled.end) <= PAUSE => {
                doubled.end = asked;
                doubled.nodes.extend(nodes.iter().cloned());
            }
            Some(_) | None => {
                self.doubled.push(Doubled { address, begin: asked, end: asked, nodes: nodes.clone() });
            }
        }
    }

    fn note_alone(&mut self, asked: Instant, address: IpAddr, nodes: &BTreeSet<String>) {
        let only = nodes.first().filter(|_| nodes.len() == 1);
        if let Some(only) = only {
            self.note_owner(address, only);
        }
        match (only, self.alone.get_mut(&address)) {
            (Some(only), Some(before)) if before.node == *only => before.last = asked,
            (Some(only), _) => {
                self.alone.insert(address, Alone { node: only.clone(), since: asked, last: asked });
            }
            (None, Some(before))
                if nodes.is_empty() && asked.saturating_duration_since(before.last) <= PAUSE => {}
            (None, _) => drop(self.alone.remove(&address)),
        }
    }

    fn note_owner(&mut self, address: IpAddr, node: &str) {
        let new = || Owner { node: node.to_owned(), answered: 0 };
        let owner = self.owners.entry(address).or_insert_with(new);
        let has_moved = owner.node != node;
        if has_moved {
            *owner = new();
        }
        owner.answered += 1;
        *self.moves.entry(address).or_default() += u32::from(has_moved);
    }

    /// The times in which several answered more than one question. Of one question the node that had the address before may have
    /// been late with its answer to the question before that.
    pub fn lasting_doubled(&self) -> Vec<&Doubled> {
        self.doubled.iter().filter(|doubled| doubled.end > doubled.begin).collect()
    }

    /// The longest time in which several answered for one address.
    pub fn longest_doubled(&self) -> Duration {
        self.doubled.iter().map(Doubled::length).max().unwrap_or_default()
    }
}

impl Doubled {
    /// From the first question with several answers to when the last was answered, at most.
    pub fn length(&self) -> Duration {
        self.end.saturating_duration_since(self.begin) + QUESTION
    }
}

#[cfg(test)]
mod tests;

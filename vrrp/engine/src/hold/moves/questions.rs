//! Which nodes are asked whether they live, and what is known of that. Pure: kernel and clock come as arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use windlass_dataplane::marked_ways::NextHop;
use windlass_vrrp::Time;

#[cfg(test)]
mod tests;

/// Time in which a node has to answer one of several questions: less than the default interval of adverts, so that it is over when this
/// node takes over from a node that was asked when two adverts were missing. A kernel answers within about 1 ms, also while its processors
/// are busy: it does so at the interrupt, not as a process.
const ANSWER_LIMIT: Duration = Duration::from_millis(80);
/// Time between two questions: one may be lost.
const QUESTION_INTERVAL: Duration = Duration::from_millis(20);
/// Divisor of the time for which a node has been asked: the quotient is the pause until the next question.
const PART: u32 = 4;

/// Nodes that stopped sending.
#[derive(Debug, Default)]
pub(super) struct Questions {
    nodes: BTreeMap<NextHop, Question>,
}

#[derive(Clone, Copy, Debug)]
struct Question {
    since: Time,
    /// Time to look for an answer, and to ask again. `None`: it was not asked yet.
    due: Option<Time>,
    answered: bool,
}

impl Questions {
    /// Asks these nodes and no others. The records of others are removed.
    pub(super) fn ask_only(&mut self, hops: BTreeSet<NextHop>, now: Time) {
        self.nodes.retain(|hop, _| hops.contains(hop));
        for hop in hops {
            self.nodes.entry(hop).or_insert(Question { since: now, due: None, answered: false });
        }
    }

    /// Returns the nodes of which it is time to look for an answer and, if there is none, to ask; then [`Self::note`] is to be called.
    pub(super) fn open(&self, now: Time) -> Vec<NextHop> {
        let is_open = |question: &Question| !question.answered && question.due.is_none_or(|due| due <= now);
        self.nodes.iter().filter(|(_, question)| is_open(question)).map(|(hop, _)| *hop).collect()
    }

    /// Returns true if it was asked since it stopped sending: what the kernel knew of it before proves nothing.
    pub(super) fn is_asked(&self, hop: NextHop) -> bool {
        self.nodes.get(&hop).is_some_and(|question| question.due.is_some())
    }

    /// It has answered, or was asked once more.
    pub(super) fn note(&mut self, hop: NextHop, answered: bool, now: Time) {
        if let Some(question) = self.nodes.get_mut(&hop) {
            let part = now.since(question.since).checked_div(PART);
            let pause = part.map_or(QUESTION_INTERVAL, |part| part.max(QUESTION_INTERVAL));
            (question.answered, question.due) = (answered, Some(now + pause));
        }
    }

    /// Returns true if it lives; `None` while that is not known. A node that has answered, at any time since it stopped sending, lives.
    pub(super) fn lives(&self, hop: NextHop, now: Time) -> Option<bool> {
        let question = self.nodes.get(&hop)?;
        let is_known = question.answered || now >= question.since + ANSWER_LIMIT;
        is_known.then_some(question.answered)
    }

    /// Returns when [`Self::open`] or [`Self::lives`] change.
    pub(super) fn due(&self, now: Time) -> Option<Time> {
        let open = self.nodes.values().filter(|question| !question.answered);
        open.map(|question| question.due.unwrap_or(now).max(now)).min()
    }
}

//! Servers that live, by their answers to questions. Pure: kernel and clock come as arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use windlass_dataplane::marked_ways::NextHop;
use windlass_vrrp::Time;

#[cfg(test)]
mod tests;

/// Time between two questions to a server, in which it has to answer. A kernel answers within about 1 ms.
const QUESTION_INTERVAL: Duration = Duration::from_millis(80);
/// Questions in a row without an answer after which a server is out.
const UNANSWERED: u8 = 3;
/// Time for which a server answers again before its lots return to it: by then it passes on what began elsewhere, for which the hold thread
/// has to find the other nodes alive (`crate::hold`: two looks of a second).
const RETURN_DELAY: Duration = Duration::from_secs(3);
/// The same of a server that was out twice within [`FLAP_WINDOW`]; it doubles each further time.
const FLAP_DELAY: Duration = Duration::from_secs(30);
const LONGEST_FLAP_DELAY: Duration = Duration::from_mins(5);
/// Time for which servers are not asked after this node was cut off from all of them: the kernel asks hosts that it has lost once a second.
const GRACE: Duration = Duration::from_secs(2);
/// Time after which it is forgotten that a server was out.
const FLAP_WINDOW: Duration = Duration::from_mins(15);

/// Servers that are asked.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    servers: BTreeMap<NextHop, Server>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Server {
    /// Time of the last question.
    asked: Option<Time>,
    /// Questions in a row without an answer.
    unanswered: u8,
    /// Times that it was found silent, each within [`FLAP_WINDOW`] of the one before, and the last time.
    silences: u32,
    silent_at: Time,
    /// Time of the first answer after the last silence.
    back_at: Option<Time>,
}

impl Server {
    fn is_silent(&self) -> bool {
        self.silences > 0 && self.back_at.is_none()
    }

    /// Returns the time from which on it has its lots again.
    fn returns_at(&self) -> Option<Time> {
        Some(self.back_at? + return_delay(self.silences))
    }

    fn note(&mut self, answered: bool, now: Time) {
        if answered {
            self.unanswered = 0;
            self.back_at = self.back_at.or(Some(now)).filter(|_| self.silences > 0);
            return;
        }
        self.unanswered = self.unanswered.saturating_add(1);
        if self.unanswered >= UNANSWERED && !self.is_silent() {
            let before = if now < self.silent_at + FLAP_WINDOW { self.silences } else { 0 };
            (self.silences, self.silent_at, self.back_at) = (before.saturating_add(1), now, None);
        }
    }
}

impl Liveness {
    /// Asks these servers and no others. What is known of others is removed.
    pub(super) fn ask_only(&mut self, hops: &BTreeSet<NextHop>) {
        self.servers.retain(|hop, _| hops.contains(hop));
        for hop in hops {
            self.servers.entry(*hop).or_default();
        }
    }

    /// Returns the servers that it is time to ask, each with true if an answer to an earlier question is due; then [`Self::note`] is to be
    /// called.
    pub(super) fn open(&self, now: Time) -> Vec<(NextHop, bool)> {
        let is_open = |server: &Server| server.asked.is_none_or(|asked| now >= asked + QUESTION_INTERVAL);
        let open = self.servers.iter().filter(|(_, server)| is_open(server));
        open.map(|(hop, server)| (*hop, server.asked.is_some())).collect()
    }

    /// Records that the server was asked now, and whether it had answered the question before; `None`: that is unknown.
    pub(super) fn note(&mut self, hop: NextHop, answered: Option<bool>, now: Time) {
        if answered == Some(true) && self.is_cut_off() && self.has_several() {
            // Not they, but this node was cut off.
            for server in self.servers.values_mut() {
                *server = Server { asked: Some(now + GRACE), ..Server::default() };
            }
            return;
        }
        if let Some(server) = self.servers.get_mut(&hop) {
            server.asked = Some(now);
            if let Some(answered) = answered {
                server.note(answered, now);
            }
        }
    }

    /// Returns the servers that do not answer.
    pub(super) fn silent(&self) -> BTreeSet<IpAddr> {
        self.those(Server::is_silent)
    }

    /// Returns the servers that answer again, and do not have their lots yet.
    pub(super) fn returning(&self, now: Time) -> BTreeSet<IpAddr> {
        self.those(|server| server.returns_at().is_some_and(|time| now < time))
    }

    /// Returns true if no server answers: this node may be the one that is cut off.
    pub(super) fn is_cut_off(&self) -> bool {
        !self.servers.is_empty() && self.servers.values().all(Server::is_silent)
    }

    /// Returns true if servers are several nodes, of which each has an address of a family at most.
    fn has_several(&self) -> bool {
        let v4 = self.servers.keys().filter(|hop| hop.address.is_ipv4()).count();
        v4.max(self.servers.len().saturating_sub(v4)) > 1
    }

    /// Returns when there is a server to ask.
    pub(super) fn due(&self) -> Option<Time> {
        let due = |server: &Server| server.asked.map_or(Time::default(), |asked| asked + QUESTION_INTERVAL);
        self.servers.values().map(due).min()
    }

    fn those(&self, is: impl Fn(&Server) -> bool) -> BTreeSet<IpAddr> {
        self.servers.iter().filter(|(_, server)| is(server)).map(|(hop, _)| hop.address).collect()
    }
}

fn return_delay(silences: u32) -> Duration {
    match silences.checked_sub(2) {
        None => RETURN_DELAY,
        Some(more) => FLAP_DELAY.saturating_mul(2_u32.saturating_pow(more)).min(LONGEST_FLAP_DELAY),
    }
}

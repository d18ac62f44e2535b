//! Servers to which packets from clients pass, by their answers. Pure: clock and random numbers come as arguments.
//!
//! A hypervisor or a switch may drop frames whose source is not an address of their sender. A server is asked twice at a time, from this
//! node's own address and from one that stands for a client's, and answers from its own address and from the shared one. A server that
//! answers the first question again and again and never the second one is *filtered*. One that answers neither is not judged: it may be
//! frozen, or too old to answer.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use windlass_dataplane::marked_ways::NextHop;
use windlass_kernel::sockets::Mac;
use windlass_vrrp::{Family, Time};

pub(super) mod message;
#[cfg(test)]
mod tests;

use message::Message;

/// Time between two questions to a server.
const QUESTION_INTERVAL: Duration = Duration::from_secs(10);
/// The same while a server has answered the first question alone. An idle server reads questions once a second.
const DOUBT_INTERVAL: Duration = Duration::from_secs(3);
/// Questions in a row of which the first alone was answered, after which a server is filtered. Loss alone hardly causes so many.
const UNPROVED: u8 = 4;

/// Servers that are asked.
#[derive(Debug, Default)]
pub(super) struct Proof {
    servers: BTreeMap<NextHop, Server>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Server {
    mac: Mac,
    /// Time and number of the last question.
    asked: Option<(Time, u64)>,
    /// Answers to it: from the server's own address, and from the shared one.
    has_answered: bool,
    has_proved: bool,
    /// Questions in a row, before the last one, of which the first alone was answered.
    unproved: u8,
    is_filtered: bool,
}

impl Server {
    /// True if the last question makes a filter likely.
    fn is_doubtful(&self) -> bool {
        self.has_answered && !self.has_proved
    }

    fn due(&self) -> Time {
        let interval =
            if self.is_doubtful() && !self.is_filtered { DOUBT_INTERVAL } else { QUESTION_INTERVAL };
        self.asked.map_or(Time::default(), |(asked, _)| asked + interval)
    }
}

impl Proof {
    /// Asks these servers and no others. What is known of others, and of servers whose link-layer address is another now, is removed.
    pub(super) fn ask_only(&mut self, servers: &BTreeMap<NextHop, Mac>) {
        self.servers.retain(|hop, server| servers.get(hop) == Some(&server.mac));
        for (hop, mac) in servers {
            self.servers.entry(*hop).or_insert_with(|| Server { mac: *mac, ..Server::default() });
        }
    }

    /// Judges the answers of the servers that it is time to ask, and returns these servers. Each is to be asked with its number, which `draw`
    /// returns.
    pub(super) fn ask(&mut self, now: Time, draw: impl Fn() -> u64) -> Vec<(NextHop, Mac, u64)> {
        let due = self.servers.iter_mut().filter(|(_, server)| server.due() <= now);
        let ask = |(hop, server): (&NextHop, &mut Server)| {
            if server.is_doubtful() {
                server.unproved = server.unproved.saturating_add(1);
                server.is_filtered |= server.unproved >= UNPROVED;
            }
            let nonce = draw();
            (server.asked, server.has_answered, server.has_proved) = (Some((now, nonce)), false, false);
            (*hop, server.mac, nonce)
        };
        due.map(ask).collect()
    }

    /// Records an answer that arrived by this interface. Only that of the server that was asked counts, to its last question.
    pub(super) fn note(&mut self, interface: u32, answer: &Message) {
        let family = Family::of(answer.destination);
        let is_asked = |(hop, server): &(&NextHop, &mut Server)| {
            let is_server = hop.interface == interface && Family::of(hop.address) == family;
            is_server
                && server.mac == answer.from
                && server.asked.is_some_and(|(_, nonce)| nonce == answer.nonce)
        };
        let Some((hop, server)) = self.servers.iter_mut().find(is_asked) else { return };
        server.has_answered |= answer.source == hop.address;
        if answer.source == answer.shared {
            (server.has_proved, server.unproved, server.is_filtered) = (true, 0, false);
        }
    }

    /// Returns the servers to which packets from clients do not pass, or from which answers do not.
    pub(super) fn filtered(&self) -> BTreeSet<IpAddr> {
        let filtered = self.servers.iter().filter(|(_, server)| server.is_filtered);
        filtered.map(|(hop, _)| hop.address).collect()
    }
}

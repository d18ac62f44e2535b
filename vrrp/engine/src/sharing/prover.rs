//! Tests the paths to the servers of shared addresses, and answers other nodes that test theirs to this one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, UdpSocket};

use windlass_dataplane::marked_ways::NextHop;
use windlass_dataplane::sharing::{Shares, SharingLink};
use windlass_kernel::interfaces::Interfaces;
use windlass_kernel::sockets::{Mac, PathSocket, is_empty};
use windlass_vrrp::{Family, Time};

use super::proof::Proof;
use super::proof::message::{FRAMES, Message, PORT};
use crate::replication::draw;

/// Most frames of an interface that are read in a round: a flood takes no more of the thread.
const AT_ONCE: usize = 512;

/// Sockets, and the servers that are asked.
#[derive(Default)]
pub(super) struct Prover {
    proof: Proof,
    /// Sockets by the index of their interface.
    sockets: BTreeMap<u32, PathSocket>,
    /// Socket to which the kernel delivers what [`Self::sockets`] receive too: without it, it would send ICMP errors.
    sink: Option<UdpSocket>,
    filtered: BTreeSet<IpAddr>,
}

impl Prover {
    /// Reads what has arrived, answers questions, and asks the servers, of which each has lots of one of these addresses at least.
    pub(super) fn round(
        &mut self,
        servers: &BTreeMap<IpAddr, IpAddr>,
        shares: &Shares,
        links: &BTreeMap<String, SharingLink>,
        interfaces: &Interfaces,
        now: Time,
    ) {
        self.open(links);
        let is_shared = |address: &IpAddr| shares.has(*address);
        for link in links.values() {
            self.receive(link, is_shared);
        }
        let asked = links.values().flat_map(|link| {
            let asked = link.peers.iter().filter(|(peer, _)| servers.contains_key(*peer));
            asked.map(|(peer, mac)| (NextHop { interface: link.index, address: *peer }, *mac))
        });
        self.proof.ask_only(&asked.collect());
        for (hop, to, nonce) in self.proof.ask(now, draw) {
            let link = links.iter().find(|(_, link)| link.index == hop.interface);
            let Some((name, link)) = link else { continue };
            let from: Option<Mac> = interfaces.get(name).map(|info| info.mac);
            let own = link.own.iter().find(|own| Family::of(**own) == Family::of(hop.address));
            let (Some(from), Some(source), Some(vip)) = (from, own, servers.get(&hop.address)) else {
                continue;
            };
            let message = Message {
                to,
                from,
                source: *source,
                destination: hop.address,
                is_answer: false,
                nonce,
                shared: *vip,
            };
            message.questions().iter().for_each(|question| self.send(link.index, question));
        }
        self.report();
    }

    /// Returns the servers to which packets from clients do not pass.
    pub(super) fn filtered(&self) -> &BTreeSet<IpAddr> {
        &self.filtered
    }

    fn open(&mut self, links: &BTreeMap<String, SharingLink>) {
        self.sockets.retain(|index, _| links.values().any(|link| link.index == *index));
        for (name, link) in links {
            if self.sockets.contains_key(&link.index) {
                continue;
            }
            match PathSocket::open(link.index, PORT, FRAMES) {
                Ok(socket) => drop(self.sockets.insert(link.index, socket)),
                Err(error) => tracing::debug!(%error, name, "cannot test the paths to other nodes"),
            }
        }
        if self.sink.is_none() {
            let any = [IpAddr::from([0_u8; 16]), IpAddr::from([0_u8; 4])];
            self.sink = any.into_iter().find_map(|any| UdpSocket::bind((any, PORT)).ok());
            self.sink.take_if(|sink| sink.set_nonblocking(true).is_err());
        }
        if let Some(sink) = &self.sink {
            (0..AT_ONCE).take_while(|_| sink.recv(&mut [0]).is_ok()).for_each(drop);
        }
    }

    fn receive(&mut self, link: &SharingLink, is_shared: impl Fn(&IpAddr) -> bool) {
        for family in [Family::V4, Family::V6] {
            for _ in 0..AT_ONCE {
                let mut buffer = [0; 128];
                let Some(socket) = self.sockets.get(&link.index) else { return };
                let length = match socket.receive(family, &mut buffer) {
                    Ok(length) => length,
                    Err(error) if is_empty(&error) => break,
                    // The interface was down: what arrives from now on is read.
                    Err(_) => continue,
                };
                let message = buffer.get(..length).and_then(|frame| Message::read(family, frame));
                match message {
                    Some(answer) if answer.is_answer => self.proof.note(link.index, &answer),
                    Some(question) => {
                        if let Some(answer) = question.answer(link, &is_shared) {
                            self.send(link.index, &answer);
                        }
                    }
                    None => {}
                }
            }
        }
    }

    /// Sends a message. One that cannot be sent is lost.
    fn send(&self, interface: u32, message: &Message) {
        let (Some(socket), Some(frame)) = (self.sockets.get(&interface), message.write()) else { return };
        if let Err(error) = socket.send(Family::of(message.destination), &frame) {
            tracing::debug!(%error, to = %message.destination, "cannot test the path to a node");
        }
    }

    fn report(&mut self) {
        let filtered = self.proof.filtered();
        for server in filtered.difference(&self.filtered) {
            tracing::warn!(
                %server,
                "packets with a client's source address do not pass to a server of shared addresses, or its answers do not pass back: \
                 other nodes serve its lots"
            );
        }
        for server in self.filtered.difference(&filtered) {
            tracing::info!(%server, "packets from clients pass to a server of shared addresses again, or it is asked no more");
        }
        self.filtered = filtered;
    }
}

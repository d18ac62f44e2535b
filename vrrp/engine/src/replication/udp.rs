//! The sockets by which nodes tell each other connections.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use windlass_vrrp::Time;
use windlass_vrrp::replication::MAX_DATAGRAM;

use super::plan::{Ends, SharingPlan};
use crate::{clock, receive_buffer};

/// Room for what comes while this thread waits for the kernel: a window of each of some peers.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Datagrams of one round, of each socket.
const AT_ONCE: usize = 256;
/// Time until the next try to open a socket.
const RETRY: Duration = Duration::from_secs(1);

/// One for each address of this node from which something is told.
pub(super) struct UdpSockets {
    port: u16,
    sockets: BTreeMap<(IpAddr, u32), UdpSocket>,
    /// Why one cannot be opened, and when that is tried again.
    refused: Option<(Time, String)>,
}

impl UdpSockets {
    pub(super) fn new(port: u16) -> Self {
        Self { port, sockets: BTreeMap::new(), refused: None }
    }

    /// A number that nobody can guess.
    pub(super) fn draw() -> u64 {
        let mut bytes = [0; 8];
        // It is there on every Linux; where it is not, numbers that were used before are told from new ones by their epochs.
        match File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)) {
            Ok(()) => u64::from_ne_bytes(bytes),
            Err(_) => clock::wall_nanos(),
        }
    }

    /// Opens those that are needed for these sessions, and closes the others.
    pub(super) fn open<'a>(&mut self, ends: impl Iterator<Item = &'a Ends>, now: Time) {
        let needed: BTreeSet<(IpAddr, u32)> = ends.map(|ends| (ends.own, ends.interface)).collect();
        self.sockets.retain(|own, _| needed.contains(own));
        if self.refused.as_ref().is_some_and(|(retry, _)| now < *retry) {
            return;
        }
        self.refused = None;
        for (own, interface) in needed {
            if self.sockets.contains_key(&(own, interface)) {
                continue;
            }
            match bind(at(own, interface, self.port)) {
                Ok(socket) => drop(self.sockets.insert((own, interface), socket)),
                Err(error) => {
                    let reason = format!(
                        "cannot receive connections of peers on {own}, UDP port {}: {error}: free the port or choose another for \
                         all nodes",
                        self.port
                    );
                    self.refused = Some((now + RETRY, reason));
                }
            }
        }
    }

    /// Why one cannot be opened.
    pub(super) fn error(&self) -> Option<String> {
        self.refused.as_ref().map(|(_, reason)| reason.clone())
    }

    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.values().map(AsFd::as_fd)
    }

    /// What came from the peers of this plan; from others nothing is taken.
    pub(super) fn receive(&self, plan: &SharingPlan) -> Vec<(Ends, Vec<u8>)> {
        let mut received = Vec::new();
        let mut buffer = [0; MAX_DATAGRAM + 1];
        for ((own, interface), socket) in &self.sockets {
            for _ in 0..AT_ONCE {
                let Ok((length, from)) = socket.recv_from(&mut buffer) else { break };
                let ends = Ends { own: *own, interface: *interface, peer: from.ip() };
                if from.port() == self.port && plan.peers.contains_key(&ends) {
                    received.push((ends, buffer[..length].to_vec()));
                }
            }
        }
        received
    }

    /// Sends a datagram. What the kernel does not take is as if it had been lost on the way.
    pub(super) fn send(&self, ends: Ends, datagram: &[u8]) {
        if let Some(socket) = self.sockets.get(&(ends.own, ends.interface)) {
            let _ = socket.send_to(datagram, at(ends.peer, ends.interface, self.port));
        }
    }
}

fn bind(own: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(own)?;
    socket.set_nonblocking(true)?;
    receive_buffer::enlarge(&socket, RECEIVE_BUFFER)?;
    Ok(socket)
}

/// An address with the port; the interface is part of a link-local one.
fn at(address: IpAddr, interface: u32, port: u16) -> SocketAddr {
    match address {
        IpAddr::V6(address) if address.is_unicast_link_local() => {
            SocketAddrV6::new(address, port, 0, interface).into()
        }
        address => (address, port).into(),
    }
}

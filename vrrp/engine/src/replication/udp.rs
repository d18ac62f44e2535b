//! Sockets by which nodes exchange connections.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::net::if_::if_indextoname;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use windlass_kernel::{clock, receive_buffer};
use windlass_vrrp::replication::MAX_DATAGRAM;
use windlass_vrrp::{Family, Time};

use super::plan::{Ends, SharingPlan};

mod filter;

/// Room for datagrams that arrive while this thread waits for the kernel: a window of each of some peers.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Datagrams of one round, of each socket.
const AT_ONCE: usize = 256;
/// Time until the next try to open a socket.
const RETRY: Duration = Duration::from_secs(1);
/// Hop limit of all datagrams (RFC 5082): with a smaller one they crossed a router, and no peer sent them.
const HOPS: u8 = 255;

/// Sockets, one for each address of this node from which it sends.
pub(super) struct UdpSockets {
    port: u16,
    sockets: BTreeMap<(IpAddr, u32), PeerSocket>,
    /// Reason why one cannot be opened, and time of the next try.
    refused: Option<(Time, String)>,
}

/// A socket of one address, on one interface.
struct PeerSocket {
    socket: UdpSocket,
    /// The peers that its filter lets through.
    peers: BTreeSet<IpAddr>,
}

/// Draws a number that no host can guess.
pub(crate) fn draw() -> u64 {
    let mut bytes = [0; 8];
    // It is there on every Linux; where it is not, numbers that were used before are told from new ones by their epochs.
    match File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => clock::wall_nanos(),
    }
}

impl UdpSockets {
    pub(super) fn new(port: u16) -> Self {
        Self { port, sockets: BTreeMap::new(), refused: None }
    }

    /// Opens the sockets that these sessions need, has each take datagrams of its peers only, and closes the others.
    pub(super) fn open<'a>(&mut self, ends: impl Iterator<Item = &'a Ends>, now: Time) {
        let mut needed: BTreeMap<(IpAddr, u32), BTreeSet<IpAddr>> = BTreeMap::new();
        for ends in ends {
            needed.entry((ends.own, ends.interface)).or_default().insert(ends.peer);
        }
        self.sockets.retain(|own, _| needed.contains_key(own));
        if self.refused.as_ref().is_some_and(|(retry, _)| now < *retry) {
            return;
        }
        self.refused = None;
        for ((own, interface), peers) in needed {
            let outcome = match self.sockets.get_mut(&(own, interface)) {
                Some(socket) => socket.take_from(own, self.port, peers),
                None => PeerSocket::open(own, interface, self.port, peers)
                    .map(|socket| drop(self.sockets.insert((own, interface), socket))),
            };
            if let Err(error) = outcome {
                let reason = format!(
                    "cannot receive connections of peers on {own}, UDP port {}: {error}: free the port or choose another for \
                     all nodes",
                    self.port
                );
                self.refused = Some((now + RETRY, reason));
            }
        }
    }

    /// Returns the reason why one cannot be opened.
    pub(super) fn error(&self) -> Option<String> {
        self.refused.as_ref().map(|(_, reason)| reason.clone())
    }

    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.values().map(|socket| socket.socket.as_fd())
    }

    /// Returns the datagrams of the peers in this plan; nothing is taken from others.
    pub(super) fn receive(&self, plan: &SharingPlan) -> Vec<(Ends, Vec<u8>)> {
        let mut received = Vec::new();
        let mut buffer = [0; MAX_DATAGRAM + 1];
        for ((own, interface), socket) in &self.sockets {
            for _ in 0..AT_ONCE {
                let Ok((length, from)) = socket.socket.recv_from(&mut buffer) else { break };
                let ends = Ends { own: *own, interface: *interface, peer: from.ip() };
                if from.port() == self.port && plan.peers.contains_key(&ends) {
                    received.push((ends, buffer[..length].to_vec()));
                }
            }
        }
        received
    }

    /// Sends a datagram. One that the kernel does not take counts as lost on the way.
    pub(super) fn send(&self, ends: Ends, datagram: &[u8]) {
        if let Some(socket) = self.sockets.get(&(ends.own, ends.interface)) {
            let _ = socket.socket.send_to(datagram, at(ends.peer, ends.interface, self.port));
        }
    }
}

impl PeerSocket {
    /// Opens it on its interface alone, so that what another one receives for the address does not count.
    fn open(own: IpAddr, interface: u32, port: u16, peers: BTreeSet<IpAddr>) -> io::Result<Self> {
        let family = Family::of(own);
        let domain = match family {
            Family::V4 => Domain::IPV4,
            Family::V6 => Domain::IPV6,
        };
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        socket.attach_filter(&filter::program(family, port, &peers))?;
        socket.bind_device(Some(if_indextoname(interface)?.to_bytes()))?;
        match family {
            Family::V4 => socket.set_ttl_v4(HOPS.into())?,
            Family::V6 => socket.set_unicast_hops_v6(HOPS.into())?,
        }
        socket.set_nonblocking(true)?;
        receive_buffer::enlarge(&socket, RECEIVE_BUFFER)?;
        socket.bind(&at(own, interface, port).into())?;
        Ok(Self { socket: socket.into(), peers })
    }

    /// Has it take datagrams of these peers only.
    fn take_from(&mut self, own: IpAddr, port: u16, peers: BTreeSet<IpAddr>) -> io::Result<()> {
        if peers != self.peers {
            let program = filter::program(Family::of(own), port, &peers);
            SockRef::from(&self.socket).attach_filter(&program)?;
            self.peers = peers;
        }
        Ok(())
    }
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

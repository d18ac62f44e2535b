//! Finds the nodes that answer for an address on the LAN, as a client receives the answers: ARP for IPv4, neighbour discovery for IPv6.

use std::{
    io::{ErrorKind, Read as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV6},
    os::fd::{AsFd as _, AsRawFd as _},
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow};
use nix::{
    ifaddrs::getifaddrs,
    poll::{PollFd, PollFlags, ppoll},
    sys::socket::{LinkAddr, MsgFlags, sendto},
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{
    lab::Lab,
    sandbox::Entrance,
    topology::{Host, Mac},
};

/// Time for which answers are received after each of two questions. What answers is in the same kernel.
const PATIENCE: Duration = Duration::from_millis(200);
/// ETH_P_ARP, in the order of the network.
const ETH_P_ARP: i32 = 0x0806_u16.to_be() as i32;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOURCE_LINK_LAYER_ADDRESS: u8 = 1;
const TARGET_LINK_LAYER_ADDRESS: u8 = 2;
/// Flags of an advertisement.
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

impl Lab {
    /// Returns every distinct link-layer address that answers for `address`, after two questions from host `client` to all
    /// hosts. Takes 0.4 s. Without an answer the list is empty.
    pub async fn neighbours(&self, client: &str, address: IpAddr) -> anyhow::Result<Vec<Mac>> {
        let entrance = Entrance::new(&self.sandbox, client)?;
        let asker = Asker::of(self.host(client)?);
        // A thread of its own: it enters another network namespace, and it waits.
        let answers = tokio::task::spawn_blocking(move || {
            std::thread::spawn(move || {
                entrance.enter()?;
                asker.open(address.is_ipv6())?.ask_twice(address)
            })
            .join()
        });
        let macs = answers.await?.map_err(|_| anyhow!("asking for a neighbour panicked"))?;
        macs.with_context(|| format!("asking on {client} who has {address}"))
    }

    /// Lets host `client` announce `address` to all hosts, unsolicited, whether it has the address or not.
    pub async fn claim(&self, client: &str, address: IpAddr) -> anyhow::Result<()> {
        match address {
            IpAddr::V4(address) => {
                let claim = format!("arping -U -c 2 -I eth0 -s {address} {address} || true");
                self.exec(client, &["sh", "-c", &claim]).await.map(drop)
            }
            IpAddr::V6(address) => {
                let packet = advertisement(address, self.host(client)?.mac());
                self.within(client, || {
                    let (socket, interface) = socket()?;
                    let all = SocketAddrV6::new(ALL_NODES, 0, 0, interface);
                    socket.send_to(&packet, &all.into()).context("advertising")
                })?
                .map(drop)
            }
        }
    }
}

/// A host that asks who has an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub(crate) mac: Mac,
    pub(crate) address: Ipv4Addr,
}

/// Its open sockets.
#[derive(Debug)]
pub(crate) struct Questions {
    asker: Asker,
    arp: Socket,
    eth0: LinkAddr,
    discovery: Option<(Socket, u32)>,
}

impl Asker {
    pub(crate) fn of(host: &Host) -> Self {
        Self { mac: host.mac(), address: host.address }
    }

    /// Opens its sockets, in the network namespace of the calling thread. (A machine may have no IPv6: it is for who asks by it.)
    pub(crate) fn open(self, asks_v6: bool) -> anyhow::Result<Questions> {
        let arp = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(ETH_P_ARP)))?;
        let discovery = asks_v6.then(socket).transpose()?;
        for socket in std::iter::once(&arp).chain(discovery.as_ref().map(|(socket, _)| socket)) {
            socket.set_nonblocking(true)?;
        }
        Ok(Questions { asker: self, arp, eth0: link("eth0")?, discovery })
    }

    /// Builds a broadcast ARP request for `address`, to be answered to this host.
    fn question(self, address: Ipv4Addr) -> Vec<u8> {
        let mut frame = vec![0xff; 6];
        frame.extend(self.mac.0);
        // ARP (0806) about IPv4 on Ethernet, operation 1.
        frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        frame.extend(self.mac.0);
        frame.extend(self.address.octets());
        frame.extend([0; 6]);
        frame.extend(address.octets());
        frame
    }

    /// Returns the address and its holder from an answer to this host. Announcements do not count: they go to all hosts.
    fn answer(self, frame: &[u8]) -> Option<(IpAddr, Mac)> {
        let (ethernet, arp) = frame.split_at_checked(14)?;
        if ethernet[..6] != self.mac.0 || ethernet[12..] != [8, 6] || arp.get(6..8)? != [0, 2] {
            return None;
        }
        let mac: [u8; 6] = arp.get(8..14)?.try_into().ok()?;
        let address: [u8; 4] = arp.get(14..18)?.try_into().ok()?;
        Some((address.into(), Mac(mac)))
    }
}

impl Questions {
    /// Sends one question to all hosts. (A queue that is full is a question that was lost.)
    pub(crate) fn ask(&self, address: IpAddr) {
        match (address, &self.discovery) {
            (IpAddr::V4(address), _) => {
                let question = self.asker.question(address);
                let _ = sendto(self.arp.as_raw_fd(), &question, &self.eth0, MsgFlags::empty());
            }
            (IpAddr::V6(address), Some((socket, interface))) => {
                let group = SocketAddrV6::new(solicited_node(address), 0, 0, *interface);
                let _ = socket.send_to(&solicitation(address, self.asker.mac), &group.into());
            }
            (IpAddr::V6(_), None) => {}
        }
    }

    /// Collects the answers to this host until `end`: addresses, and who has them.
    pub(crate) fn answers_until(&self, end: Instant) -> anyhow::Result<Vec<(IpAddr, Mac)>> {
        let mut answers = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(answers);
            }
            let discovery = self.discovery.as_ref().map(|(socket, _)| socket);
            let sockets = std::iter::once(&self.arp).chain(discovery);
            let mut waits: Vec<PollFd<'_>> =
                sockets.map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN)).collect();
            // What ends it early is looked at again.
            let _ = ppoll(&mut waits, Some(left.into()), None);
            while let Some(frame) = received(&self.arp)? {
                answers.extend(self.asker.answer(&frame));
            }
            while let Some(packet) = discovery.map(received).transpose()?.flatten() {
                answers.extend(solicited(&packet));
            }
        }
    }

    fn ask_twice(&self, address: IpAddr) -> anyhow::Result<Vec<Mac>> {
        let mut macs = Vec::new();
        for _ in 0..2 {
            self.ask(address);
            let answers = self.answers_until(Instant::now() + PATIENCE)?;
            macs.extend(answers.into_iter().filter(|(of, _)| *of == address).map(|(_, mac)| mac));
        }
        macs.sort_unstable();
        macs.dedup();
        Ok(macs)
    }
}

/// Returns the address and its holder from a solicited neighbour advertisement. Announcements do not count: they go to all hosts.
fn solicited(packet: &[u8]) -> Option<(IpAddr, Mac)> {
    let told = advertised(packet).filter(|told| told.solicited)?;
    Some((told.address.into(), told.mac))
}

/// Reads the next packet from a socket; `None` if none is waiting.
fn received(mut socket: &Socket) -> anyhow::Result<Option<Vec<u8>>> {
    let mut packet = [0; 128];
    match socket.read(&mut packet) {
        Ok(length) => Ok(Some(packet[..length].to_vec())),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error).context("listening to answers"),
    }
}

/// The link-layer address of an interface of this network namespace.
fn link(name: &str) -> anyhow::Result<LinkAddr> {
    let mut entries = getifaddrs()?.filter(|entry| entry.interface_name == name);
    let link = entries.find_map(|entry| entry.address?.as_link_addr().copied());
    link.with_context(|| format!("this host has no {name}"))
}

/// A socket of this host to ask and to be answered with, and the number of `eth0`.
fn socket() -> anyhow::Result<(Socket, u32)> {
    let interface = nix::net::if_::if_nametoindex("eth0").context("this host has no eth0")?;
    let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6))?;
    // Receivers drop what has been forwarded. The kernel writes the checksum.
    socket.set_multicast_hops_v6(255)?;
    socket.set_multicast_if_v6(interface)?;
    Ok((socket, interface))
}

/// The group that every host with `address` is a member of (RFC 4291 §2.7.1).
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (high & 0xff), low)
}

/// A question for `address` from the host with this link-layer address.
fn solicitation(address: Ipv6Addr, own: Mac) -> Vec<u8> {
    message(SOLICITATION, 0, address, SOURCE_LINK_LAYER_ADDRESS, own)
}

/// Builds an unsolicited advertisement: `address` is at this link-layer address now.
fn advertisement(address: Ipv6Addr, own: Mac) -> Vec<u8> {
    message(ADVERTISEMENT, OVERRIDE, address, TARGET_LINK_LAYER_ADDRESS, own)
}

fn message(kind: u8, flags: u8, address: Ipv6Addr, option: u8, mac: Mac) -> Vec<u8> {
    let mut packet = vec![kind, 0, 0, 0, flags, 0, 0, 0];
    packet.extend(address.octets());
    packet.extend([option, 1]); // in units of 8 octets
    packet.extend(mac.0);
    packet
}

/// Content of an advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Advertised {
    address: Ipv6Addr,
    mac: Mac,
    /// True if it answers a solicitation.
    solicited: bool,
}

/// Reads an advertisement; `None` for anything else.
fn advertised(packet: &[u8]) -> Option<Advertised> {
    let (head, mut options) = packet.split_at_checked(24)?;
    if head[0] != ADVERTISEMENT {
        return None;
    }
    let address = <[u8; 16]>::try_from(&head[8..]).ok()?.into();
    while let &[kind, units, ..] = options {
        let (option, rest) = options.split_at_checked(usize::from(units.max(1)) * 8)?;
        if kind == TARGET_LINK_LAYER_ADDRESS {
            let mac = Mac(option.get(2..8)?.try_into().ok()?);
            return Some(Advertised { address, mac, solicited: head[4] & SOLICITED != 0 });
        }
        options = rest;
    }
    None
}

#[cfg(test)]
mod tests;

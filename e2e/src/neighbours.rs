//! Finds the nodes that answer for an address on the LAN, as a client receives the answers: ARP for IPv4, neighbour discovery for IPv6.

use std::{
    io::{ErrorKind, Read as _},
    net::{IpAddr, Ipv6Addr, SocketAddrV6},
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{lab::Lab, sandbox::Entrance, topology::Mac};

/// Time for which answers are received after each of two solicitations.
const PATIENCE: Duration = Duration::from_millis(500);
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOURCE_LINK_LAYER_ADDRESS: u8 = 1;
const TARGET_LINK_LAYER_ADDRESS: u8 = 2;
/// Flags of an advertisement.
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

impl Lab {
    /// Returns every distinct link-layer address that answers for `address`, after two multicast questions from host
    /// `client`. Takes 1 or 2 s. Without an answer the list is empty.
    pub async fn neighbours(&self, client: &str, address: IpAddr) -> anyhow::Result<Vec<Mac>> {
        match address {
            IpAddr::V4(address) => self.arping(client, address).await,
            IpAddr::V6(address) => {
                let entrance = Entrance::new(&self.sandbox, client)?;
                let mac = self.host(client)?.mac();
                // A thread of its own: it enters another network namespace, and it waits.
                let asked = tokio::task::spawn_blocking(move || {
                    std::thread::spawn(move || {
                        entrance.enter()?;
                        solicit(address, mac)
                    })
                    .join()
                });
                let macs = asked.await?.map_err(|_| anyhow!("asking for a neighbour panicked"))?;
                macs.with_context(|| format!("asking on {client} who has {address}"))
            }
        }
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

/// A socket of this host to ask and to be answered with, and the number of `eth0`.
pub(crate) fn socket() -> anyhow::Result<(Socket, u32)> {
    let interface = nix::net::if_::if_nametoindex("eth0").context("this host has no eth0")?;
    let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6))?;
    // Receivers drop what has been forwarded. The kernel writes the checksum.
    socket.set_multicast_hops_v6(255)?;
    socket.set_multicast_if_v6(interface)?;
    Ok((socket, interface))
}

/// Sends two solicitations for `address` (RFC 4861 §7.2.2) and collects the answers.
fn solicit(address: Ipv6Addr, own: Mac) -> anyhow::Result<Vec<Mac>> {
    let (socket, interface) = socket()?;
    let group = SocketAddrV6::new(solicited_node(address), 0, 0, interface);
    let question = solicitation(address, own);
    let mut macs = Vec::new();
    for _ in 0..2 {
        socket.send_to(&question, &group.into())?;
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            socket.set_read_timeout(Some(left))?;
            let mut packet = [0; 1500];
            match (&socket).read(&mut packet) {
                Ok(length) => {
                    let told = advertised(&packet[..length]).filter(|told| told.address == address);
                    macs.extend(told.map(|told| told.mac));
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                Err(error) => return Err(error).context("listening to neighbour advertisements"),
            }
        }
    }
    macs.sort_unstable();
    macs.dedup();
    Ok(macs)
}

/// The group that every host with `address` is a member of (RFC 4291 §2.7.1).
pub(crate) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (high & 0xff), low)
}

/// A question for `address` from the host with this link-layer address.
pub(crate) fn solicitation(address: Ipv6Addr, own: Mac) -> Vec<u8> {
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
pub(crate) struct Advertised {
    pub(crate) address: Ipv6Addr,
    pub(crate) mac: Mac,
    /// True if it answers a solicitation.
    pub(crate) solicited: bool,
}

/// Reads an advertisement; `None` for anything else.
pub(crate) fn advertised(packet: &[u8]) -> Option<Advertised> {
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

//! Who answers for an address on the LAN, as a client hears it: ARP for IPv4, neighbour discovery for IPv6.

use std::{
    io::{ErrorKind, Read as _},
    net::{IpAddr, Ipv6Addr, SocketAddrV6},
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{lab::Lab, sandbox::Entrance, topology::Mac};

/// How long answers are listened to after each of two solicitations.
const PATIENCE: Duration = Duration::from_millis(500);
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const TARGET_LINK_LAYER_ADDRESS: u8 = 2;

impl Lab {
    /// Who answers for `address`: two questions by multicast from host `client`, every distinct link-layer address that
    /// answers either. Takes 1 or 2 s. Nobody is an empty list.
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
}

/// Asks twice who has `address` (RFC 4861 §7.2.2) and gathers the answers.
fn solicit(address: Ipv6Addr, own: Mac) -> anyhow::Result<Vec<Mac>> {
    let interface = nix::net::if_::if_nametoindex("eth0").context("this host has no eth0")?;
    let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6))?;
    // Receivers drop a solicitation that has been forwarded. The kernel writes the checksum.
    socket.set_multicast_hops_v6(255)?;
    socket.set_multicast_if_v6(interface)?;
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
                Ok(length) => macs.extend(advertised(&packet[..length], address)),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                Err(error) => return Err(error).context("listening to neighbour advertisements"),
            }
        }
    }
    macs.sort_unstable();
    macs.dedup();
    Ok(macs)
}

/// The group that every station with `address` is a member of (RFC 4291 §2.7.1).
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (high & 0xff), low)
}

fn solicitation(address: Ipv6Addr, own: Mac) -> Vec<u8> {
    let mut packet = vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    packet.extend(address.octets());
    packet.extend([1, 1]); // source link-layer address, in units of 8 octets
    packet.extend(own.0);
    packet
}

/// The link-layer address in an advertisement of `address`.
fn advertised(packet: &[u8], address: Ipv6Addr) -> Option<Mac> {
    let (head, mut options) = packet.split_at_checked(24)?;
    if head[0] != ADVERTISEMENT || head[8..] != address.octets() {
        return None;
    }
    while let &[kind, units, ..] = options {
        let (option, rest) = options.split_at_checked(usize::from(units.max(1)) * 8)?;
        if kind == TARGET_LINK_LAYER_ADDRESS {
            return option.get(2..8)?.try_into().ok().map(Mac);
        }
        options = rest;
    }
    None
}

#[cfg(test)]
mod tests;

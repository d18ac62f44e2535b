//! The program of a node's pod: sends to all others by every way, twice a second, and prints what it receives when that changes.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use ipnet::IpNet;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use socket2::SockRef;
use windlass_vrrp::wire::{GROUP_V4, GROUP_V6};

use super::super::adverts::{self, ip_of};
use super::packet::Packet;
use super::{Report, Way};
use crate::inspect::args::ExchangeArgs;

/// Interval between two packets.
const INTERVAL: Duration = Duration::from_millis(500);
/// TTL of VRRP (RFC 9568 §5.1.1.3, §5.1.2.3).
const TTL: u32 = 255;
/// Maximum number of failures that are reported.
const MOST_FAILURES: usize = 5;

/// An address of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Own {
    interface: u32,
    network: IpNet,
}

/// Sends and listens until the process is ended.
///
/// # Errors
/// No socket could be opened: CAP_NET_RAW is missing.
pub(in crate::inspect) fn exchange(args: &ExchangeArgs) -> anyhow::Result<()> {
    let ExchangeArgs { run, node, peers } = args;
    let (four, six) = adverts::open().context(
        "no socket for packets of VRRP can be opened: give the process CAP_NET_RAW, or run it as root",
    )?;
    SockRef::from(&four).set_ttl_v4(TTL)?;
    SockRef::from(&four).set_multicast_ttl_v4(TTL)?;
    if let Some(six) = &six {
        SockRef::from(six).set_unicast_hops_v6(TTL)?;
        SockRef::from(six).set_multicast_hops_v6(TTL)?;
    }
    let report = Mutex::new(Report::default());
    let listen = |socket: &UdpSocket| {
        let failed = adverts::receive(socket, None, |source, packet| {
            let packet = adverts::payload(source, packet).and_then(Packet::read);
            if let Some(packet) = packet.filter(|packet| packet.run == *run && packet.sender != *node) {
                let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                report.heard.entry(packet.sender).or_default().insert(packet.way);
            }
        });
        if let Err(error) = failed {
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            report.failed.insert(format!("nothing is received any more: {error}"));
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| listen(&four));
        if let Some(six) = &six {
            scope.spawn(|| listen(six));
        }
        let mut printed = None;
        loop {
            let own = common(&addresses()?, peers);
            let mut failed = BTreeSet::new();
            for (destination, way, from) in sendings(&own, peers) {
                let Some(socket) = (if destination.is_ipv4() { Some(&four) } else { six.as_ref() }) else {
                    continue;
                };
                let packet = Packet { run: *run, way, sender: node.clone() }.to_bytes();
                if let Err(error) = send(socket, destination, &from, &packet) {
                    failed.insert(format!(
                        "nothing can be sent to {destination} from {}: {error}",
                        from.network
                    ));
                }
            }
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            report.networks = own.iter().map(|own| own.network).collect();
            let room = MOST_FAILURES.saturating_sub(report.failed.len());
            report.failed.extend(failed.into_iter().take(room));
            if printed.as_ref() != Some(&*report) {
                println!("{}", serde_json::to_string(&*report)?);
                printed = Some(report.clone());
            }
            drop(report);
            thread::sleep(INTERVAL);
        }
    })
}

fn addresses() -> io::Result<Vec<Own>> {
    let own = getifaddrs()?.filter_map(|one| {
        let network = IpNet::with_netmask(ip_of(&one.address?)?, ip_of(&one.netmask?)?).ok()?;
        Some(Own { interface: if_nametoindex(one.interface_name.as_str()).ok()?, network })
    });
    Ok(own.collect())
}

/// Returns the own addresses in whose networks there are other nodes; one of each network.
fn common(own: &[Own], peers: &[IpAddr]) -> Vec<Own> {
    let mut common: Vec<Own> = Vec::new();
    for one in own {
        let is_own = |peer: &IpAddr| own.iter().any(|it| it.network.addr() == *peer);
        let has_peer = peers.iter().any(|peer| one.network.contains(peer) && !is_own(peer));
        let is_new = common.iter().all(|it| it.network.trunc() != one.network.trunc());
        if has_peer && is_new {
            common.push(*one);
        }
    }
    common
}

/// Returns the packets to send: in each network one to the group and one to each other node.
fn sendings(own: &[Own], peers: &[IpAddr]) -> Vec<(IpAddr, Way, Own)> {
    let mut sendings = Vec::new();
    for one in own {
        let (group, multicast, unicast) = match one.network {
            IpNet::V4(_) => (GROUP_V4.into(), Way::MulticastV4, Way::UnicastV4),
            IpNet::V6(_) => (GROUP_V6.into(), Way::MulticastV6, Way::UnicastV6),
        };
        sendings.push((group, multicast, *one));
        let there = peers.iter().filter(|peer| one.network.contains(*peer) && **peer != one.network.addr());
        sendings.extend(there.map(|peer| (*peer, unicast, *one)));
    }
    sendings
}

fn send(socket: &UdpSocket, destination: IpAddr, from: &Own, packet: &[u8]) -> io::Result<()> {
    let to: SocketAddr = match (destination, from.network.addr()) {
        (IpAddr::V4(to), own) => {
            if let IpAddr::V4(own) = own {
                SockRef::from(socket).set_multicast_if_v4(&own)?;
            }
            SocketAddrV4::new(to, 0).into()
        }
        (IpAddr::V6(to), _) => {
            SockRef::from(socket).set_multicast_if_v6(from.interface)?;
            let scope = if to.is_multicast() { from.interface } else { 0 };
            SocketAddrV6::new(to, 0, 0, scope).into()
        }
    };
    SockRef::from(socket).send_to(packet, &to.into()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(interface: u32, network: &str) -> Own {
        Own { interface, network: network.parse().unwrap() }
    }

    #[test]
    fn packets_go_where_other_nodes_are_and_nowhere_else() {
        let all = [
            own(1, "127.0.0.1/8"),
            own(2, "192.0.2.11/24"),
            own(2, "192.0.2.100/24"),
            own(2, "2001:db8::11/64"),
            own(3, "10.244.0.1/24"),
            own(2, "fe80::11/64"),
        ];
        let peers = ["192.0.2.11", "192.0.2.12", "198.51.100.12", "2001:db8::11", "2001:db8::12"]
            .map(|peer| peer.parse().unwrap());
        let common = common(&all, &peers);
        assert_eq!(
            common,
            [all[1], all[3]],
            "no other node is in the others, and one of a network is enough"
        );
        let to: Vec<(String, Way, u32)> = sendings(&common, &peers)
            .into_iter()
            .map(|(to, way, own)| (to.to_string(), way, own.interface))
            .collect();
        let sent = |to: &str, way| (to.to_owned(), way, 2);
        assert_eq!(
            to,
            [
                sent("224.0.0.18", Way::MulticastV4),
                sent("192.0.2.12", Way::UnicastV4),
                sent("ff02::12", Way::MulticastV6),
                sent("2001:db8::12", Way::UnicastV6),
            ]
        );
    }
}

//! Receives VRRP adverts as a host of the LAN, from any sender.

use std::{
    io::{ErrorKind, Read as _},
    net::{IpAddr, Ipv4Addr},
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{lab::Lab, sandbox::Entrance};

const VRRP_GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 18);
const VRRP_PROTOCOL: i32 = 112;

/// Socket that receives every advert on the LAN.
#[derive(Debug)]
pub struct Adverts {
    socket: Socket,
}

impl Lab {
    /// Listens to adverts on host `host`.
    pub fn adverts(&self, host: &str) -> anyhow::Result<Adverts> {
        let entrance = Entrance::new(&self.sandbox, host)?;
        let address = self.host(host)?.address;
        // A socket stays in the network namespace in which it was made, wherever it is used.
        let open = std::thread::spawn(move || -> anyhow::Result<Socket> {
            entrance.enter()?;
            let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(VRRP_PROTOCOL)))?;
            socket.join_multicast_v4(&VRRP_GROUP, &address)?;
            Ok(socket)
        });
        let socket = open.join().map_err(|_| anyhow!("opening a socket panicked"))?;
        Ok(Adverts { socket: socket.with_context(|| format!("listening to adverts on {host}"))? })
    }
}

/// An advert, of IPv4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advert {
    /// Address that the advert was sent from.
    pub sender: IpAddr,
    /// Number of the virtual router.
    pub vrid: u8,
    /// The addresses that the sender has as its Active.
    pub addresses: Vec<IpAddr>,
}

impl Adverts {
    /// Waits for the next advert of this VRID, not counting those that have come already, and returns its sender.
    pub fn next_of(&self, vrid: u8, limit: Duration) -> anyhow::Result<IpAddr> {
        self.forget()?;
        let of_vrid = |advert: &Advert| advert.vrid == vrid;
        let advert = self.next_that(of_vrid, limit)?;
        Ok(advert
            .with_context(|| format!("no advert of VRID {vrid} within {:.1} s", limit.as_secs_f64()))?
            .sender)
    }

    /// Waits for the next advert that names this address, not counting those that have come already.
    pub fn next_with(&self, address: IpAddr, limit: Duration) -> anyhow::Result<Advert> {
        self.forget()?;
        let with_address = |advert: &Advert| advert.addresses.contains(&address);
        let advert = self.next_that(with_address, limit)?;
        advert.with_context(|| format!("no advert with {address} within {:.1} s", limit.as_secs_f64()))
    }

    /// Drops those that have come.
    fn forget(&self) -> anyhow::Result<()> {
        let mut packet = [0; 2048];
        self.socket.set_nonblocking(true)?;
        while (&self.socket).read(&mut packet).is_ok() {}
        Ok(self.socket.set_nonblocking(false)?)
    }

    fn next_that(
        &self,
        is_meant: impl Fn(&Advert) -> bool,
        limit: Duration,
    ) -> anyhow::Result<Option<Advert>> {
        let mut packet = [0; 2048];
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.socket.set_read_timeout(Some(left))?;
            match (&self.socket).read(&mut packet) {
                Ok(length) => {
                    let advert = parsed(&packet[..length]).filter(&is_meant);
                    if advert.is_some() {
                        return Ok(advert);
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error).context("listening to adverts"),
            }
        }
    }
}

/// The advert in an IPv4 packet (RFC 9568 §5.1).
fn parsed(packet: &[u8]) -> Option<Advert> {
    let source: [u8; 4] = packet.get(12..16)?.try_into().ok()?;
    let advert = packet.get(usize::from(packet.first()? & 0x0f) * 4..)?;
    let count = usize::from(*advert.get(3)?);
    let addresses = advert.get(8..8 + 4 * count)?.chunks_exact(4);
    let addresses =
        addresses.filter_map(|octets| Some(Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?).into()));
    Some(Advert {
        sender: Ipv4Addr::from(source).into(),
        vrid: *advert.get(1)?,
        addresses: addresses.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advert_tells_its_sender_its_vrid_and_all_addresses_and_half_a_one_tells_nothing() {
        let mut packet = vec![0x45; 20];
        packet[12..16].copy_from_slice(&[192, 0, 2, 11]);
        packet.extend([0x31, 7, 200, 2, 0, 10, 0, 0, 192, 0, 2, 5, 192, 0, 2, 6]);
        let addresses = vec!["192.0.2.5".parse().unwrap(), "192.0.2.6".parse().unwrap()];
        let advert = Advert { sender: "192.0.2.11".parse().unwrap(), vrid: 7, addresses };
        assert_eq!(parsed(&packet), Some(advert));
        assert_eq!(parsed(&packet[..packet.len() - 1]), None);
        assert_eq!(parsed(&[]), None);
    }
}

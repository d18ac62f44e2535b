//! Listening to VRRP adverts as a host of the LAN hears them, whoever sends them.

use std::{
    io::{ErrorKind, Read as _},
    net::{IpAddr, Ipv4Addr},
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow, bail};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{lab::Lab, sandbox::Entrance};

const VRRP_GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 18);
const VRRP_PROTOCOL: i32 = 112;

/// A socket that hears every advert on the LAN.
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

impl Adverts {
    /// Waits for the next advert of this VRID, not counting those that have come already, and returns its sender.
    pub fn next_of(&self, vrid: u8, limit: Duration) -> anyhow::Result<IpAddr> {
        let mut packet = [0; 2048];
        self.socket.set_nonblocking(true)?;
        while (&self.socket).read(&mut packet).is_ok() {}
        self.socket.set_nonblocking(false)?;
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("no advert of VRID {vrid} within {:.1} s", limit.as_secs_f64());
            }
            self.socket.set_read_timeout(Some(left))?;
            match (&self.socket).read(&mut packet) {
                Ok(length) => {
                    if let Some(sender) = sender(&packet[..length], vrid) {
                        return Ok(sender);
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error).context("listening to adverts"),
            }
        }
    }
}

/// Source of an IPv4 packet that holds an advert of this VRID.
fn sender(packet: &[u8], vrid: u8) -> Option<IpAddr> {
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let source: [u8; 4] = packet.get(12..16)?.try_into().ok()?;
    (*packet.get(header + 1)? == vrid).then(|| Ipv4Addr::from(source).into())
}

//! Who has which VIP, as the observer hears it announced.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use nix::sys::socket::{SetSockOpt as _, sockopt};
use socket2::{Domain, Protocol, Socket, Type};
use windlass_engine::Family;

use crate::lab::Host;

/// Nothing is lost while the reader waits for a CPU.
const BUFFER: usize = 32 << 20;
const ARP: i32 = 0x0806;
const IPV6: i32 = 0x86dd;

/// Hears announcements of one family, on all interfaces of a host.
pub(crate) struct Announcements {
    socket: Socket,
    family: Family,
}

impl Announcements {
    pub(crate) fn on(host: &Host, family: Family) -> Self {
        let protocol = match family {
            Family::V4 => ARP,
            Family::V6 => IPV6,
        };
        let protocol = Protocol::from(i32::from(u16::try_from(protocol).unwrap().to_be()));
        let socket =
            host.run(move || Socket::new(Domain::PACKET, Type::RAW, Some(protocol)).expect("packet socket"));
        sockopt::RcvBufForce.set(&socket, &BUFFER).expect("a large buffer");
        Self { socket, family }
    }

    /// Forgets what was heard before.
    pub(crate) fn forget(&self) {
        self.socket.set_nonblocking(true).unwrap();
        while (&self.socket).read(&mut [0; 128]).is_ok() {}
        self.socket.set_nonblocking(false).unwrap();
    }

    /// When each address was heard first, until there are `count`, or until `deadline`.
    pub(crate) fn await_all(&self, count: usize, deadline: Instant) -> BTreeMap<IpAddr, Instant> {
        let mut heard = BTreeMap::new();
        let mut frame = [0; 128];
        while heard.len() < count {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.socket.set_read_timeout(Some(left.max(Duration::from_micros(10)))).unwrap();
            let Ok(length) = (&self.socket).read(&mut frame) else { continue };
            let at = Instant::now();
            if let Some(address) = announced(self.family, &frame[..length]) {
                heard.entry(address).or_insert(at);
            }
        }
        heard
    }
}

/// The address that this frame says to be at its sender's.
fn announced(family: Family, frame: &[u8]) -> Option<IpAddr> {
    match family {
        // Gratuitous: sender and target are the same.
        Family::V4 => {
            let (sender, target) = (frame.get(28..32)?, frame.get(38..42)?);
            (sender == target)
                .then(|| Ipv4Addr::from(<[u8; 4]>::try_from(sender).expect("four bytes")).into())
        }
        // A neighbour advertisement.
        Family::V6 => {
            let target = <[u8; 16]>::try_from(frame.get(62..78)?).expect("sixteen bytes");
            (frame[20] == 58 && frame[54] == 136).then(|| Ipv6Addr::from(target).into())
        }
    }
}

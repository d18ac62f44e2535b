//! The adverts on a segment, as a host that takes no part hears them.

use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use windlass_engine::{Engine, Family};
use windlass_vrrp::wire;

use crate::lab::Host;

/// An advert.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) at: Instant,
    pub(crate) source: IpAddr,
    /// 0: a farewell.
    pub(crate) priority: u8,
}

/// Hears the adverts of one family on `eth0` of a host.
pub(crate) struct Adverts {
    /// A raw socket: the type is the standard library's only one with safe reads that tell the sender.
    socket: UdpSocket,
    family: Family,
}

impl Adverts {
    pub(crate) fn on(host: &Host, family: Family) -> Self {
        Self { socket: host.run(move || open(family)).into(), family }
    }

    /// The next advert until `deadline`.
    pub(crate) fn next(&self, deadline: Instant) -> Option<Heard> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            self.socket.set_read_timeout(Some(left.max(Duration::from_micros(10)))).unwrap();
            if let Some(heard) = self.receive() {
                return Some(heard);
            }
        }
    }

    /// Forgets what was heard before.
    pub(crate) fn forget(&self) {
        self.socket.set_nonblocking(true).unwrap();
        while self.receive().is_some() {}
        self.socket.set_nonblocking(false).unwrap();
    }

    fn receive(&self) -> Option<Heard> {
        let mut buffer = [0; 2048];
        let (length, from) = self.socket.recv_from(&mut buffer).ok()?;
        let at = Instant::now();
        // A raw socket gives the header of IPv4, not that of IPv6.
        let header = match self.family {
            Family::V4 => usize::from(buffer[0] & 0x0f) * 4,
            Family::V6 => 0,
        };
        let priority = *buffer.get(header + 2).filter(|_| header + 8 <= length)?;
        Some(Heard { at, source: from.ip(), priority })
    }
}

fn open(family: Family) -> Socket {
    let interfaces = Engine::interfaces().expect("list interfaces");
    let index = interfaces.into_iter().find(|info| info.name == "eth0").expect("eth0").index;
    let protocol = Some(Protocol::from(i32::from(wire::PROTOCOL)));
    match family {
        Family::V4 => {
            let socket = Socket::new(Domain::IPV4, Type::RAW, protocol).unwrap();
            socket.join_multicast_v4_n(&wire::GROUP_V4, &InterfaceIndexOrAddress::Index(index)).unwrap();
            socket
        }
        Family::V6 => {
            let socket = Socket::new(Domain::IPV6, Type::RAW, protocol).unwrap();
            socket.join_multicast_v6(&wire::GROUP_V6, index).unwrap();
            socket
        }
    }
}

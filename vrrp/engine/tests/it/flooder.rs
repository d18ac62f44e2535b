//! Sends the same advert again and again, from whatever address.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use windlass_engine::{Interval, Priority, Vrid};
use windlass_vrrp::Version;
use windlass_vrrp::wire::{AddressList, Advert, Checksum, GROUP_V4, Path, TTL};

/// An advert and where it goes.
pub(crate) struct Flooder {
    socket: Socket,
    group: SockAddr,
    datagram: Vec<u8>,
}

impl Flooder {
    /// Sends by `eth0` of the caller's namespace, in the name of `source`. Nobody in the namespace hears it.
    pub(crate) fn new(source: Ipv4Addr, vrid: u8, priority: u8) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(libc::IPPROTO_RAW)))
            .expect("raw socket");
        socket.bind_device(Some(b"eth0")).expect("eth0");
        socket.set_multicast_loop_v4(false).expect("no loop");
        let path = Path::V4 { source, destination: GROUP_V4 };
        let advert = Advert {
            path,
            ttl: TTL,
            vrid: Vrid::new(vrid).unwrap(),
            priority: Priority::new(priority).ok(),
            interval: Interval::SECOND,
            addresses: AddressList::representing(&BTreeSet::new(), path.source(), 1),
        };
        let datagram = advert.datagram(Version::V3, Checksum::Rfc9568);
        Self { socket, group: SocketAddrV4::new(GROUP_V4, 0).into(), datagram }
    }

    /// Sends so many at once; the kernel may refuse some.
    pub(crate) fn send(&self, count: u64) {
        for _ in 0..count {
            let _ = self.socket.send_to(&self.datagram, &self.group);
        }
    }
}

//! Sends the same advert or the same question again and again, from whatever address.

use std::collections::BTreeSet;
use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{LinkAddr, MsgFlags, MultiHeaders, SockaddrIn, bind, sendmmsg};
use socket2::{Domain, Protocol, Socket, Type};
use windlass_engine::{Interval, Priority, Vrid};
use windlass_vrrp::Version;
use windlass_vrrp::wire::{AddressList, Advert, Checksum, GROUP_V4, Path, TTL};

/// A packet, and a socket that sends it to its destination.
pub(crate) struct Flooder {
    socket: Socket,
    packet: Vec<u8>,
}

/// Advert in the name of `source`.
pub(crate) fn advert(source: Ipv4Addr, vrid: u8, priority: u8) -> Advert {
    let path = Path::V4 { source, destination: GROUP_V4 };
    Advert {
        path,
        ttl: TTL,
        vrid: Vrid::new(vrid).unwrap(),
        priority: Priority::new(priority).ok(),
        interval: Interval::SECOND,
        addresses: AddressList::representing(&BTreeSet::new(), path.source(), 1),
    }
}

impl Flooder {
    /// Adverts, sent by `eth0` of the caller's namespace, in the name of `source`. Nobody in the namespace hears it.
    pub(crate) fn new(source: Ipv4Addr, vrid: u8, priority: u8) -> Self {
        Self::datagrams(GROUP_V4, advert(source, vrid, priority).datagram(Version::V3, Checksum::Rfc9568))
    }

    /// Datagrams with their IP header, sent by `eth0` of the caller's namespace.
    pub(crate) fn datagrams(to: Ipv4Addr, packet: Vec<u8>) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(libc::IPPROTO_RAW)))
            .expect("raw socket");
        socket.bind_device(Some(b"eth0")).expect("eth0");
        socket.set_multicast_loop_v4(false).expect("no loop");
        socket.connect(&SocketAddrV4::new(to, 0).into()).expect("a destination");
        Self { socket, packet }
    }

    /// Datagrams that look as one node tells another connections, sent by `eth0` of the caller's namespace.
    #[allow(dead_code, reason = "benches, which share this file, do without")]
    pub(crate) fn replicas(source: Ipv4Addr, to: Ipv4Addr, hops: u8) -> Self {
        let mut message = b"WLCN\x01".to_vec();
        message.resize(40, 0);
        Self::udp(source, to, hops, 10_112, &message)
    }

    /// UDP datagrams from and to this port, sent by `eth0` of the caller's namespace.
    pub(crate) fn udp(source: Ipv4Addr, to: Ipv4Addr, hops: u8, port: u16, message: &[u8]) -> Self {
        let length = u16::try_from(8 + message.len()).unwrap();
        // The kernel fills in the length and the checksum of IP; UDP may be without one.
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, hops, 17, 0, 0];
        packet.extend([source.octets(), to.octets()].concat());
        packet.extend([port, port, length, 0].map(u16::to_be_bytes).concat());
        packet.extend(message);
        Self::datagrams(to, packet)
    }

    /// ARP requests, sent by `eth0` of the caller's namespace, in the name of `sender`.
    pub(crate) fn questions(sender: Ipv4Addr, target: Ipv4Addr) -> Self {
        let mut entries = getifaddrs().expect("interfaces").filter(|entry| entry.interface_name == "eth0");
        let eth0: LinkAddr = entries.find_map(|entry| entry.address?.as_link_addr().copied()).expect("eth0");
        let mac = eth0.addr().expect("an Ethernet address");
        let socket = Socket::new(Domain::PACKET, Type::RAW, None).expect("packet socket");
        bind(socket.as_raw_fd(), &eth0).expect("eth0");
        let header = [&[0xff; 6], &mac[..], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
        let packet = [&header[..], &mac, &sender.octets(), &[0; 6], &target.octets()].concat();
        Self { socket, packet }
    }

    /// Sends so many at once; the kernel may refuse some.
    pub(crate) fn send(&self, count: usize) {
        let packets = vec![[IoSlice::new(&self.packet)]; count];
        let mut headers = MultiHeaders::<SockaddrIn>::preallocate(count, None);
        let _ = sendmmsg(
            self.socket.as_raw_fd(),
            &mut headers,
            &packets,
            vec![None; count],
            [],
            MsgFlags::empty(),
        );
    }
}

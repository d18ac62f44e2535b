use std::io::Read as _;
use std::net::Ipv6Addr;

use socket2::{Domain, Socket, Type};

use super::filter::{Offsets, program_at};
use super::*;
use crate::lab::in_namespace;

/// Properties of a packet that a filter looks at.
#[derive(Clone, Copy, Debug)]
struct Packet {
    from: IpAddr,
    to: IpAddr,
    ttl: u8,
    version: u8,
    your_discriminator: u32,
    length: usize,
}

impl Packet {
    fn of(session: &Admitted) -> Self {
        let (from, to) = (session.peer, session.own);
        Self { from, to, ttl: 255, version: 1, your_discriminator: 7, length: 24 }
    }

    fn payload(&self) -> Vec<u8> {
        let mut bytes = vec![self.version << 5, 0x40, 3, 24, 0, 0, 0, 9];
        bytes.extend(self.your_discriminator.to_be_bytes());
        bytes.resize(self.length, 0);
        bytes
    }

    /// With headers, as far as the filter reads them.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = match (self.from, self.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let header = [0x45, 0, 0, 0, 0, 0, 0, 0, self.ttl, 17, 0, 0];
                [&header[..], &from.octets(), &to.octets()].concat()
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let header = [0x60, 0, 0, 0, 0, 0, 17, self.ttl];
                [&header[..], &from.octets(), &to.octets()].concat()
            }
            _ => panic!("two families"),
        };
        bytes.extend([0xc0, 0, 0x0e, 0xc8, 0, 0, 0, 0]);
        bytes.extend(self.payload());
        bytes
    }

    /// Has the kernel run the filter, on a pair of sockets that carries any bytes.
    fn passes(&self, sessions: &[Admitted]) -> bool {
        let udp = if self.from.is_ipv4() { 20 } else { 40 };
        let (out, inbound) = Socket::pair(Domain::UNIX, Type::DGRAM, None).unwrap();
        inbound.set_nonblocking(true).unwrap();
        inbound.attach_filter(&program_at(Offsets { ip: 0, udp }, sessions)).unwrap();
        let _ = out.send(&self.bytes());
        (&inbound).read(&mut [0; 128]).is_ok()
    }
}

fn admitted(own: &str, peer: &str) -> Admitted {
    let [own, peer] = [own, peer].map(|address| address.parse().unwrap());
    let discriminator = NonZeroU32::new(7).unwrap();
    Admitted { own, peer, interface: None, minimum_ttl: 255, discriminator }
}

// shows: bgp B80, B81, B87
#[test]
fn packets_of_sessions_pass_the_filter_and_no_others() {
    for [own, peer, distant, stranger] in [
        ["192.0.2.1", "192.0.2.2", "198.51.100.3", "192.0.2.4"],
        // The last 32 bits of three of them are the same.
        ["2001:db8::1", "fe80::2", "2001:db8:1::2", "2001:db8:2::2"],
    ] {
        let near = admitted(own, peer);
        let beyond = Admitted { minimum_ttl: 250, ..admitted(own, distant) };
        let (good, far) = (Packet::of(&near), Packet::of(&beyond));
        let foreign: IpAddr = stranger.parse().unwrap();
        for (packet, passes) in [
            (good, true),
            (Packet { your_discriminator: 0, ..good }, true),
            (Packet { length: 52, ..good }, true),
            (Packet { ttl: 250, ..far }, true),
            (Packet { ttl: 249, ..far }, false),
            (Packet { ttl: 254, ..good }, false),
            (Packet { from: foreign, ..good }, false),
            (Packet { to: foreign, ..good }, false),
            (Packet { your_discriminator: 8, ..good }, false),
            (Packet { version: 0, ..good }, false),
            (Packet { length: 23, ..good }, false),
            (Packet { length: 0, ..good }, false),
        ] {
            assert_eq!(packet.passes(&[near, beyond]), passes, "{packet:?}");
            assert!(!packet.passes(&[]), "{packet:?}");
        }
    }
}

#[test]
fn the_filter_of_the_most_sessions_is_one_that_the_kernel_takes() {
    in_namespace(|| {
        let receiver = BfdReceiver::open(Family::V6, 3784).unwrap();
        let session = |n| {
            let peer = Ipv6Addr::from(u128::from(n)).into();
            Admitted { peer, interface: Some(1), ..admitted("fe80::1", "fe80::2") }
        };
        receiver.admit(&(0..16_u32).map(session).collect::<Vec<_>>()).unwrap();
    });
}

// shows: bgp B87
#[test]
fn sessions_have_source_ports_of_their_own_and_the_ttl_that_peers_demand_and_others_are_dropped_and_counted()
{
    in_namespace(|| {
        std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
        let receiver = BfdReceiver::open(Family::V4, 3784).unwrap();
        receiver.admit(&[admitted("127.0.0.1", "127.0.0.2")]).unwrap();
        let to = "127.0.0.1:3784".parse().unwrap();
        let open = |own: &str| BfdSender::open(own.parse().unwrap(), to, None, u16::MAX).unwrap();
        let (peer, second, stranger) = (open("127.0.0.2"), open("127.0.0.2"), open("127.0.0.3"));
        let packet = Packet::of(&admitted("127.0.0.1", "127.0.0.2"));
        let mut buffer = [0; 64];
        let mut ports = Vec::new();
        for sender in [&peer, &second] {
            sender.send(&packet.payload()).unwrap();
            let (length, from) = receiver.receive(&mut buffer).unwrap();
            assert_eq!((&buffer[..length], from.ip()), (&packet.payload()[..], packet.from));
            ports.push(from.port());
        }
        assert!(ports[0] != ports[1] && ports.iter().all(|port| *port >= 49_152), "{ports:?}");
        assert_eq!(receiver.dropped(), 0);
        stranger.send(&packet.payload()).unwrap();
        peer.send(&Packet { your_discriminator: 8, ..packet }.payload()).unwrap();
        assert!(receiver.receive(&mut buffer).is_err());
        assert_eq!(receiver.dropped(), 2);
    });
}

//! The kernel runs the filter here, on a pair of sockets that carries any bytes: packets with their IP header.

use std::io::Read;
use std::net::{Ipv4Addr, Ipv6Addr};

use socket2::{Domain, Socket, Type};

use super::*;

const PORT: u16 = 10_112;

/// What differs from a peer's datagram.
#[derive(Clone, Copy, Debug)]
struct Packet {
    source: IpAddr,
    hops: u8,
    port: u16,
    magic: [u8; 4],
    length: usize,
}

fn packet(source: IpAddr) -> Packet {
    Packet { source, hops: 255, port: PORT, magic: *MAGIC, length: 40 }
}

impl Packet {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = match self.source {
            IpAddr::V4(source) => {
                let mut header = vec![0x45, 0, 0, 0, 0, 0, 0, 0, self.hops, 17, 0, 0];
                header.extend(source.octets());
                header.extend([192, 0, 2, 1]);
                header
            }
            IpAddr::V6(source) => {
                let mut header = vec![0x60, 0, 0, 0, 0, 0, 17, self.hops];
                header.extend(source.octets());
                header.extend(Ipv6Addr::LOCALHOST.octets());
                header
            }
        };
        bytes.extend(self.port.to_be_bytes());
        bytes.extend([0x27, 0x80, 0, 0, 0, 0]);
        let message = bytes.len();
        bytes.extend(self.magic);
        bytes.resize(message + self.length, 0);
        bytes
    }

    fn passes(&self, peers: &BTreeSet<IpAddr>) -> bool {
        let (family, udp) = match self.source {
            IpAddr::V4(_) => (Family::V4, 20),
            IpAddr::V6(_) => (Family::V6, 40),
        };
        let program = program_at(Offsets { ip: 0, udp }, family, PORT, peers);
        let (out, inbound) = Socket::pair(Domain::UNIX, Type::DGRAM, None).unwrap();
        inbound.set_nonblocking(true).unwrap();
        inbound.attach_filter(&program).unwrap();
        // The filter's refusal is an error of the sender on this kind of socket, or silence.
        let _ = out.send(&self.bytes());
        (&inbound).read(&mut [0; 2048]).is_ok()
    }
}

#[test]
fn messages_of_peers_on_the_link_pass_and_nothing_else_does() {
    for [peer, other, stranger] in [
        [[192, 0, 2, 2], [192, 0, 2, 3], [192, 0, 2, 4]].map(IpAddr::from),
        ["fe80::2", "fe80::3", "fe80::4"].map(|address| address.parse().unwrap()),
    ] {
        let peers: BTreeSet<IpAddr> = [peer, other].into();
        for (packet, passes) in [
            (packet(peer), true),
            (packet(other), true),
            (Packet { length: MAX_DATAGRAM, ..packet(peer) }, true),
            (packet(stranger), false),
            (Packet { hops: 64, ..packet(peer) }, false),
            // It crossed one router.
            (Packet { hops: 254, ..packet(peer) }, false),
            (Packet { port: 53, ..packet(peer) }, false),
            (Packet { magic: *b"WLCM", ..packet(peer) }, false),
            (Packet { length: 39, ..packet(peer) }, false),
            (Packet { length: MAX_DATAGRAM + 1, ..packet(peer) }, false),
        ] {
            assert_eq!(packet.passes(&peers), passes, "{packet:?}");
        }
        assert!(!packet(peer).passes(&BTreeSet::new()));
    }
}

#[test]
fn as_many_peers_as_fit_are_told_apart_and_of_more_any_source_passes() {
    let many = |count: u32| -> BTreeSet<IpAddr> {
        (0..count).map(|number| Ipv4Addr::from_bits(0xc612_0000 + number).into()).collect()
    };
    let stranger = packet([192, 0, 2, 4].into());
    assert!(many(256).iter().all(|peer| packet(*peer).passes(&many(256))));
    assert!(!stranger.passes(&many(256)));
    assert!(stranger.passes(&many(257)));
    assert!(!Packet { hops: 64, ..stranger }.passes(&many(257)), "all else is looked at as before");
}

//! What is said on the wire, read without the engine's own parser.

use std::io::{ErrorKind, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::interop::dialect::{Dialect, VRID};
use crate::lab::{Host, LIMIT};

const PROTOCOL: u8 = 112;
/// So many adverts in a row of one source show that no other router is Active.
const IN_A_ROW: u32 = 3;

/// What an advert's checksum covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Covers {
    Message,
    MessageAndPseudoHeader,
}

/// An advert as a third host sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SeenAdvert {
    pub(crate) mac: [u8; 6],
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) hops: u8,
    pub(crate) version: u8,
    pub(crate) priority: u8,
    pub(crate) interval_ms: u32,
    pub(crate) covers: Option<Covers>,
    pub(crate) addresses: Vec<IpAddr>,
}

/// Every frame that reaches a host.
pub(crate) struct PacketTap(Socket);

impl PacketTap {
    pub(crate) fn on(host: &Host) -> Self {
        Self(host.run(|| {
            let every = i32::from(u16::try_from(libc::ETH_P_ALL).unwrap().to_be());
            Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(every))).expect("packet socket")
        }))
    }

    /// The next frame, unless none comes until `deadline`.
    pub(crate) fn frame(&self, deadline: Instant) -> Option<Vec<u8>> {
        let mut buffer = [0; 2048];
        loop {
            let left = deadline.checked_duration_since(Instant::now())?;
            // 0 would mean to wait without end.
            self.0.set_read_timeout(Some(left.max(Duration::from_millis(1)))).unwrap();
            match (&self.0).read(&mut buffer) {
                Ok(length) => return Some(buffer[..length].to_vec()),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _ => panic!("packet socket: {error}"),
                },
            }
        }
    }

    /// Waits until the router of this source says that it resigns.
    pub(crate) fn resignation(&self, case: &str, dialect: Dialect, source: IpAddr) -> SeenAdvert {
        self.await_advert(case, &format!("resignation of {source}"), dialect, |seen| {
            seen.source == source && seen.priority == 0
        })
    }

    /// Waits until the routers of both sources speak at a time: each in turn, and the first again.
    pub(crate) fn both_speak(&self, case: &str, dialect: Dialect, sources: [IpAddr; 2]) {
        let mut turn = 0;
        self.await_advert(case, &format!("adverts of {sources:?} by turns"), dialect, |seen| {
            if seen.source == sources[turn % 2] && seen.priority > 0 {
                turn += 1;
            }
            turn == 6
        });
    }

    /// Waits until the router of this source is the only one that speaks.
    pub(crate) fn sole_speaker(&self, case: &str, dialect: Dialect, source: IpAddr) -> SeenAdvert {
        let mut row = 0;
        self.await_advert(case, &format!("advert of {source} alone"), dialect, |seen| {
            row = if seen.source == source && seen.priority > 0 { row + 1 } else { 0 };
            row == IN_A_ROW
        })
    }

    fn await_advert(
        &self,
        case: &str,
        what: &str,
        dialect: Dialect,
        mut accept: impl FnMut(&SeenAdvert) -> bool,
    ) -> SeenAdvert {
        let deadline = Instant::now() + LIMIT;
        let mut heard: Vec<SeenAdvert> = Vec::new();
        while let Some(frame) = self.frame(deadline) {
            let Some(seen) = parse(&frame, dialect) else { continue };
            if accept(&seen) {
                return seen;
            }
            heard.push(seen);
        }
        let tail = &heard[heard.len().saturating_sub(8)..];
        panic!("{case}: no {what} within {LIMIT:?}; {} adverts heard, last: {tail:?}", heard.len());
    }
}

/// The advert of [`VRID`] in a frame, if it is one of this dialect.
fn parse(frame: &[u8], dialect: Dialect) -> Option<SeenAdvert> {
    let mac = frame.get(6..12)?.try_into().ok()?;
    let ethertype = frame.get(12..14)?;
    let packet = frame.get(14..)?;
    let (source, destination, hops, payload, width): (IpAddr, IpAddr, u8, &[u8], usize) =
        if ethertype == [8, 0] && packet.get(9) == Some(&PROTOCOL) {
            let length = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
            let payload = packet.get(usize::from(packet[0] & 15) * 4..length)?;
            let at = |n: usize| Ipv4Addr::from(<[u8; 4]>::try_from(&packet[n..n + 4]).unwrap());
            (at(12).into(), at(16).into(), packet[8], payload, 4)
        } else if ethertype == [0x86, 0xdd] && packet.get(6) == Some(&PROTOCOL) {
            let length = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
            let at = |n: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&packet[n..n + 16]).unwrap());
            (at(8).into(), at(24).into(), packet[7], packet.get(40..40 + length)?, 16)
        } else {
            return None;
        };
    let &[version_type, vrid, priority, count, fifth, sixth, ..] = payload else { return None };
    let version = version_type >> 4;
    if version != dialect.version() || source.is_ipv6() != dialect.is_ipv6() || vrid != VRID {
        return None;
    }
    let interval_ms = match version {
        2 => u32::from(sixth) * 1000,
        _ => u32::from(u16::from_be_bytes([fifth & 15, sixth])) * 10,
    };
    let addresses = payload.get(8..8 + usize::from(count) * width)?.chunks_exact(width);
    let addresses = addresses.map(|bytes| match <[u8; 4]>::try_from(bytes) {
        Ok(ipv4) => IpAddr::from(ipv4),
        Err(_) => IpAddr::from(<[u8; 16]>::try_from(bytes).unwrap()),
    });
    let addresses = addresses.collect();
    let covers = covers(source, destination, payload);
    Some(SeenAdvert { mac, source, destination, hops, version, priority, interval_ms, covers, addresses })
}

/// What the checksum covers, if it holds at all.
fn covers(source: IpAddr, destination: IpAddr, payload: &[u8]) -> Option<Covers> {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let pseudo = [octets(source), octets(destination), vec![0, PROTOCOL], length.to_vec()].concat();
    if holds(payload) {
        Some(Covers::Message)
    } else if holds(&[pseudo, payload.to_vec()].concat()) {
        Some(Covers::MessageAndPseudoHeader)
    } else {
        None
    }
}

/// Whether the Internet checksum within holds.
fn holds(bytes: &[u8]) -> bool {
    let sum: u32 =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    (sum & 0xffff) + (sum >> 16) == 0xffff
}

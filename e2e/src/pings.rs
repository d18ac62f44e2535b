//! Measures how long each of many addresses is without an answer: ICMP echo requests (RFC 792) to all of them, over and over.

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read as _},
    net::{Ipv4Addr, SocketAddrV4},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use socket2::{Domain, Protocol, Socket, Type};

use crate::{
    api_probe::Silence,
    lab::Lab,
    running::{Running, Stop},
};

const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
/// Identifier that separates replies to this program from replies to others.
const IDENTIFIER: [u8; 2] = *b"WL";

/// A running client. Dropping it ends it.
#[derive(Debug)]
pub struct Pings(Running<BTreeMap<Ipv4Addr, Duration>>);

impl Lab {
    /// Asks each of `addresses` from host `client` every `interval`, until [`Pings::stop`].
    pub fn pings(&self, client: &str, addresses: &[Ipv4Addr], interval: Duration) -> anyhow::Result<Pings> {
        let addresses = addresses.to_vec();
        let ask = move |stop: &Stop| ask(&addresses, interval, stop).context("asking by ICMP");
        Ok(Pings(Running::start(self, client, "pings", ask)?))
    }
}

impl Pings {
    /// Ends it; the longest time without an answer, by address. One that never answered has the whole time.
    pub fn stop(self) -> anyhow::Result<BTreeMap<Ipv4Addr, Duration>> {
        self.0.stop()
    }
}

fn ask(
    addresses: &[Ipv4Addr],
    interval: Duration,
    stop: &Stop,
) -> anyhow::Result<BTreeMap<Ipv4Addr, Duration>> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
    let begin = Instant::now();
    let mut silence = Silence::default();
    // One that never answers is silent from the beginning.
    silence.broken_at(Duration::ZERO);
    let mut silences: BTreeMap<Ipv4Addr, Silence> =
        addresses.iter().map(|address| (*address, silence)).collect();
    let request = request();
    let mut next = begin;
    while !stop.is_requested() {
        let asked = Instant::now();
        for address in addresses {
            // No neighbour, no room: an outage like silence.
            let _ = socket.send_to(&request, &SocketAddrV4::new(*address, 0).into());
        }
        next = (next + interval).max(asked);
        loop {
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            socket.set_read_timeout(Some(left.max(Duration::from_micros(100))))?;
            let mut packet = [0; 128];
            match (&socket).read(&mut packet) {
                Ok(length) => {
                    let replied = replied(&packet[..length]);
                    if let Some(silence) = replied.and_then(|address| silences.get_mut(&address)) {
                        silence.broken_at(begin.elapsed());
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error).context("listening to replies"),
            }
        }
    }
    let end = begin.elapsed();
    for silence in silences.values_mut() {
        silence.ends_at(end);
    }
    Ok(silences.into_iter().map(|(address, silence)| (address, silence.longest)).collect())
}

fn request() -> Vec<u8> {
    let mut packet = vec![ECHO_REQUEST, 0, 0, 0];
    packet.extend(IDENTIFIER);
    packet.extend([0, 0]);
    let words = packet.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !u16::try_from(folded & 0xffff).unwrap_or(u16::MAX);
    packet[2..4].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// Returns the sender of this IPv4 packet if it is a reply to [`request`].
fn replied(packet: &[u8]) -> Option<Ipv4Addr> {
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let message = packet.get(header..)?;
    let source: [u8; 4] = packet.get(12..16)?.try_into().ok()?;
    (*message.first()? == ECHO_REPLY && *message.get(4..6)? == IDENTIFIER).then(|| source.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_a_request_is_right() {
        // (RFC 1071: with its checksum a message adds up to all ones.)
        let request = request();
        let sum: u32 = request.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "{request:?}");
    }

    #[test]
    fn only_a_reply_to_a_request_of_ours_tells_who_answers() {
        let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0, 198, 19, 0, 7, 192, 0, 2, 101];
        packet.extend([ECHO_REPLY, 0, 0, 0, b'W', b'L', 0, 0]);
        assert_eq!(replied(&packet), Some(Ipv4Addr::new(198, 19, 0, 7)));
        assert_eq!(replied(&packet[..22]), None);
        packet[24] = b'X';
        assert_eq!(replied(&packet), None, "of another program");
        packet[24] = b'W';
        packet[20] = ECHO_REQUEST;
        assert_eq!(replied(&packet), None);
    }
}

//! SCTP by packets of our own (RFC 9260): the handshake of an association, without a kernel that has SCTP sockets. What lies
//! between client and server, kube-proxy's translation and connection tracking, is the kernel's all the same.

use std::{
    io::{self, ErrorKind},
    net::{SocketAddr, UdpSocket},
    sync::atomic::{AtomicU16, Ordering},
};

use socket2::{Domain, Protocol, Socket, Type};

use super::client::PATIENCE;

/// Number of the protocol.
pub(super) const SCTP: i32 = 132;
/// Kinds of chunks, RFC 9260 §3.2.
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const COOKIE_ECHO: u8 = 10;
const COOKIE_ACK: u8 = 11;
/// The parameter of an INIT ACK that the client sends back, RFC 9260 §3.3.3.1.
const STATE_COOKIE: u16 = 7;
/// Tag that packets to the server carry.
const SERVER_TAG: u32 = 0x5e4e_5e4e;
/// Where the handshake's parameters begin in an INIT, after tag, window, streams and sequence number.
const PARAMETERS: usize = 16;

/// A packet with one chunk.
#[derive(Debug, PartialEq, Eq)]
struct Packet {
    source: u16,
    destination: u16,
    tag: u32,
    kind: u8,
    value: Vec<u8>,
}

impl Packet {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = [self.source.to_be_bytes(), self.destination.to_be_bytes()].concat();
        bytes.extend(self.tag.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend([self.kind, 0]);
        bytes.extend(two_bytes(4 + self.value.len()));
        bytes.extend(&self.value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let sum = checksum(&bytes).to_le_bytes();
        bytes[8..12].copy_from_slice(&sum);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        Some(Self {
            source: number(0)?,
            destination: number(2)?,
            tag: word(bytes, 4)?,
            kind: *bytes.get(12)?,
            value: bytes.get(16..12 + usize::from(number(14)?))?.to_vec(),
        })
    }

    fn answer(&self, tag: u32, kind: u8, value: Vec<u8>) -> Vec<u8> {
        Self { source: self.destination, destination: self.source, tag, kind, value }.encode()
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn two_bytes(number: usize) -> [u8; 2] {
    u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes()
}

/// CRC32c, RFC 9260 appendix A.
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0x82f6_3b78 * (sum & 1)))
    })
}

/// The value of an INIT or INIT ACK: one stream each way.
fn initiation(tag: u32) -> Vec<u8> {
    [&tag.to_be_bytes()[..], &65_536_u32.to_be_bytes(), &[0, 1, 0, 1], &tag.to_be_bytes()].concat()
}

/// A socket that sends and receives SCTP packets; those of IPv4 come with the header before them.
fn raw(ipv4: bool) -> io::Result<UdpSocket> {
    let domain = if ipv4 { Domain::IPV4 } else { Domain::IPV6 };
    Ok(Socket::new(domain, Type::RAW, Some(Protocol::from(SCTP)))?.into())
}

fn without_header(bytes: &[u8], ipv4: bool) -> &[u8] {
    let header = if ipv4 { bytes.first().map_or(0, |first| usize::from(first & 15) * 4) } else { 0 };
    bytes.get(header..).unwrap_or_default()
}

/// Makes an association and returns what the server calls itself in its cookie, after the client's tag.
pub(super) fn associate(target: SocketAddr) -> io::Result<String> {
    /// Each attempt is a flow of its own.
    static NEXT: AtomicU16 = AtomicU16::new(40_000);
    let socket = raw(target.is_ipv4())?;
    socket.connect(SocketAddr::new(target.ip(), 0))?;
    let source = NEXT.fetch_add(1, Ordering::Relaxed);
    let own_tag = u32::from(source);
    let send = |tag, kind, value| {
        socket.send(&Packet { source, destination: target.port(), tag, kind, value }.encode())
    };
    let receive = |kind| {
        let mut buffer = [0; 2048];
        socket.set_read_timeout(Some(PATIENCE))?;
        loop {
            let length = socket.recv(&mut buffer)?;
            let packet = Packet::decode(without_header(&buffer[..length], target.is_ipv4()));
            let ours = |packet: &Packet| {
                packet.destination == source && packet.tag == own_tag && packet.kind == kind
            };
            if let Some(packet) = packet.filter(ours) {
                return Ok::<_, io::Error>(packet.value);
            }
        }
    };
    send(0, INIT, initiation(own_tag))?;
    let said = receive(INIT_ACK)?;
    let tag = word(&said, 0).ok_or(ErrorKind::InvalidData)?;
    let cookie = said.get(PARAMETERS + 4..).unwrap_or_default().to_vec();
    send(tag, COOKIE_ECHO, cookie.clone())?;
    receive(COOKIE_ACK)?;
    Ok(String::from_utf8_lossy(cookie.get(4..).unwrap_or_default()).into_owned())
}

/// The server's half, on a port.
pub(super) struct Responder {
    socket: UdpSocket,
    ipv4: bool,
    port: u16,
    name: String,
}

impl Responder {
    pub(super) fn new(ipv4: bool, port: u16, name: &str) -> io::Result<Self> {
        let socket = raw(ipv4)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { socket, ipv4, port, name: name.to_owned() })
    }

    /// Answers one packet, if one comes.
    pub(super) fn step(&self) -> io::Result<()> {
        let mut buffer = [0; 2048];
        let (length, mut from) = self.socket.recv_from(&mut buffer)?;
        let packet = Packet::decode(without_header(&buffer[..length], self.ipv4));
        let Some(packet) = packet.filter(|packet| packet.destination == self.port) else { return Ok(()) };
        let answer = match packet.kind {
            INIT => {
                let Some(tag) = word(&packet.value, 0) else { return Ok(()) };
                let cookie = [&tag.to_be_bytes(), self.name.as_bytes()].concat();
                let parameter =
                    [&STATE_COOKIE.to_be_bytes()[..], &two_bytes(4 + cookie.len()), &cookie].concat();
                packet.answer(tag, INIT_ACK, [initiation(SERVER_TAG), parameter].concat())
            }
            COOKIE_ECHO if packet.tag == SERVER_TAG => {
                let Some(tag) = word(&packet.value, 0) else { return Ok(()) };
                packet.answer(tag, COOKIE_ACK, Vec::new())
            }
            _ => return Ok(()),
        };
        from.set_port(0);
        self.socket.send_to(&answer, from).map(drop)
    }
}

#[test]
fn packets_are_read_as_they_were_written_with_the_checksum_of_the_rfc() {
    assert_eq!(checksum(b"123456789"), 0xe306_9283);
    let packet = Packet { source: 1, destination: 2, tag: 3, kind: COOKIE_ECHO, value: b"cookie".to_vec() };
    let bytes = packet.encode();
    assert_eq!(bytes.len(), 24, "chunks are padded");
    assert_eq!(Packet::decode(&bytes), Some(packet));
    assert_eq!(Packet::decode(&bytes[..20]), None);
}

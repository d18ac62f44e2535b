//! Filter in the kernel (classic BPF): packets of sessions pass, all others are dropped where they arrive.

use std::net::IpAddr;

use socket2::SockFilter;

use super::Admitted;

const LOAD_WORD: u16 = 0x20;
const LOAD_BYTE: u16 = 0x30;
const LOAD_LENGTH: u16 = 0x80;
const AND: u16 = 0x54;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
const WHOLE: u32 = 0xffff;

/// Length of the UDP header.
const HEADER: u32 = 8;
/// Shortest packet.
const SHORTEST: u32 = 24;
/// Position of Your Discriminator.
const YOUR_DISCRIMINATOR: u32 = 8;
/// The first three bits of a packet: its version.
const VERSION_MASK: u32 = 0xe0;
const VERSION_1: u32 = 0x20;
/// Index of the interface by which a packet arrived (`SKF_AD_OFF`, `SKF_AD_IFINDEX`).
const INTERFACE: u32 = 0xffff_f008;

/// Offsets of the headers, as a program reads them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offsets {
    pub(super) ip: u32,
    pub(super) udp: u32,
}

/// A UDP socket sees its own header first; that of IP is asked for (`SKF_NET_OFF`).
const OF_SOCKET: Offsets = Offsets { ip: 0xfff0_0000, udp: 0 };

/// Passes packets of these sessions, which are of one family: version, length, addresses, interface, TTL and discriminator.
pub(super) fn program(sessions: &[Admitted]) -> Vec<SockFilter> {
    program_at(OF_SOCKET, sessions)
}

pub(super) fn program_at(at: Offsets, sessions: &[Admitted]) -> Vec<SockFilter> {
    let payload = at.udp.saturating_add(HEADER);
    let mut program = vec![
        SockFilter::new(LOAD_LENGTH, 0, 0, 0),
        SockFilter::new(JUMP_AT_LEAST, 1, 0, payload.saturating_add(SHORTEST)),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(LOAD_BYTE, 0, 0, payload),
        SockFilter::new(AND, 0, 0, VERSION_MASK),
        SockFilter::new(JUMP_EQUAL, 1, 0, VERSION_1),
        SockFilter::new(RETURN, 0, 0, 0),
    ];
    for session in sessions {
        program.extend(session_program(at, session));
    }
    program.push(SockFilter::new(RETURN, 0, 0, 0));
    program
}

/// Passes packets of one session, and goes on behind its end with others.
fn session_program(at: Offsets, session: &Admitted) -> Vec<SockFilter> {
    let (ttl, source, destination) = match session.peer {
        IpAddr::V4(_) => (8, 12, 16),
        IpAddr::V6(_) => (7, 8, 24),
    };
    let mut tests = Vec::new();
    for (offset, address) in [(source, session.peer), (destination, session.own)] {
        for (place, word) in (at.ip.saturating_add(offset)..).step_by(4).zip(words(address)) {
            tests.push((SockFilter::new(LOAD_WORD, 0, 0, place), JUMP_EQUAL, word));
        }
    }
    let hops = SockFilter::new(LOAD_BYTE, 0, 0, at.ip.saturating_add(ttl));
    tests.push((hops, JUMP_AT_LEAST, session.minimum_ttl.into()));
    if let Some(index) = session.interface {
        tests.push((SockFilter::new(LOAD_WORD, 0, 0, INTERFACE), JUMP_EQUAL, index));
    }
    let your = at.udp.saturating_add(HEADER).saturating_add(YOUR_DISCRIMINATOR);
    let end = [
        SockFilter::new(LOAD_WORD, 0, 0, your),
        SockFilter::new(JUMP_EQUAL, 1, 0, 0),
        SockFilter::new(JUMP_EQUAL, 0, 1, session.discriminator.get()),
        SockFilter::new(RETURN, 0, 0, WHOLE),
    ];
    let mut program = Vec::new();
    // A test takes two instructions; if it fails, all after it are passed over: at most 23.
    let after = (0..tests.len()).rev();
    for ((load, jump, value), after) in tests.into_iter().zip(after) {
        let beyond = after.saturating_mul(2).saturating_add(end.len());
        program.extend([load, SockFilter::new(jump, 0, u8::try_from(beyond).unwrap_or(u8::MAX), value)]);
    }
    program.extend(end);
    program
}

fn words(address: IpAddr) -> Vec<u32> {
    match address {
        IpAddr::V4(address) => vec![address.into()],
        IpAddr::V6(address) => {
            address.octets().as_chunks().0.iter().map(|word| u32::from_be_bytes(*word)).collect()
        }
    }
}

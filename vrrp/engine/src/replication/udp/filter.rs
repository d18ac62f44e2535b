//! Datagrams that the socket takes, decided in the kernel (classic BPF): a flood of others fills no buffer and wakes no thread.

use std::collections::BTreeSet;
use std::net::IpAddr;

use socket2::SockFilter;
use windlass_kernel::sockets::last_word;
use windlass_vrrp::Family;
use windlass_vrrp::replication::{MAGIC, MAX_DATAGRAM};

use super::HOPS;

#[cfg(test)]
mod tests;

/// Most peers that a filter tells apart, as for adverts: with more, any source passes.
const MOST_PEERS: usize = 256;
/// Length of the UDP header.
const HEADER: u32 = 8;
/// Shortest message.
const SHORTEST: u32 = 40;

const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_LENGTH: u16 = 0x80;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER: u16 = 0x25;
const JUMP_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
const WHOLE: u32 = 0xffff;

/// Offsets of the headers, as a program reads them.
#[derive(Clone, Copy, Debug)]
struct Offsets {
    ip: u32,
    udp: u32,
}

/// A UDP socket sees its own header first; that of IP is asked for (`SKF_NET_OFF`).
const OF_SOCKET: Offsets = Offsets { ip: 0xfff0_0000, udp: 0 };

/// Lets through datagrams from this port of these peers that crossed no router and begin as a message does.
pub(super) fn program(family: Family, port: u16, peers: &BTreeSet<IpAddr>) -> Vec<SockFilter> {
    program_at(OF_SOCKET, family, port, peers)
}

fn program_at(at: Offsets, family: Family, port: u16, peers: &BTreeSet<IpAddr>) -> Vec<SockFilter> {
    // The last 32 bits of the source: a sender that forges an address can forge any.
    let (hops, source) = match family {
        Family::V4 => (8, 12),
        Family::V6 => (7, 20),
    };
    let longest = u32::try_from(MAX_DATAGRAM).unwrap_or(u32::MAX);
    let mut program = vec![
        SockFilter::new(LOAD_LENGTH, 0, 0, 0),
        SockFilter::new(JUMP_AT_LEAST, 0, 1, at.udp.saturating_add(HEADER + SHORTEST)),
        SockFilter::new(JUMP_GREATER, 0, 1, at.udp.saturating_add(HEADER).saturating_add(longest)),
        SockFilter::new(RETURN, 0, 0, 0),
    ];
    for (load, offset, value) in [
        (LOAD_BYTE, at.ip.saturating_add(hops), u32::from(HOPS)),
        (LOAD_HALF, at.udp, u32::from(port)),
        (LOAD_WORD, at.udp.saturating_add(HEADER), u32::from_be_bytes(*MAGIC)),
    ] {
        program.push(SockFilter::new(load, 0, 0, offset));
        program.push(SockFilter::new(JUMP_EQUAL, 1, 0, value));
        program.push(SockFilter::new(RETURN, 0, 0, 0));
    }
    let words: BTreeSet<u32> = peers.iter().copied().map(last_word).collect();
    if words.len() > MOST_PEERS {
        program.push(SockFilter::new(RETURN, 0, 0, WHOLE));
        return program;
    }
    program.push(SockFilter::new(LOAD_WORD, 0, 0, at.ip.saturating_add(source)));
    for word in words {
        program.push(SockFilter::new(JUMP_EQUAL, 0, 1, word));
        program.push(SockFilter::new(RETURN, 0, 0, WHOLE));
    }
    program.push(SockFilter::new(RETURN, 0, 0, 0));
    program
}

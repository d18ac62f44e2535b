//! Filter in the kernel (classic BPF) that passes to a socket only events of connections to some VIPs.
//!
//! The kernel makes an event's message before it asks the filter; what is saved is its way to this process.

use std::collections::BTreeSet;
use std::net::IpAddr;

use socket2::SockFilter;

use crate::sockets::last_word;

#[cfg(test)]
mod tests;

/// Maximum number of VIPs that a filter distinguishes. The kernel limits a socket's filters to 20 KB (`net.core.optmem_max` of old
/// kernels); while one is replaced, both count.
const MOST_VIPS: usize = 256;
/// Offset of the family in a message: behind the header of netlink (`linux/netfilter/nfnetlink.h`).
const FAMILY: u32 = 16;
const IPV4: u32 = 2;
/// Offset of the last 32 bits of the first packet's destination: the attribute of the original tuple is the first one, its addresses
/// are the first in it, and the source comes before the destination.
const DESTINATION_V4: u32 = 40;
const DESTINATION_V6: u32 = 64;

const LOAD_WORD: u16 = 0x20;
const LOAD_BYTE: u16 = 0x30;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const WHOLE: u32 = 0xffff;

/// Passes events of connections to these VIPs, distinguished by their last 32 bits; all events, if there are too many VIPs.
pub(super) fn program(vips: &BTreeSet<IpAddr>) -> Vec<SockFilter> {
    let words = |is_v4: bool| -> BTreeSet<u32> {
        vips.iter().filter(|vip| vip.is_ipv4() == is_v4).copied().map(last_word).collect()
    };
    let (v4, v6) = (words(true), words(false));
    if v4.len().saturating_add(v6.len()) > MOST_VIPS {
        return vec![SockFilter::new(RETURN, 0, 0, WHOLE)];
    }
    let v4 = one_of(DESTINATION_V4, &v4);
    let beyond = u32::try_from(v4.len()).unwrap_or(u32::MAX);
    let mut program = vec![
        SockFilter::new(LOAD_BYTE, 0, 0, FAMILY),
        SockFilter::new(JUMP_EQUAL, 1, 0, IPV4),
        SockFilter::new(JUMP, 0, 0, beyond),
    ];
    program.extend(v4);
    program.extend(one_of(DESTINATION_V6, &v6));
    program
}

/// Passes messages with one of these words at this offset.
fn one_of(offset: u32, words: &BTreeSet<u32>) -> Vec<SockFilter> {
    let mut program = vec![SockFilter::new(LOAD_WORD, 0, 0, offset)];
    for word in words {
        program.push(SockFilter::new(JUMP_EQUAL, 0, 1, *word));
        program.push(SockFilter::new(RETURN, 0, 0, WHOLE));
    }
    program.push(SockFilter::new(RETURN, 0, 0, 0));
    program
}

//! Which events a socket gets, decided in the kernel (classic BPF): those about connections to some VIPs.
//!
//! The kernel makes an event's message before it asks the filter; what is saved is its way to this process.

use std::collections::BTreeSet;
use std::net::IpAddr;

use socket2::SockFilter;

use crate::sockets::last_word;

#[cfg(test)]
mod tests;

/// Most VIPs that a filter tells apart. The kernel takes 20 KB of filters of a socket (`net.core.optmem_max` of old ones), while
/// one is replaced both of them.
const MOST_VIPS: usize = 256;
/// Where messages tell the family: behind the header of netlink (`linux/netfilter/nfnetlink.h`).
const FAMILY: u32 = 16;
const IPV4: u32 = 2;
/// Where they tell the last 32 bits of the destination of the first packet: the attribute of the original tuple is the first one, its
/// addresses are the first in it, and the source comes before the destination.
const DESTINATION_V4: u32 = 40;
const DESTINATION_V6: u32 = 64;

const LOAD_WORD: u16 = 0x20;
const LOAD_BYTE: u16 = 0x30;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const WHOLE: u32 = 0xffff;

/// Lets through events about connections to these VIPs, told apart by their last 32 bits; all, if there are too many.
pub(super) fn program(vips: &BTreeSet<IpAddr>) -> Vec<SockFilter> {
    let words = |is_v4: bool| -> BTreeSet<u32> {
        vips.iter().filter(|vip| vip.is_ipv4() == is_v4).copied().map(last_word).collect()
    };
    let (v4, v6) = (words(true), words(false));
    if v4.len() + v6.len() > MOST_VIPS {
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

/// Lets through what has one of these words there.
fn one_of(offset: u32, words: &BTreeSet<u32>) -> Vec<SockFilter> {
    let mut program = vec![SockFilter::new(LOAD_WORD, 0, 0, offset)];
    for word in words {
        program.push(SockFilter::new(JUMP_EQUAL, 0, 1, *word));
        program.push(SockFilter::new(RETURN, 0, 0, WHOLE));
    }
    program.push(SockFilter::new(RETURN, 0, 0, 0));
    program
}

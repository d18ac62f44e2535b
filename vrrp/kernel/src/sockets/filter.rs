//! Filters in the kernel (classic BPF) that select the adverts a socket receives.

use std::collections::BTreeSet;
use std::net::IpAddr;

use socket2::SockFilter;
use windlass_vrrp::{Family, Vrid};

#[cfg(test)]
mod tests;

/// A set of VRIDs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VridSet([u32; 8]);

impl VridSet {
    pub(crate) const EMPTY: Self = Self([0; 8]);

    /// Returns true if the set contains this VRID.
    pub(crate) fn contains(&self, vrid: Vrid) -> bool {
        self.0[usize::from(vrid.get() >> 5)] & (1 << (vrid.get() & 31)) != 0
    }

    fn insert(&mut self, vrid: Vrid) {
        self.0[usize::from(vrid.get() >> 5)] |= 1 << (vrid.get() & 31);
    }
}

impl FromIterator<Vrid> for VridSet {
    fn from_iter<I: IntoIterator<Item = Vrid>>(vrids: I) -> Self {
        let mut set = Self::EMPTY;
        for vrid in vrids {
            set.insert(vrid);
        }
        set
    }
}

/// Maximum number of sources that a filter distinguishes. The kernel limits a socket's filters to 20 KB (`net.core.optmem_max` of old
/// kernels); while one is replaced, both count.
const MOST_SOURCES: usize = 256;

/// The last 32 bits of sources, which are all that is compared: the filter keeps foreign senders away from a thread, and a sender
/// that forges an address can forge any. `None`: all sources.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Sources(Option<BTreeSet<u32>>);

impl Sources {
    fn contains(&self, source: IpAddr) -> bool {
        self.0.as_ref().is_none_or(|sources| sources.contains(&last_word(source)))
    }
}

/// Filter of the adverts that reach the thread that elects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdvertFilter {
    vrids: VridSet,
    sources: Sources,
}

impl AdvertFilter {
    /// Passes nothing.
    pub(crate) const NOTHING: Self = Self { vrids: VridSet::EMPTY, sources: Sources(None) };

    /// Passes adverts of these VRIDs from these sources, or from all sources if there are more than a filter can distinguish.
    pub fn new(vrids: VridSet, sources: impl Iterator<Item = IpAddr>) -> Self {
        let sources: BTreeSet<u32> = sources.map(last_word).collect();
        Self { vrids, sources: Sources(Some(sources).filter(|sources| sources.len() <= MOST_SOURCES)) }
    }

    /// The same from all sources.
    #[must_use]
    pub fn with_any_source(&self) -> Self {
        Self { vrids: self.vrids, sources: Sources(None) }
    }

    /// Returns true if it passes the adverts of these peers with this VRID.
    pub fn passes(&self, vrid: Vrid, peers: &BTreeSet<IpAddr>) -> bool {
        self.vrids.contains(vrid) && peers.iter().all(|peer| self.sources.contains(*peer))
    }
}

/// The last 32 bits of an address.
pub fn last_word(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(v4) => v4.to_bits(),
        IpAddr::V6(v6) => {
            let [.., a, b, c, d] = v6.octets();
            u32::from_be_bytes([a, b, c, d])
        }
    }
}

const LOAD_WORD: u16 = 0x20;
const JUMP: u16 = 0x05;
const LOAD_BYTE_INDEXED: u16 = 0x50;
pub(super) const LOAD_LENGTH: u16 = 0x80;
const LOAD_IMMEDIATE: u16 = 0x00;
const LOAD_MEMORY: u16 = 0x60;
const LOAD_X_HEADER: u16 = 0xb1;
const LOAD_X_IMMEDIATE: u16 = 0x01;
const STORE: u16 = 0x02;
const TO_X: u16 = 0x07;
const SUBTRACT_X: u16 = 0x1c;
const AND: u16 = 0x54;
const SHIFT_LEFT_X: u16 = 0x6c;
const SHIFT_RIGHT: u16 = 0x74;
pub(super) const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
pub(super) const RETURN: u16 = 0x06;
pub(super) const WHOLE: u32 = 0xffff;

/// Program that passes nothing.
pub(super) fn nothing() -> [SockFilter; 1] {
    [SockFilter::new(RETURN, 0, 0, 0)]
}

/// Program that passes the adverts that this filter passes.
pub(super) fn own(family: Family, filter: &AdvertFilter) -> Vec<SockFilter> {
    program(family, filter, WHOLE, 0)
}

/// Program that passes all other packets, and packets too short to have a VRID.
pub(super) fn foreign(family: Family, own: &AdvertFilter) -> Vec<SockFilter> {
    program(family, own, 0, WHOLE)
}

/// Offset of the last 32 bits of the source. An IPv4 raw socket sees the IP header; IPv6 has to request it (`SKF_NET_OFF`).
fn source_offset(family: Family) -> u32 {
    const NETWORK_HEADER: u32 = 0xfff0_0000;
    match family {
        Family::V4 => 12,
        Family::V6 => NETWORK_HEADER + 20,
    }
}

/// Program that returns `member` for adverts that the filter passes, and `other` for all other packets.
fn program(family: Family, filter: &AdvertFilter, member: u32, other: u32) -> Vec<SockFilter> {
    let AdvertFilter { vrids, sources: Sources(sources) } = filter;
    let mut program = Vec::new();
    if let Some(sources) = sources {
        program.push(SockFilter::new(LOAD_WORD, 0, 0, source_offset(family)));
        for (source, after) in sources.iter().zip((0..sources.len()).rev()) {
            // To behind the others and the return. (A conditional jump reaches 255 instructions, these are twice as many.)
            let beyond = u32::try_from(after.saturating_mul(2).saturating_add(1)).unwrap_or(u32::MAX);
            program.push(SockFilter::new(JUMP_EQUAL, 0, 1, *source));
            program.push(SockFilter::new(JUMP, 0, 0, beyond));
        }
        program.push(SockFilter::new(RETURN, 0, 0, other));
    }
    program.extend(vrid_program(family, *vrids, member, other));
    program
}

/// The same by the VRID alone. An IPv4 raw socket sees the IP header, an IPv6 one does not.
fn vrid_program(family: Family, vrids: VridSet, member: u32, other: u32) -> Vec<SockFilter> {
    let header = match family {
        Family::V4 => SockFilter::new(LOAD_X_HEADER, 0, 0, 0),
        Family::V6 => SockFilter::new(LOAD_X_IMMEDIATE, 0, 0, 0),
    };
    let mut program = vec![
        header,
        SockFilter::new(LOAD_LENGTH, 0, 0, 0),
        SockFilter::new(SUBTRACT_X, 0, 0, 0),
        // Shorter than version and VRID.
        SockFilter::new(JUMP_AT_LEAST, 1, 0, 2),
        SockFilter::new(RETURN, 0, 0, other),
        SockFilter::new(LOAD_BYTE_INDEXED, 0, 0, 1),
        SockFilter::new(STORE, 0, 0, 0),
        // Memory 1: the bit within its word.
        SockFilter::new(AND, 0, 0, 31),
        SockFilter::new(TO_X, 0, 0, 0),
        SockFilter::new(LOAD_IMMEDIATE, 0, 0, 1),
        SockFilter::new(SHIFT_LEFT_X, 0, 0, 0),
        SockFilter::new(STORE, 0, 0, 1),
        SockFilter::new(LOAD_MEMORY, 0, 0, 0),
        SockFilter::new(SHIFT_RIGHT, 0, 0, 5),
    ];
    for (number, word) in (0..).zip(vrids.0) {
        program.extend([
            SockFilter::new(JUMP_EQUAL, 0, 5, number),
            SockFilter::new(LOAD_MEMORY, 0, 0, 1),
            SockFilter::new(AND, 0, 0, word),
            SockFilter::new(JUMP_EQUAL, 0, 1, 0),
            SockFilter::new(RETURN, 0, 0, other),
            SockFilter::new(RETURN, 0, 0, member),
        ]);
    }
    program.push(SockFilter::new(RETURN, 0, 0, other));
    program
}

//! Which adverts a socket gets, decided in the kernel (classic BPF).

use socket2::SockFilter;
use windlass_vrrp::{Family, Vrid};

#[cfg(test)]
mod tests;

/// A set of VRIDs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VridSet([u32; 8]);

impl VridSet {
    pub(crate) const EMPTY: Self = Self([0; 8]);

    /// Whether it is one of them.
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

const LOAD_BYTE_INDEXED: u16 = 0x50;
const LOAD_LENGTH: u16 = 0x80;
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
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
const WHOLE: u32 = 0xffff;

/// Lets nothing through.
pub(super) fn nothing() -> [SockFilter; 1] {
    [SockFilter::new(RETURN, 0, 0, 0)]
}

/// Adverts of these VRIDs.
pub(super) fn own(family: Family, vrids: &VridSet) -> Vec<SockFilter> {
    program(family, vrids, WHOLE, 0)
}

/// Adverts of all other VRIDs, and packets too short to have one.
pub(super) fn foreign(family: Family, own: &VridSet) -> Vec<SockFilter> {
    program(family, own, 0, WHOLE)
}

/// What is returned for a VRID in the set and for all else. An IPv4 raw socket sees the IP header, an IPv6 one does not.
fn program(family: Family, vrids: &VridSet, member: u32, other: u32) -> Vec<SockFilter> {
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

//! Nodes that may have connections of lots of shared addresses.
//!
//! The hops that a packet has left limit how often it is passed on: the first node that does so leaves it as many as it may be passed on, and
//! [`FEWEST_HOPS`]. So a packet that no node knows ends after one round, whatever the tables of the nodes say. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use windlass_kernel::mark_mask::MarkMask;
use windlass_kernel::port::Protocol;

use crate::sharing::SharedBy;

/// Hops that are left of a packet that is passed on no more: enough for its way to a pod.
pub(super) const FEWEST_HOPS: u8 = 4;
/// Most times that a packet is passed on.
pub(super) const MOST_TIMES: u8 = 4;

/// Nodes that may have connections of lots of shared addresses: a packet that this node does not know is passed to them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the user")]
pub struct Trails {
    /// Next node for unknown packets of each lot, by address and protocol.
    pub services: BTreeMap<(IpAddr, Protocol), Arc<Steps>>,
    /// Addresses and marks of the nodes to which their packets are passed. A connection that was passed on stays so while its mark is here.
    pub marked: BTreeSet<(IpAddr, u32)>,
}

/// Parts of a packet that determine its lot, and the next node of each lot.
pub type Steps = (SharedBy, BTreeMap<u8, Step>);

/// Next node for a packet that this node does not know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the parts of an element")]
pub struct Step {
    /// Mark of the packets and connections that are sent to that node.
    pub mark: u32,
    /// Most times that a packet is passed on, to that node included: four at most.
    pub times: u8,
}

impl Trails {
    /// Returns true if packets to this address are passed on.
    pub(super) fn knows(&self, address: IpAddr) -> bool {
        self.marked.range((address, 0)..).next().is_some_and(|(marked, _)| *marked == address)
    }
}

impl Step {
    /// Data of an element: the mark, and a bit of its own for [`Self::times`].
    pub(super) fn data(self, marks: MarkMask) -> u32 {
        self.mark | bit_of(self.times, marks)
    }
}

/// Returns the bit that stands for this number of times. It is none of the marks' bits.
pub(super) fn bit_of(times: u8, marks: MarkMask) -> u32 {
    let first = if marks.get().trailing_zeros() >= u32::from(MOST_TIMES) { 0 } else { 24 };
    let place = u32::from(times.clamp(1, MOST_TIMES)).saturating_sub(1);
    1_u32.checked_shl(place.saturating_add(first)).unwrap_or_default()
}

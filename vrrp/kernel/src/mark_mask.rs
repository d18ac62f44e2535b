//! The bits of packet marks that an engine uses.

use std::fmt;

/// Neighbouring bits of the packet mark: with n of them 2ⁿ − 1 nodes of each family are distinguished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MarkMask(u32);

impl MarkMask {
    /// More nodes than have a routing table of their own.
    const MOST_BITS: u32 = 8;
    /// 0xf.
    pub const LOWEST: Self = Self(0xf);
    /// kube-proxy's marks for packets that it masquerades or drops.
    const KUBE_PROXY: u32 = 0xc000;

    /// One to eight bits side by side, none of them kube-proxy's 0x4000 and 0x8000.
    pub const fn new(mask: u32) -> Result<Self, InvalidMarkMask> {
        let bits = mask.count_ones();
        let side_by_side = bits != 0 && (mask >> mask.trailing_zeros()).trailing_ones() == bits;
        if side_by_side && bits <= Self::MOST_BITS && mask & Self::KUBE_PROXY == 0 {
            Ok(Self(mask))
        } else {
            Err(InvalidMarkMask { mask })
        }
    }

    /// As a number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the number of marks.
    pub const fn count(self) -> u32 {
        self.0 >> self.0.trailing_zeros()
    }

    /// The mark with this number, from 1 to [`Self::count`].
    pub const fn mark(self, number: u32) -> u32 {
        number << self.0.trailing_zeros() & self.0
    }
}

impl Default for MarkMask {
    /// 0xf0: no bit of kube-proxy's (0xc000), Cilium's (0xffff0f00), Calico's (0xffff0000) or Tailscale's (0xff0000).
    fn default() -> Self {
        Self(0xf0)
    }
}

impl fmt::Display for MarkMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Reason why bits are not accepted as a mask of marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{mask:#x} is no mask of packet marks: use one to eight bits side by side, without kube-proxy's 0x4000 and 0x8000, as 0xf0"
)]
#[non_exhaustive]
pub struct InvalidMarkMask {
    /// The refused mask.
    pub mask: u32,
}

//! The mark of an engine's addresses.

/// IFA_PROTO of the addresses that an engine adds to interfaces: it identifies them for removal after a crash, and distinguishes
/// them from the interface's own. Engines that run on one host at the same time need different ones, or each would sweep the other's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AddressTag(u8);

impl AddressTag {
    /// All tags of this engine: addresses with one of them are VIPs, of whichever engine.
    const FIRST: u8 = 0x50;
    /// The lowest tag.
    pub const LOWEST: Self = Self(Self::FIRST);
    const LAST: u8 = 0x5f;

    /// 0x57.
    pub(crate) const DEFAULT: Self = Self(0x57);

    /// Returns the tag with this number, from 0x50 to 0x5f; `None` for other numbers, which belong to other programs.
    pub const fn new(number: u8) -> Option<Self> {
        if Self::is_engine_tag(number) { Some(Self(number)) } else { None }
    }

    /// Its number, as `ip address` shows behind `proto`.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Returns true if an address of this IFA_PROTO is a VIP of some engine.
    pub(crate) const fn is_engine_tag(number: u8) -> bool {
        Self::FIRST <= number && number <= Self::LAST
    }
}

impl Default for AddressTag {
    /// 0x57.
    fn default() -> Self {
        Self::DEFAULT
    }
}

//! One range of addresses: a CIDR, `a-b` with both ends included, or a single address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;

use crate::Family;
use crate::family::number;

/// Addresses from `first` to `last`, both included, of one family, none of them loopback, multicast, unspecified or
/// broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressRange {
    first: IpAddr,
    last: IpAddr,
}

/// Reason why a text is not a range that can be given to Services; each message contains what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseRangeError {
    /// Neither a CIDR nor a range nor an address.
    #[error(
        "address range {0:?} is neither a CIDR nor a range nor an address: write 192.0.2.0/28, 192.0.2.10-192.0.2.20 or 192.0.2.10"
    )]
    Syntax(String),
    /// One end of `a-b` is not an address.
    #[error(
        "address range {text:?}: {end:?} is not an IP address: write two addresses, as 192.0.2.10-192.0.2.20"
    )]
    BadEnd {
        /// The range as written.
        text: String,
        /// The end that is wrong.
        end: String,
    },
    /// The part before or after the `/` is wrong.
    #[error(
        "address range {0:?} is not a valid CIDR: write an address and a prefix length, as 192.0.2.0/28 or \
             2001:db8::/64"
    )]
    BadCidr(String),
    /// Bits set behind the prefix length: the subnet and the address are both possible meanings.
    #[error(
        "address range {text:?} has bits set behind its prefix length: write {network} for the whole subnet, or \
             {address}/{bits} for the one address"
    )]
    HostBits {
        /// The range as written.
        text: String,
        /// The subnet it may mean.
        network: IpNet,
        /// The address it may mean.
        address: IpAddr,
        /// Prefix length of one address.
        bits: u8,
    },
    /// One end is IPv4, the other IPv6.
    #[error("address range {0:?} mixes IPv4 and IPv6: write one range for each family")]
    MixedFamily(String),
    /// The first address is above the last.
    #[error("address range {text:?} ends before it begins: write {last}-{first}")]
    Inverted {
        /// The range as written.
        text: String,
        /// First address as written.
        first: IpAddr,
        /// Last address as written.
        last: IpAddr,
    },
    /// It holds addresses that no Service can have.
    #[error("address range {text:?} includes {what}, which cannot be given to a Service: leave {part} out")]
    Unusable {
        /// The range as written.
        text: String,
        /// Kind of these addresses.
        what: &'static str,
        /// Which addresses.
        part: &'static str,
    },
}

/// Addresses that no Service can have: kind, text, first and last.
const UNUSABLE: [(&str, &str, IpAddr, IpAddr); 7] = [
    (
        "the unspecified network",
        "0.0.0.0/8",
        IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V4(Ipv4Addr::new(0, 255, 255, 255)),
    ),
    (
        "loopback addresses",
        "127.0.0.0/8",
        IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)),
        IpAddr::V4(Ipv4Addr::new(127, 255, 255, 255)),
    ),
    (
        "multicast addresses",
        "224.0.0.0/4",
        IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0)),
        IpAddr::V4(Ipv4Addr::new(239, 255, 255, 255)),
    ),
    (
        "the broadcast address",
        "255.255.255.255",
        IpAddr::V4(Ipv4Addr::BROADCAST),
        IpAddr::V4(Ipv4Addr::BROADCAST),
    ),
    (
        "the unspecified and loopback addresses",
        "::/127",
        IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ),
    (
        "IPv4-mapped addresses",
        "::ffff:0:0/96",
        IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0)),
        IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0xffff, 0xffff)),
    ),
    (
        "multicast addresses",
        "ff00::/8",
        IpAddr::V6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0)),
        IpAddr::V6(Ipv6Addr::new(0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff)),
    ),
];

impl AddressRange {
    /// The range of one address, whatever the address is: for what is known to be in use, not for what may be given.
    pub const fn single(address: IpAddr) -> Self {
        Self { first: address, last: address }
    }

    /// Lowest address.
    pub const fn first(&self) -> IpAddr {
        self.first
    }

    /// Highest address.
    pub const fn last(&self) -> IpAddr {
        self.last
    }

    /// Family of both ends.
    pub const fn family(&self) -> Family {
        Family::of(self.first)
    }

    /// Returns true if `address` lies in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        Family::of(address) == self.family() && self.first <= address && address <= self.last
    }

    fn checked(text: &str, first: IpAddr, last: IpAddr) -> Result<Self, ParseRangeError> {
        let text = text.to_owned();
        if Family::of(first) != Family::of(last) {
            return Err(ParseRangeError::MixedFamily(text));
        }
        if number(first) > number(last) {
            return Err(ParseRangeError::Inverted { text, first, last });
        }
        for (what, part, low, high) in UNUSABLE {
            if Family::of(low) == Family::of(first) && first <= high && low <= last {
                return Err(ParseRangeError::Unusable { text, what, part });
            }
        }
        Ok(Self { first, last })
    }
}

impl From<IpNet> for AddressRange {
    /// The addresses of a subnet, whatever they are: for what is known to be in use, not for what may be given.
    fn from(net: IpNet) -> Self {
        Self { first: net.network(), last: net.broadcast() }
    }
}

impl FromStr for AddressRange {
    type Err = ParseRangeError;

    /// Blanks around the whole and around the `-` are allowed.
    fn from_str(text: &str) -> Result<Self, ParseRangeError> {
        let text = text.trim();
        if let Some((first, last)) = text.split_once('-') {
            let end = |end: &str| {
                let end = end.trim();
                end.parse::<IpAddr>()
                    .map_err(|_| ParseRangeError::BadEnd { text: text.to_owned(), end: end.to_owned() })
            };
            return Self::checked(text, end(first)?, end(last)?);
        }
        if text.contains('/') {
            let net = cidr(text).ok_or_else(|| ParseRangeError::BadCidr(text.to_owned()))?;
            if net.addr() != net.network() {
                return Err(ParseRangeError::HostBits {
                    text: text.to_owned(),
                    network: net.trunc(),
                    address: net.addr(),
                    bits: net.max_prefix_len(),
                });
            }
            return Self::checked(text, net.network(), net.broadcast());
        }
        match text.parse() {
            Ok(address) => Self::checked(text, address, address),
            Err(_) => Err(ParseRangeError::Syntax(text.to_owned())),
        }
    }
}

/// `ipnet` takes leading zeros in the octets and in the prefix length, which some read as octal: they are refused here.
fn cidr(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    let bits: u8 = length.parse().ok()?;
    IpNet::new(address.parse().ok()?, bits).ok().filter(|_| bits.to_string() == length)
}

impl fmt::Display for AddressRange {
    /// `a-b`, or `a` alone if it holds one address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

#[cfg(test)]
mod tests;

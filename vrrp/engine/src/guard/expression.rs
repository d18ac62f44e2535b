//! The expressions that a rule consists of. All compute in one register, of which they may fill several words one by one.
//!
//! Names and numbers: `linux/netfilter/nf_tables.h`.

use super::attributes::Attributes;

#[cfg(test)]
mod tests;

const LIST_ELEMENT: u16 = 1;
const REGISTER: u32 = 1;
/// The first word of the register, where words are counted.
const FIRST_WORD: u32 = 8;
const VERDICT_REGISTER: u32 = 0;

/// One step of a rule. A step that does not hold ends the rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Expression {
    /// Loads what the kernel knows about the packet.
    Meta(Meta),
    /// Loads bytes of the packet.
    Payload { base: Base, offset: u32, length: u32 },
    /// Loads as the other does, from this word of the register on: what comes before it stays.
    From(u32, &'static Self),
    /// Loads the state that connection tracking gives the packet, in the machine's byte order.
    ConnectionState,
    /// Keeps these bits.
    Mask([u8; 4]),
    /// Compares what was loaded, as bytes from the left.
    Compare(Comparison, &'static [u8]),
    /// Holds if the set has what was loaded.
    In(&'static str),
    /// Holds if the set has not what was loaded.
    NotIn(&'static str),
    /// Counts packets and bytes.
    Counter,
    /// Translates the destination to the node itself: on input to the interface's first address, on output to loopback.
    Redirect,
    /// Drops the packet and tells its sender.
    Reject(Answer),
    /// Ends the rule.
    Verdict(Verdict),
}

/// What the kernel knows about a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Meta {
    /// IPv4 or IPv6, one byte.
    Family = 15,
    /// The protocol after IP and its extension headers, one byte.
    Protocol = 16,
}

/// Where an offset counts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Base {
    Network = 1,
    Transport = 2,
}

/// How to compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Comparison {
    Equal = 0,
    NotEqual = 1,
    AtMost = 3,
    AtLeast = 5,
}

/// How to tell the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    TcpReset,
    /// ICMP or ICMPv6 by the packet's family. The kernel answers no ICMP error and no fragment.
    PortUnreachable,
}

/// What becomes of the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Drop,
    /// Done with this chain; chains of later priorities still see the packet.
    Accept,
    Goto(&'static str),
}

impl Expression {
    fn name(self) -> &'static str {
        match self {
            Self::Meta(_) => "meta",
            Self::Payload { .. } => "payload",
            Self::From(_, load) => load.name(),
            Self::ConnectionState => "ct",
            Self::Mask(_) => "bitwise",
            Self::Compare(..) => "cmp",
            Self::In(_) | Self::NotIn(_) => "lookup",
            Self::Counter => "counter",
            Self::Redirect => "redir",
            Self::Reject(_) => "reject",
            Self::Verdict(_) => "immediate",
        }
    }

    fn data(self, register: u32) -> Attributes {
        let data = Attributes::new();
        match self {
            Self::Meta(key) => data.number(1, register).number(2, key as u32),
            Self::Payload { base, offset, length } => {
                data.number(1, register).number(2, base as u32).number(3, offset).number(4, length)
            }
            Self::From(word, load) => load.data(FIRST_WORD + word),
            Self::ConnectionState => data.number(1, register).number(2, 0),
            Self::Mask(mask) => data
                .number(1, register)
                .number(2, register)
                .number(3, 4)
                .nest(4, &value(&mask))
                .nest(5, &value(&[0; 4])),
            Self::Compare(comparison, with) => {
                data.number(1, register).number(2, comparison as u32).nest(3, &value(with))
            }
            Self::In(set) => data.text(1, set).number(2, register),
            Self::NotIn(set) => data.text(1, set).number(2, register).number(5, 1),
            Self::Counter | Self::Redirect => data,
            Self::Reject(Answer::TcpReset) => data.number(1, 1),
            // Type 2 is "by family", its code 1 is "port".
            Self::Reject(Answer::PortUnreachable) => data.number(1, 2).bytes(2, &[1]),
            Self::Verdict(verdict) => {
                let verdict = match verdict {
                    Verdict::Drop => Attributes::new().number(1, 0),
                    Verdict::Accept => Attributes::new().number(1, 1),
                    Verdict::Goto(chain) => {
                        Attributes::new().number(1, (-4_i32).cast_unsigned()).text(2, chain)
                    }
                };
                data.number(1, VERDICT_REGISTER).nest(2, &Attributes::new().nest(2, &verdict))
            }
        }
    }
}

/// Bytes as nf_tables takes data.
pub(super) fn value(bytes: &[u8]) -> Attributes {
    Attributes::new().bytes(1, bytes)
}

/// A rule's expressions as the kernel takes them.
pub(super) fn encode(expressions: &[Expression]) -> Attributes {
    expressions.iter().fold(Attributes::new(), |list, expression| {
        let named = Attributes::new().text(1, expression.name());
        let data = expression.data(REGISTER);
        let whole = if data.is_empty() { named } else { named.nest(2, &data) };
        list.nest(LIST_ELEMENT, &whole)
    })
}

//! The expressions that a rule consists of. All compute in one register, of which they may fill several words one by one.
//!
//! Names and numbers: `linux/netfilter/nf_tables.h`.

use crate::netfilter::attributes::{self, Attributes};

#[cfg(test)]
mod tests;

const LIST_ELEMENT: u16 = 1;
const REGISTER: u32 = 1;
/// The packet's mark, among what the kernel knows about a packet.
const PACKET_MARK: u32 = 3;
/// The first word of the register, where words are counted.
const FIRST_WORD: u32 = 8;
const VERDICT_REGISTER: u32 = 0;
/// Keys of the addresses and the port that connection tracking knows, by family.
const ORIGINAL_SOURCE_V4: u32 = 19;
const ORIGINAL_SOURCE_V6: u32 = 21;
const ORIGINAL_DESTINATION_V4: u32 = 20;
const ORIGINAL_DESTINATION_V6: u32 = 22;
const ORIGINAL_DESTINATION_PORT: u32 = 12;
/// Flag of a translation: its port is drawn, as kube-proxy has it.
const FULLY_RANDOM: u32 = 1 << 4;

/// One step of a rule. A step that does not hold ends the rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expression {
    /// Loads what the kernel knows about the packet.
    Meta(Meta),
    /// Loads bytes of the packet.
    Payload {
        /// Header from which `offset` counts.
        base: Base,
        /// First byte.
        offset: u32,
        /// Number of bytes.
        length: u32,
    },
    /// Writes what was loaded into the packet.
    Write {
        /// Header from which `offset` counts.
        base: Base,
        /// First byte.
        offset: u32,
        /// Number of bytes.
        length: u32,
        /// Offset of the header's checksum, which follows the change.
        checksum: Option<u32>,
    },
    /// Takes the packet from connection tracking, which knows no connection of it.
    Untrack,
    /// Does the same as the other step, but loads from this word of the register on: earlier words stay.
    From(u32, &'static Self),
    /// Loads what connection tracking knows about the packet's connection, in the machine's byte order.
    Connection(Connection),
    /// Loads the destination that the first packet of the packet's connection had, of this many bytes.
    OriginalDestination(Length),
    /// Loads the source that the first packet of the packet's connection had, of this many bytes.
    OriginalSource(Length),
    /// Loads the destination port that the first packet of the packet's connection had.
    OriginalPort,
    /// Loads a number below this one, another for each packet by chance, in the machine's byte order.
    Chance(u32),
    /// Loads a number below [`Hash::below`] by the hash of what was loaded, in the machine's byte order.
    Hash(Hash),
    /// Loads 1 if the packet has an IPv6 extension header of this number, else 0; one byte.
    HasHeader(u8),
    /// Loads these bytes.
    Load(&'static [u8]),
    /// Marks the connection, as long as it is tracked, with what was loaded.
    MarkConnection,
    /// Limits the events of the connection that the kernel sends to listeners to the loaded ones. For a connection that is new.
    MaskEvents,
    /// Gives the connection the labels that were loaded.
    LabelConnection,
    /// Marks the packet, for the routing of this node, with what was loaded.
    MarkPacket,
    /// Keeps these bits of four bytes.
    Mask([u8; 4]),
    /// Keeps these bits of the four bytes in this word of the register.
    MaskAt(u32, [u8; 4]),
    /// Keeps the first bits of four bytes, and inverts the second ones.
    Change([u8; 4], [u8; 4]),
    /// Keeps these bits of one byte.
    MaskByte(u8),
    /// Compares what was loaded, as bytes from the left.
    Compare(Comparison, &'static [u8]),
    /// Holds if the set contains what was loaded.
    In(&'static str),
    /// Holds if the set does not contain what was loaded.
    NotIn(&'static str),
    /// Holds if the map contains what was loaded, and loads its data.
    Map(&'static str),
    /// Adds what was loaded to the set, if there is room.
    AddTo(&'static str),
    /// Counts packets and bytes.
    Counter,
    /// Translates the destination to the node itself: on input to the interface's first address, on output to loopback.
    Redirect,
    /// Translates the destination to the address of this family (as the kernel numbers it) that was loaded. Where it is the
    /// packet's own, nothing is translated, and later NAT chains leave the connection alone.
    TranslateTo(u8),
    /// Translates the destination to the address of this family that was loaded, and to the port in this word of the register.
    TranslateToPort(u8, u32),
    /// Translates the source to the address of the interface by which the packet leaves, with an unpredictable port.
    Masquerade,
    /// Translates the source to the address of this family that was loaded, with an unpredictable port.
    TranslateSourceTo(u8),
    /// Sends the frame to the neighbour whose address of this family (as the kernel numbers it) was loaded, by the interface whose
    /// number is in this word of the register. For tables of the family `netdev`.
    ForwardTo(u8, u32),
    /// Drops the packet and notifies its sender.
    Reject(Answer),
    /// Ends the rule.
    Verdict(Verdict),
}

/// The kernel's Jenkins hash of words of the register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the user")]
pub struct Hash {
    /// First word that is hashed.
    pub from: u32,
    /// Number of bytes that are hashed.
    pub length: u32,
    /// Word that gets the number.
    pub into: u32,
    /// Number of values.
    pub below: u32,
    /// Seed of the hash.
    pub seed: u32,
}

/// Metadata of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meta {
    /// Its mark, in the machine's byte order.
    Mark = 3,
    /// Number of the interface that it came by, in the machine's byte order. Packets from the node itself have none.
    InputInterface = 4,
    /// Kind of the interface that it came by (ARPHRD_…), two bytes in the machine's byte order.
    InputKind = 8,
    /// IPv4 or IPv6, one byte.
    Family = 15,
    /// The protocol after IP and its extension headers, one byte.
    Protocol = 16,
    /// Recipient of the frame: 0 if it is this host, one byte.
    Recipient = 19,
}

/// Properties of a tracked connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Connection {
    /// One bit of several: new, invalid, and so on.
    State = 0,
    /// 0 in the direction of the first packet, 1 in the other; one byte.
    Direction = 1,
    /// Bits of what has happened to it.
    Status = 2,
    /// Mark of the connection.
    Mark = 3,
    /// Labels of the connection.
    Labels = 13,
    /// Mask of the events that the kernel reports.
    EventMask = 18,
}

/// Length of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// Four bytes.
    V4,
    /// Sixteen bytes.
    V6,
}

/// Header from which an offset counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// Link-layer header.
    Link = 0,
    /// IP header.
    Network = 1,
    /// Header after IP.
    Transport = 2,
}

/// Kind of comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    /// Equal.
    Equal = 0,
    /// Not equal.
    NotEqual = 1,
    /// Less or equal.
    AtMost = 3,
    /// Greater or equal.
    AtLeast = 5,
}

/// Answer by which a rejected packet's sender is notified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// TCP reset.
    TcpReset,
    /// ICMP or ICMPv6 by the packet's family. The kernel answers no ICMP error and no fragment.
    PortUnreachable,
}

/// Verdict on a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Drops the packet.
    Drop,
    /// Done with this chain; chains of later priorities still see the packet.
    Accept,
    /// Continues in this chain and does not come back.
    Goto(&'static str),
    /// Continues in that chain, and returns if that chain gives no verdict.
    Jump(&'static str),
}

impl Expression {
    fn name(self) -> &'static str {
        match self {
            Self::Meta(_) | Self::MarkPacket => "meta",
            Self::Payload { .. } | Self::Write { .. } => "payload",
            Self::Untrack => "notrack",
            Self::From(_, load) => load.name(),
            Self::Connection(_)
            | Self::OriginalDestination(_)
            | Self::OriginalSource(_)
            | Self::OriginalPort
            | Self::MarkConnection
            | Self::MaskEvents
            | Self::LabelConnection => "ct",
            Self::Mask(_) | Self::MaskAt(..) | Self::Change(..) | Self::MaskByte(_) => "bitwise",
            Self::Compare(..) => "cmp",
            Self::In(_) | Self::NotIn(_) | Self::Map(_) => "lookup",
            Self::AddTo(_) => "dynset",
            Self::Counter => "counter",
            Self::Redirect => "redir",
            Self::TranslateTo(_) | Self::TranslateToPort(..) | Self::TranslateSourceTo(_) => "nat",
            Self::Masquerade => "masq",
            Self::Chance(_) => "numgen",
            Self::Hash(_) => "hash",
            Self::HasHeader(_) => "exthdr",
            Self::ForwardTo(..) => "fwd",
            Self::Reject(_) => "reject",
            Self::Load(_) | Self::Verdict(_) => "immediate",
        }
    }

    fn data(self, register: u32) -> Attributes {
        let data = Attributes::new();
        match self {
            Self::Meta(key) => data.number(1, register).number(2, key as u32),
            Self::Payload { base, offset, length } => {
                data.number(1, register).number(2, base as u32).number(3, offset).number(4, length)
            }
            Self::Write { base, offset, length, checksum } => {
                let data =
                    data.number(2, base as u32).number(3, offset).number(4, length).number(5, register);
                // Type 1 is the Internet checksum.
                match checksum {
                    Some(at) => data.number(6, 1).number(7, at),
                    None => data,
                }
            }
            Self::From(word, load) => load.data(FIRST_WORD.saturating_add(word)),
            Self::Connection(key) => data.number(1, register).number(2, key as u32),
            Self::OriginalDestination(length) => {
                let key = match length {
                    Length::V4 => ORIGINAL_DESTINATION_V4,
                    Length::V6 => ORIGINAL_DESTINATION_V6,
                };
                // Direction 0 is the first packet's.
                data.number(1, register).number(2, key).bytes(3, &[0])
            }
            Self::OriginalSource(length) => {
                let key = match length {
                    Length::V4 => ORIGINAL_SOURCE_V4,
                    Length::V6 => ORIGINAL_SOURCE_V6,
                };
                data.number(1, register).number(2, key).bytes(3, &[0])
            }
            Self::OriginalPort => {
                data.number(1, register).number(2, ORIGINAL_DESTINATION_PORT).bytes(3, &[0])
            }
            // Type 1 is "by chance".
            Self::Chance(below) => data.number(1, register).number(2, below).number(3, 1),
            // Type 0 is that of Jenkins.
            Self::Hash(Hash { from, length, into, below, seed }) => data
                .number(1, FIRST_WORD.saturating_add(from))
                .number(2, FIRST_WORD.saturating_add(into))
                .number(3, length)
                .number(4, below)
                .number(5, seed)
                .number(7, 0),
            // Flag 1 asks for its presence, operation 0 is that of IPv6.
            Self::HasHeader(header) => data
                .number(1, register)
                .bytes(2, &[header])
                .number(3, 0)
                .number(4, 1)
                .number(5, 1)
                .number(6, 0),
            Self::ForwardTo(family, word) => data
                .number(1, FIRST_WORD.saturating_add(word))
                .number(2, register)
                .number(3, u32::from(family)),
            Self::Load(bytes) => data.number(1, register).nest(2, &value(bytes)),
            Self::MarkConnection => data.number(2, Connection::Mark as u32).number(4, register),
            Self::MaskEvents => data.number(2, Connection::EventMask as u32).number(4, register),
            Self::LabelConnection => data.number(2, Connection::Labels as u32).number(4, register),
            Self::MarkPacket => data.number(2, PACKET_MARK).number(3, register),
            Self::Mask(mask) => changed(data, register, &mask, &[0; 4]),
            Self::MaskAt(word, mask) => changed(data, FIRST_WORD.saturating_add(word), &mask, &[0; 4]),
            Self::Change(mask, turned) => changed(data, register, &mask, &turned),
            Self::MaskByte(mask) => changed(data, register, &[mask], &[0]),
            Self::Compare(comparison, with) => {
                data.number(1, register).number(2, comparison as u32).nest(3, &value(with))
            }
            Self::In(set) => data.text(1, set).number(2, register),
            Self::NotIn(set) => data.text(1, set).number(2, register).number(5, 1),
            Self::Map(map) => data.text(1, map).number(2, register).number(3, register),
            // Operation 0 is to add.
            Self::AddTo(set) => data.text(1, set).number(3, 0).number(4, register),
            // Type 1 is that of the destination.
            Self::TranslateTo(family) => data.number(1, 1).number(2, u32::from(family)).number(3, register),
            Self::TranslateToPort(family, word) => data
                .number(1, 1)
                .number(2, u32::from(family))
                .number(3, register)
                .number(5, FIRST_WORD.saturating_add(word)),
            Self::Masquerade => data.number(1, FULLY_RANDOM),
            // Type 0 is that of the source.
            Self::TranslateSourceTo(family) => {
                data.number(1, 0).number(2, u32::from(family)).number(3, register).number(7, FULLY_RANDOM)
            }
            Self::Counter | Self::Redirect | Self::Untrack => data,
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
                    Verdict::Jump(chain) => {
                        Attributes::new().number(1, (-3_i32).cast_unsigned()).text(2, chain)
                    }
                };
                data.number(1, VERDICT_REGISTER).nest(2, &Attributes::new().nest(2, &verdict))
            }
        }
    }
}

/// Keeps the bits of `mask` of the register, and turns over those of `turned`, which is as long.
fn changed(data: Attributes, register: u32, mask: &[u8], turned: &[u8]) -> Attributes {
    data.number(1, register)
        .number(2, register)
        .number(3, u32::try_from(mask.len()).unwrap_or(u32::MAX))
        .nest(4, &value(mask))
        .nest(5, &value(turned))
}

/// Bytes as nf_tables takes data.
pub fn value(bytes: &[u8]) -> Attributes {
    Attributes::new().bytes(1, bytes)
}

/// Returns the number of packets that the counters of a rule, as the kernel lists it, have counted.
pub fn counted(rule: &[u8]) -> u64 {
    let expressions = attributes::read(attributes::find(rule, 4).unwrap_or_default());
    let packets = |expression: &[u8]| {
        let is_counter = attributes::find(expression, 1).is_some_and(|name| name.starts_with(b"counter"));
        attributes::find_long(attributes::find(expression, 2).filter(|_| is_counter)?, 2)
    };
    expressions.filter_map(|(_, expression)| packets(expression)).sum()
}

/// A rule's expressions as the kernel takes them.
pub fn encode(expressions: &[Expression]) -> Attributes {
    expressions.iter().fold(Attributes::new(), |list, expression| {
        let named = Attributes::new().text(1, expression.name());
        let data = expression.data(REGISTER);
        let whole = if data.is_empty() { named } else { named.nest(2, &data) };
        list.nest(LIST_ELEMENT, &whole)
    })
}

//! Rules about shared addresses: what this node does not know is passed to the other nodes of its lot. The hops that a packet has left limit
//! how often: [`trails`](super::super::trails). Pure.
//!
//! For IPv4, with marks of the bits 0xf0 and lots by client and port:
//!
//! ```text
//! chain judge4 {
//!   tcp flags != syn / fin,syn,rst,ack ct state new ct status ! dnat ip ttl > 4 jump ask4
//!   meta l4proto udp ct state new ct status ! dnat ip ttl > 4 jump ask4
//!   tcp flags & (fin | rst) != 0 ct state invalid ip ttl > 4 jump ask-ends4
//!   icmp type { destination-unreachable, time-exceeded, parameter-problem } ct state invalid ip ttl > 4 jump ask-errors4
//! }
//! chain ask4 {
//!   (lot) map @next4 != 0 goto pass4
//! }
//! chain pass4 {
//!   ct mark set ct mark & 0xffffff0f
//!   (lot) map @next4 & 0x10 != 0 ct mark set ct mark | 0x10      # and for the other bits
//!   (lot) map @next4 & 0x1 != 0 ip ttl > 8 ip ttl set 5          # passed on once; 0x2, 0x4, 0x8: two, three, four times
//!   goto lead
//! }
//! ```
//!
//! `ask-ends4` and `pass-ends4` do the same with the packet's mark: of a connection whose first packet here ends it there is none. `ask-errors4`
//! and `pass-errors4` do so by the packet that an ICMP error is about. Such packets are taken from connection tracking, because kube-proxy drops
//! what is invalid. One that belongs to no connection of any node is dropped by the last, and never answered.

use windlass_kernel::mark_mask::MarkMask;
use windlass_kernel::netfilter::chain::Chain;
use windlass_kernel::netfilter::expression::{
    Base,
    Comparison::{AtLeast, AtMost, Equal, NotEqual},
    Connection::State,
    Expression::{
        self, Change, Compare, Connection, Counter, Map, Mask, MaskByte, Meta, Payload, Untrack, Verdict,
        Write,
    },
    Meta::Protocol,
    Verdict::{Accept, Goto, Jump},
};
use windlass_kernel::netfilter::marks::{self, LEAD};
use windlass_kernel::netfilter::packet::is_of;
use windlass_vrrp::Family;

use super::super::set::{Kind, Set};
use super::super::trails::{FEWEST_HOPS, MOST_TIMES, bit_of};
use super::ended::IS_UNTRANSLATED;
use super::{FLAGS, FLAGS_THAT_MATTER, ICMP, ICMPV6, INVALID, IS_END, IS_NEW, SYN, TCP, TYPE, UDP};
use crate::sharing::{SharedBy, is_about_plain, lot_of_error, lot_of_packet};

type Rules = Vec<Vec<Expression>>;

/// Most hops of a packet that is passed on.
const MOST_HOPS: u8 = FEWEST_HOPS + MOST_TIMES;
const BOTH: [SharedBy; 2] = [SharedBy::Connection, SharedBy::Client];

/// Packets that may be unknown.
#[derive(Clone, Copy)]
enum Unknown {
    Packet,
    /// TCP packet that ends its connection.
    End,
    Error,
}

impl Unknown {
    /// Names of the chain that looks for the next node, and of those that send to it.
    fn chains(self, family: Family) -> (&'static str, [&'static str; 2]) {
        match (self, family) {
            (Self::Packet, Family::V4) => ("ask4", ["pass4", "pass-sticky4"]),
            (Self::Packet, Family::V6) => ("ask6", ["pass6", "pass-sticky6"]),
            (Self::End, Family::V4) => ("ask-ends4", ["pass-ends4", "pass-sticky-ends4"]),
            (Self::End, Family::V6) => ("ask-ends6", ["pass-ends6", "pass-sticky-ends6"]),
            (Self::Error, Family::V4) => ("ask-errors4", ["pass-errors4", "pass-sticky-errors4"]),
            (Self::Error, Family::V6) => ("ask-errors6", ["pass-errors6", "pass-sticky-errors6"]),
        }
    }

    /// Loads the mark of the next node and the bit for how often the packet is passed on, if there is a next one.
    fn next(self, family: Family, by: SharedBy) -> Vec<Expression> {
        let lot = match self {
            Self::Packet | Self::End => lot_of_packet(family, by),
            Self::Error => lot_of_error(family, by),
        };
        [lot, vec![Map(Set { kind: Kind::Next(by), family }.name())]].concat()
    }
}

/// Loads the hops that a packet has left.
fn hops(family: Family) -> Expression {
    let offset = match family {
        Family::V4 => 8,
        Family::V6 => 7,
    };
    Payload { base: Base::Network, offset, length: 1 }
}

/// Leaves a packet this many hops if it has more than [`MOST_HOPS`].
fn limited(family: Family, to: u8) -> Vec<Expression> {
    // The hops are the third byte of these four in IPv4, the last in IPv6.
    let (offset, checksum, kept, hops_at) = match family {
        Family::V4 => (6, Some(10), [0xff, 0xff, 0, 0xff], [0, 0, to, 0]),
        Family::V6 => (4, None, [0xff, 0xff, 0xff, 0], [0, 0, 0, to]),
    };
    vec![
        hops(family),
        Compare(AtLeast, const { &[MOST_HOPS + 1] }),
        Payload { base: Base::Network, offset, length: 4 },
        Change(kept, hops_at),
        Write { base: Base::Network, offset, length: 4, checksum },
    ]
}

fn has_hops(family: Family) -> [Expression; 2] {
    [hops(family), Compare(AtLeast, const { &[FEWEST_HOPS + 1] })]
}

/// The rules of [`LEAD`] about hops: what two nodes send to each other ends.
pub(super) fn with_few_hops() -> Rules {
    let of_family = |family| {
        let is_family = is_of(family);
        let none_left = [hops(family), Compare(AtMost, const { &[FEWEST_HOPS] }), Verdict(Goto("refuse"))];
        [
            [is_family.as_slice(), &none_left].concat(),
            [is_family.as_slice(), &limited(family, MOST_HOPS)].concat(),
        ]
    };
    [Family::V4, Family::V6].into_iter().flat_map(of_family).collect()
}

/// The rules about packets to a VIP that this node does not know.
pub(super) fn unknown(family: Family) -> Rules {
    let begins_nothing =
        [Meta(Protocol), Compare(Equal, TCP), FLAGS, MaskByte(FLAGS_THAT_MATTER), Compare(NotEqual, SYN)];
    let (packets, _) = Unknown::Packet.chains(family);
    let (ends, _) = Unknown::End.chains(family);
    let (errors, _) = Unknown::Error.chains(family);
    let invalid = [Connection(State), Mask(INVALID), Compare(NotEqual, &[0; 4])];
    let packet = |matches: &[Expression]| {
        [matches, &IS_NEW, &IS_UNTRANSLATED, &has_hops(family), &[Verdict(Jump(packets))]].concat()
    };
    let error = |matches: &[Expression]| {
        let protocol = match family {
            Family::V4 => ICMP,
            Family::V6 => ICMPV6,
        };
        let kind = [&[Meta(Protocol), Compare(Equal, protocol), TYPE], matches].concat();
        [kind.as_slice(), &invalid, &is_about_plain(family), &has_hops(family), &[Verdict(Jump(errors))]]
            .concat()
    };
    let end = [IS_END.as_slice(), &invalid, &has_hops(family), &[Verdict(Jump(ends))]].concat();
    let mut rules = vec![packet(&begins_nothing), packet(&[Meta(Protocol), Compare(Equal, UDP)]), end];
    match family {
        // Unreachable, time exceeded, parameter problem.
        Family::V4 => rules.extend([&[3], &[11], &[12]].map(|kind| error(&[Compare(Equal, kind)]))),
        // The same, and packet too big.
        Family::V6 => rules.push(error(&[Compare(AtLeast, &[1]), Compare(AtMost, &[4])])),
    }
    rules
}

/// The chains to which those rules lead.
pub(super) fn chains(family: Family, marks: MarkMask) -> Vec<Chain> {
    let chain = |name, rules| Chain { name, hook: None, rules };
    let of = |unknown: Unknown| {
        let (ask, pass) = unknown.chains(family);
        let next = BOTH.map(|by| unknown.next(family, by));
        let asked = next.iter().zip(pass).map(|(next, pass)| {
            [next.as_slice(), &[Compare(NotEqual, &[0; 4]), Verdict(Goto(pass))]].concat()
        });
        let asked = chain(ask, asked.collect());
        let passed =
            next.iter().zip(pass).map(|(next, pass)| chain(pass, passed(unknown, next, family, marks)));
        passed.chain([asked]).collect::<Vec<_>>()
    };
    [Unknown::Packet, Unknown::End, Unknown::Error].into_iter().flat_map(of).collect()
}

/// The rules that send a packet to the node whose mark `next` loads.
fn passed(unknown: Unknown, next: &[Expression], family: Family, marks: MarkMask) -> Rules {
    let hops = (1..=MOST_TIMES).map(|times| {
        let is_number = [Mask(bit_of(times, marks).to_ne_bytes()), Compare(NotEqual, &[0; 4])];
        [next, &is_number, &limited(family, FEWEST_HOPS.saturating_add(times))].concat()
    });
    let hops: Rules = hops.collect();
    match unknown {
        Unknown::Packet => {
            [marks::to_connection(marks.get(), next), hops, vec![vec![Verdict(Goto(LEAD))]]].concat()
        }
        Unknown::End | Unknown::Error => {
            let marked = marks::to_packet_from(marks.get(), next);
            [vec![vec![Untrack]], marked, hops, vec![vec![Counter, Verdict(Accept)]]].concat()
        }
    }
}

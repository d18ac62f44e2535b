//! Contents of the table, as data. The text form is in the parent module.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_kernel::mark_mask::MarkMask;
use windlass_kernel::netfilter::attributes::Attributes;
use windlass_kernel::netfilter::chain::Chain;
use windlass_kernel::netfilter::contents::{SetChange, TableContents};
use windlass_kernel::netfilter::element::{Element, TIMEOUT};
use windlass_kernel::netfilter::expression::{
    Base,
    Comparison::{AtLeast, AtMost, Equal, NotEqual},
    Connection::State,
    Expression::{
        self, Compare, Connection, Counter, From, In, LabelConnection, Load, Map, MarkPacket, Mask, MaskByte,
        MaskEvents, Meta, NotIn, Payload, Redirect, TranslateSourceTo, Verdict,
    },
    Meta::{Family as PacketFamily, InputInterface, Mark as PacketMark, Protocol},
    Verdict::{Accept, Drop, Goto},
};
use windlass_kernel::netfilter::message::TableFamily;
use windlass_kernel::netfilter::packet::{self, NEW, PORT, destination, is_of, original_destination, words};
use windlass_vrrp::Family;

use super::Guarded;
use super::set::{Kind, Set};
use crate::way_back::QUESTION;
use ended::{IS_ANSWER, IS_TRANSLATED, IS_UNTRANSLATED};

mod chains;
mod ended;
mod handed_over;
mod passed_on;
#[cfg(test)]
mod tests;

const TCP: &[u8] = &[6];
const UDP: &[u8] = &[17];
const ICMP: &[u8] = &[1];
const ICMPV6: &[u8] = &[58];
const ECHO_REQUEST: &[u8] = &[8];
const ECHO_REQUEST_V6: &[u8] = &[128];
/// Router solicitation to redirect, RFC 4861 §4.
const NEIGHBOUR_DISCOVERY: [&[u8]; 2] = [&[133], &[137]];
/// One bit of the connection state, in the machine's byte order.
const INVALID: [u8; 4] = 1_u32.to_ne_bytes();
/// Something came back on it.
const ESTABLISHED: [u8; 4] = 2_u32.to_ne_bytes();
/// Something came back on it, or the packet is an error about it.
const GOES_ON: [u8; 4] = (2_u32 | 4).to_ne_bytes();
/// The direction of what answers a connection's first packet.
const ANSWER: &[u8] = &[1];
const FLAGS: Expression = Payload { base: Base::Transport, offset: 13, length: 1 };
/// TCP: FIN, SYN, RST, ACK.
const FLAGS_THAT_MATTER: u8 = 0x17;
const SYN: &[u8] = &[0x02];
/// TCP: FIN, RST.
const FLAGS_THAT_END: u8 = 0x05;
/// Events of connection tracking (`linux/netfilter/nf_conntrack_common.h`): the connection lasts, its labels change, or it is forgotten;
/// in the machine's byte order.
const LASTING: u32 = 1 << 4;
const LABELLED: u32 = 1 << 10;
const FORGOTTEN: u32 = 1 << 2;
const EVENTS_OF_TCP: [u8; 4] = (LASTING | LABELLED).to_ne_bytes();
const EVENTS_OF_UDP: [u8; 4] = (LASTING | FORGOTTEN).to_ne_bytes();
/// The last of the 128 labels that a connection may have: words in the machine's byte order.
const LABEL: [u8; 16] = {
    let [a, b, c, d] = (1_u32 << 31).to_ne_bytes();
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]
};
const REDIRECT: &[u8] = &[5];
const REDIRECT_V6: &[u8] = &[137];
/// Offset in a redirect of the address that it is about (RFC 792, RFC 4861 §4.5).
const REDIRECTED: u32 = 24;

/// The kernel has looked up the connection at -200, and routes after all of prerouting. Every packet to a VIP still has its address
/// here, those of established connections as well.
const AFTER_CONNECTION_TRACKING: i32 = -150;

/// kube-proxy masquerades at 100, in nftables and in iptables mode.
const BEFORE_MASQUERADING: i32 = 90;
/// kube-proxy translates at -100, in nftables and in iptables mode. Only the first translation of a connection counts.
const BEFORE_KUBE_PROXY_NAT: i32 = -105;
/// The kernel asks NAT chains in this order about the first packet of a connection, until one of them translates it.
const AFTER_KUBE_PROXY_NAT: i32 = -95;
/// kube-proxy filters at 0, in nftables and in iptables mode.
const AFTER_KUBE_PROXY_FILTER: i32 = 10;

/// Most elements of restrictions that a change has in one transaction. A processor runs nothing else meanwhile, not even the thread that
/// sends adverts: half a million take 0.8 s.
const ELEMENTS_IN_A_TRANSACTION: usize = 16_000;

/// Set that has the packet's family while the process has lately shown that it lives.
const AWAKE: &str = "awake";

impl Set {
    /// The rule that refuses packets for a VIP of this set and for none of its ports. A packet without a port to look at, as a
    /// later fragment that was not reassembled, passes: no proxy takes it either.
    fn only_own_ports(self) -> Vec<Expression> {
        let ports = Self { kind: Kind::Ports, ..self };
        let [protocol, port] = self.port();
        let is_another = [*destination(self.family), protocol, port, NotIn(ports.name())];
        [self.has_destination().as_slice(), &is_another, &[Verdict(Goto("refuse"))]].concat()
    }

    /// Rule matches after the family: "the packet's destination and protocol are in this set".
    fn has_protocol(self) -> [Expression; 2] {
        let [protocol, _] = self.port();
        [protocol, In(self.name())]
    }

    /// Rule matches up to and including "the packet's destination is in the set", with its port where the set has ports. That a VIP
    /// is held counts only while the process shows that it lives.
    pub(super) fn has_destination(self) -> Vec<Expression> {
        let mut matches = [is_of(self.family).as_slice(), &[*destination(self.family)]].concat();
        match self.kind {
            Kind::Vips | Kind::Left | Kind::Replicated | Kind::Astray | Kind::Known => {
                matches.push(In(self.name()));
            }
            Kind::Held => {
                matches.extend([In(self.name()), Meta(PacketFamily), In(AWAKE)]);
            }
            Kind::Restricted | Kind::Sources | Kind::Ports | Kind::Open => {
                matches.extend(self.port());
                matches.push(In(self.name()));
            }
            Kind::Owned => matches.extend(self.has_protocol()),
            Kind::Window => matches.push(Map(self.name())),
            // Rules ask for a connection's mark or a packet's lot as well; none asks for strays.
            Kind::Moved | Kind::Strays | Kind::Next(_) => {}
            Kind::Ended => matches = self.is_of_connection(),
            // The packet's own destination is the backend by then.
            Kind::Movable => matches = self.has_original_destination(),
        }
        matches
    }

    /// Rule matches for packets of the set's family: "for an address of the set", and "of a translated connection to one".
    fn is_of_packet_or_of_translated_connection(self) -> [Vec<Expression>; 2] {
        let of_connection = [original_destination(self.family), In(self.name())];
        [
            vec![*destination(self.family), In(self.name())],
            [IS_TRANSLATED.as_slice(), &of_connection].concat(),
        ]
    }

    /// The rule for packets of the set's family that passes those of translated connections to a port of the set.
    fn translated(self) -> Vec<Expression> {
        [self.is_translated_to().as_slice(), &[Verdict(Accept)]].concat()
    }

    /// The same for connections from sources that may send to the port.
    fn translated_from_sources(self) -> Vec<Expression> {
        let [destination, protocol, port, client] = self.original_ends();
        let sources = Self { kind: Kind::Sources, ..self };
        let from_sources = [destination, protocol, port, client, In(sources.name()), Verdict(Accept)];
        [self.is_translated_to().as_slice(), &from_sources].concat()
    }

    /// Rule matches for packets of the set's family: "of a translated connection to a port of the set".
    fn is_translated_to(self) -> Vec<Expression> {
        let [destination, protocol, port, _] = self.original_ends();
        [IS_TRANSLATED.as_slice(), &[destination, protocol, port, In(self.name())]].concat()
    }

    /// The rule about packets to the set's addresses of connections that go on although nothing has translated them.
    fn untranslated_to(self, chain: &'static str) -> Vec<Expression> {
        let goes_on = [Connection(State), Mask(GOES_ON), Compare(NotEqual, &[0; 4])];
        [self.has_destination().as_slice(), &goes_on, &IS_UNTRANSLATED, &[Verdict(Goto(chain))]].concat()
    }

    /// Rule matches from [`Self::has_destination`] on: "but with this source it is not in the set `sources`".
    fn has_no_source_in(self, sources: Self) -> Vec<Expression> {
        let source = From(words(self.family).saturating_add(2), packet::source(self.family));
        let port = self.port();
        [&[*destination(self.family)], port.as_slice(), &[source, NotIn(sources.name())]].concat()
    }

    /// The packet's protocol and destination port, after its destination.
    pub(super) fn port(self) -> [Expression; 2] {
        packet::after_address(self.family, &PORT)
    }

    /// The rule that applies `verdict` to all packets to the set's addresses.
    fn to_any(self, verdict: windlass_kernel::netfilter::expression::Verdict) -> Vec<Expression> {
        [self.has_destination(), vec![Verdict(verdict)]].concat()
    }

    /// The rule that accepts answers to connections that came from one of the set's addresses.
    fn answers(self) -> Vec<Expression> {
        [self.has_destination().as_slice(), &IS_ANSWER, &[Verdict(Accept)]].concat()
    }

    /// Rule matches: "the packet's connection began towards one of the set's addresses, and the packet came by the interface that
    /// the set has for it".
    fn has_original_destination(self) -> Vec<Expression> {
        let interface = From(words(self.family), const { &Meta(InputInterface) });
        let by_interface = [original_destination(self.family), interface, In(self.name())];
        [is_of(self.family).as_slice(), &by_interface].concat()
    }

    /// The rules that have the kernel report only such events of connections to the set's addresses as their replication needs.
    fn telling_little(self) -> Vec<Vec<Expression>> {
        vec![self.telling(TCP, &EVENTS_OF_TCP), self.telling(UDP, &EVENTS_OF_UDP), self.telling_ends()]
    }

    /// The rule that has the kernel report only these events of a connection of this protocol.
    fn telling(self, protocol: &'static [u8], events: &'static [u8]) -> Vec<Expression> {
        let of_protocol = [Meta(Protocol), Compare(Equal, protocol), Load(events), MaskEvents];
        [IS_NEW.as_slice(), &self.has_destination(), &of_protocol].concat()
    }

    /// The rule that has the kernel report that one side of a connection has closed: a new label is an event.
    fn telling_ends(self) -> Vec<Expression> {
        [IS_END.as_slice(), &self.is_of_connection(), &[Load(&LABEL), LabelConnection]].concat()
    }

    /// Rule matches: "the packet's connection began towards one of the set's addresses", with its port where the set has ports.
    fn is_of_connection(self) -> Vec<Expression> {
        let mut matches = [is_of(self.family).as_slice(), &[original_destination(self.family)]].concat();
        match self.kind {
            Kind::Owned => matches.extend(self.has_protocol()),
            Kind::Restricted | Kind::Ports | Kind::Open => {
                matches.extend(self.original_port());
                matches.push(In(self.name()));
            }
            Kind::Vips
            | Kind::Held
            | Kind::Sources
            | Kind::Moved
            | Kind::Window
            | Kind::Left
            | Kind::Strays
            | Kind::Movable
            | Kind::Replicated
            | Kind::Astray
            | Kind::Known
            | Kind::Next(_)
            | Kind::Ended => matches.push(In(self.name())),
        }
        matches
    }

    /// The rule that gives packets that kube-proxy would masquerade the VIP as their source, so that the backends answer to the
    /// Active, except for backends whose answers would go astray. It removes kube-proxy's mark from the packet as kube-proxy does,
    /// so that an overlay network does not masquerade the packet in which it wraps it.
    fn with_vip_as_source(self, masquerade_mark: u32) -> Vec<Expression> {
        let masqueraded = [Meta(PacketMark), Mask(masquerade_mark.to_ne_bytes()), Compare(NotEqual, &[0; 4])];
        let answers_arrive = [*destination(self.family), NotIn(Self { kind: Kind::Astray, ..self }.name())];
        let unmarked = [Meta(PacketMark), Mask((!masquerade_mark).to_ne_bytes()), MarkPacket];
        let translated =
            [original_destination(self.family), Counter, TranslateSourceTo(packet::number(self.family))];
        [self.has_destination().as_slice(), &masqueraded, &answers_arrive, &unmarked, &translated].concat()
    }

    /// The rule that has the node answer echo requests to the set's addresses.
    fn echo(self) -> Vec<Expression> {
        [self.has_destination().as_slice(), &is_echo(self.family), &[Counter, Redirect]].concat()
    }

    /// The rule that drops packets to the ports of this set whose source is not in the set of sources.
    fn only_from_sources(self) -> Vec<Expression> {
        let sources = Self { kind: Kind::Sources, ..self };
        [self.has_destination(), self.has_no_source_in(sources), vec![Counter, Verdict(Drop)]].concat()
    }
}

/// Rule matches: "a TCP packet with FIN or RST".
const IS_END: [Expression; 5] =
    [Meta(Protocol), Compare(Equal, TCP), FLAGS, MaskByte(FLAGS_THAT_END), Compare(NotEqual, &[0])];
const IS_NEW: [Expression; 3] = [Connection(State), Mask(NEW), Compare(NotEqual, &[0; 4])];
const TYPE: Expression = Payload { base: Base::Transport, offset: 0, length: 1 };
/// The beginning of what an echo request has echoed.
const ECHOED: Expression = Payload { base: Base::Transport, offset: 8, length: 8 };

fn of_type(protocol: &'static [u8], kind: &'static [u8]) -> [Expression; 4] {
    [Meta(Protocol), Compare(Equal, protocol), TYPE, Compare(Equal, kind)]
}

/// Rule matches: "the packet is an echo request".
fn is_echo(family: Family) -> [Expression; 4] {
    match family {
        Family::V4 => of_type(ICMP, ECHO_REQUEST),
        Family::V6 => of_type(ICMPV6, ECHO_REQUEST_V6),
    }
}

/// The rules that keep the source of the engine's own echo requests for the way back, which come by no interface: pod networks
/// masquerade packets from the node's address on the LAN to pods, and the answer would come by another way than the one in
/// question.
fn asking_from_its_source() -> Vec<Vec<Expression>> {
    let of_family = |family: Family| {
        let own = [Meta(InputInterface), Compare(Equal, &[0; 4])];
        let translated = [*packet::source(family), TranslateSourceTo(packet::number(family))];
        let ours = [ECHOED, Compare(Equal, &QUESTION)];
        [is_of(family).as_slice(), &own, &is_echo(family), &ours, &translated].concat()
    };
    [Family::V4, Family::V6].map(of_family).to_vec()
}

fn neighbour_discovery(verdict: windlass_kernel::netfilter::expression::Verdict) -> Vec<Expression> {
    let [first, last] = NEIGHBOUR_DISCOVERY;
    vec![
        Meta(Protocol),
        Compare(Equal, ICMPV6),
        TYPE,
        Compare(AtLeast, first),
        Compare(AtMost, last),
        Verdict(verdict),
    ]
}

/// Parts of a table that differ from one table to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Parts {
    /// True with the rules that forward to the previous Active.
    pub(super) forwards: bool,
    /// True with the rules that pass on what this node does not know of shared addresses.
    pub(super) shares: bool,
    /// True with the rules that limit the kernel's events of replicated connections to those that matter.
    pub(super) masks_events: bool,
    /// kube-proxy's mark for what it masquerades.
    pub(super) masquerade_mark: u32,
    /// The bits of marks that lead to the previous Active.
    pub(super) marks: MarkMask,
    /// Time for which the last sign that the process lives counts, in milliseconds.
    pub(super) awake_ms: u64,
}

/// Contents of the table.
#[derive(Clone, Default)]
pub(super) struct Contents {
    pub(super) guarded: Guarded,
    pub(super) parts: Parts,
}

impl TableContents for Contents {
    const FAMILY: TableFamily = TableFamily::Inet;

    fn sets(&self) -> Vec<(&'static str, Attributes)> {
        let awake = Attributes::new().number(3, TIMEOUT).number(4, 2).number(5, 1);
        let sets = Set::all().map(|set| (set.name(), set.definition(Attributes::new())));
        sets.chain([(AWAKE, awake.long(11, self.parts.awake_ms))]).collect()
    }

    fn chains(&self) -> Vec<Chain> {
        chains::chains(self.parts)
    }

    fn has_chains_of(&self, next: &Self) -> bool {
        self.parts == next.parts
    }

    /// Restrictions change address by address, all else at once.
    fn step_to(&self, wanted: &Self) -> Option<Self> {
        let (old, new) = (&self.guarded.restrictions, &wanted.guarded.restrictions);
        if Arc::ptr_eq(old, new) {
            return None;
        }
        let restrictions = Arc::new(new.first_part_since(old, ELEMENTS_IN_A_TRANSACTION)?);
        Some(Self { guarded: Guarded { restrictions, ..wanted.guarded.clone() }, parts: wanted.parts })
    }

    fn changes(&self, next: &Self) -> Vec<SetChange> {
        let (old, new) = (&self.guarded, &next.guarded);
        let differing = old.restrictions.differing_for_the_guard(&new.restrictions);
        let change = |set: Set| {
            let (gone, come) = (set.missing(old, new, &differing), set.missing(new, old, &differing));
            SetChange { set: set.name(), gone, come }
        };
        Set::all().filter(|set| !set.is_untouched(old, new)).map(change).collect()
    }

    /// Shows that the process lives.
    fn expiring(&self) -> Vec<(&'static str, BTreeSet<Element>)> {
        if self.guarded.held.is_empty() {
            return Vec::new();
        }
        vec![(AWAKE, [packet::IPV4, packet::IPV6].map(|family| Element::of(vec![family])).into())]
    }
}

//! Contents of the table, as data. The text form is in the parent module. Pure.

use std::collections::BTreeSet;

use windlass_kernel::mark_mask::MarkMask;
use windlass_kernel::netfilter::attributes::Attributes;
use windlass_kernel::netfilter::chain::{Chain, Hook, OUTPUT, POSTROUTING, PREROUTING};
use windlass_kernel::netfilter::contents::{SetChange, TableContents};
use windlass_kernel::netfilter::element::Element;
use windlass_kernel::netfilter::expression::{
    Base,
    Comparison::{Equal, NotEqual},
    Connection::{Mark, State, Status},
    Expression::{
        self, Chance, Compare, Connection, Counter, From, In, Map, Mask, Masquerade, Meta, NotIn,
        OriginalDestination, OriginalPort, Payload, TranslateToPort, Verdict,
    },
    Length,
    Meta::{Family as PacketFamily, InputKind, Protocol},
    Verdict::{Goto, Jump},
};
use windlass_kernel::netfilter::marks::{self, LEAD};
use windlass_kernel::netfilter::message::TableFamily;
use windlass_vrrp::Family;

use super::balancing::LOTS;
use super::set::{Contents, Kind, Set};

#[cfg(test)]
mod tests;

/// One bit of the connection status: its destination is translated.
const TRANSLATED: [u8; 4] = 0x20_u32.to_ne_bytes();
/// Nothing came back on it yet.
const NEW: [u8; 4] = 8_u32.to_ne_bytes();
/// ARPHRD_ETHER.
const ETHERNET: [u8; 2] = 1_u16.to_ne_bytes();
const LINK_LAYER_SOURCE: Expression = Payload { base: Base::Link, offset: 6, length: 6 };
const SOURCE_PORT: Expression = Payload { base: Base::Transport, offset: 0, length: 2 };
const PORT: Expression = Payload { base: Base::Transport, offset: 2, length: 2 };

/// The kernel has looked up the connection at -200.
const AFTER_CONNECTION_TRACKING: i32 = -150;
/// As kube-proxy. Before, at -105, the guard exempts packets for the previous Active; after, at -95, it refuses packets that
/// nothing took.
const TRANSLATING: i32 = -100;
/// Before kube-proxy and pod networks, at 100: only the first translation of a connection counts.
const MASQUERADING: i32 = 95;

/// The chain that gives packets to backends.
const BACKENDS: &str = "backends";

impl Set {
    /// Rule matches: "the packet is of the set's family".
    fn has_family(self) -> [Expression; 2] {
        let number = match self.family {
            Family::V4 => &[2],
            Family::V6 => &[10],
        };
        [Meta(PacketFamily), Compare(Equal, number)]
    }

    /// The packet's destination.
    const fn destination(self) -> Expression {
        match self.family {
            Family::V4 => Payload { base: Base::Network, offset: 16, length: 4 },
            Family::V6 => Payload { base: Base::Network, offset: 24, length: 16 },
        }
    }

    /// The packet's source.
    const fn source(self) -> Expression {
        match self.family {
            Family::V4 => Payload { base: Base::Network, offset: 12, length: 4 },
            Family::V6 => Payload { base: Base::Network, offset: 8, length: 16 },
        }
    }

    /// The first word of the register after an address.
    const fn after_address(self) -> u32 {
        match self.family {
            Family::V4 => 1,
            Family::V6 => 4,
        }
    }

    /// The packet's destination, protocol and port.
    fn service(self) -> [Expression; 3] {
        let word = self.after_address();
        [self.destination(), From(word, &Meta(Protocol)), From(word.saturating_add(1), &PORT)]
    }

    /// Destination, protocol and port of the first packet of the packet's connection.
    fn original_service(self) -> [Expression; 3] {
        let word = self.after_address();
        let length = match self.family {
            Family::V4 => Length::V4,
            Family::V6 => Length::V6,
        };
        [
            OriginalDestination(length),
            From(word, &Meta(Protocol)),
            From(word.saturating_add(1), &OriginalPort),
        ]
    }

    /// The rule that gives packets to the backend that this map names.
    fn translated(self) -> Vec<Expression> {
        let number = match self.family {
            Family::V4 => 2,
            Family::V6 => 10,
        };
        let chance = const { &Chance(LOTS) };
        let by_lot = [
            From(self.after_address().saturating_add(2), chance),
            Map(self.name()),
            TranslateToPort(number, self.after_address()),
        ];
        [self.has_family().as_slice(), &self.service(), &by_lot].concat()
    }

    /// The rule that has the node's own packets to these VIPs go the way of others.
    fn as_others(self) -> Vec<Expression> {
        let to_backends = [self.destination(), In(self.name()), Verdict(Jump(BACKENDS))];
        [self.has_family().as_slice(), &to_backends].concat()
    }

    /// Rule matches: "the packet is of a translated connection to a port of this set, towards another node".
    fn to_other_nodes(self) -> Vec<Expression> {
        let own = Self { kind: Kind::Own, ..self };
        [
            [Connection(Status), Mask(TRANSLATED), Compare(NotEqual, &[0; 4])].as_slice(),
            &self.has_family(),
            &self.original_service(),
            &[In(self.name()), self.destination(), NotIn(own.name())],
        ]
        .concat()
    }

    /// The rule that has other nodes' backends answer to this node.
    fn masqueraded(self) -> Vec<Expression> {
        [self.to_other_nodes().as_slice(), &[Counter, Masquerade]].concat()
    }

    /// The rule that masquerades clients that are nodes themselves: a backend would answer to such a client directly.
    fn masqueraded_nodes(self) -> Vec<Expression> {
        let nodes = Self { kind: Kind::Nodes, ..self };
        let masqueraded = [self.source(), In(nodes.name()), Counter, Masquerade];
        [self.to_other_nodes().as_slice(), &masqueraded].concat()
    }

    /// The rule that marks connections of clients to these servers by the peer that their first packet came by.
    fn marked_by_peer(self) -> Vec<Expression> {
        let [nodes, senders] = [Kind::Nodes, Kind::Senders].map(|kind| Self { kind, ..self });
        [
            [Meta(InputKind), Compare(Equal, &ETHERNET)].as_slice(),
            &self.has_family(),
            &self.service(),
            &[In(self.name()), Connection(State), Mask(NEW), Compare(NotEqual, &[0; 4])],
            &[self.source(), NotIn(nodes.name())],
            // No mark is 0.
            &[LINK_LAYER_SOURCE, Map(senders.name()), Compare(NotEqual, &[0; 4])],
            &[Counter, Verdict(Goto(self.take()))],
        ]
        .concat()
    }

    /// The chain with the rules [`Self::taking`].
    fn take(self) -> &'static str {
        match self.family {
            Family::V4 => "take4",
            Family::V6 => "take6",
        }
    }

    /// The rules that mark a connection by the peer that its packet came by.
    fn taking(self, marks: MarkMask) -> Vec<Vec<Expression>> {
        let ethernet = [Meta(InputKind), Compare(Equal, &ETHERNET)];
        let by_peer = [ethernet.as_slice(), &[LINK_LAYER_SOURCE, Map(self.name())]].concat();
        marks::to_connection(marks.get(), &by_peer)
    }

    /// The rule that marks answers of these servers as their connection is marked.
    fn answers_by_peer(self, marks: MarkMask) -> Vec<Expression> {
        let of_peers = Self { kind: Kind::Marks, ..self };
        let word = self.after_address();
        let from_server = [
            self.source(),
            From(word, &Meta(Protocol)),
            From(word.saturating_add(1), &SOURCE_PORT),
            In(self.name()),
        ];
        let ours = Mask(marks.get().to_ne_bytes());
        let marked = [Connection(Mark), ours, In(of_peers.name()), Counter, Verdict(Goto(LEAD))];
        [self.has_family().as_slice(), &from_server, &marked].concat()
    }
}

const fn nat(number: u32, priority: i32) -> Hook {
    Hook { kind: "nat", number, priority }
}

/// A route chain routes anew what it has marked.
const fn by_peer(kind: &'static str, number: u32) -> Hook {
    Hook { kind, number, priority: AFTER_CONNECTION_TRACKING }
}

/// The chains, each after those it goes to.
fn chains(marks: MarkMask) -> Vec<Chain> {
    let both = |kind: Kind, rule: fn(Set) -> Vec<Expression>| kind.sets().map(rule).to_vec();
    let masqueraded =
        [both(Kind::Masqueraded, Set::masqueraded), both(Kind::Kept, Set::masqueraded_nodes)].concat();
    let base = |name, hook, rules| Chain { name, hook: Some(hook), rules };
    let chain = |name, rules| Chain { name, hook: None, rules };
    let [taking4, taking6] = Kind::Senders.sets().map(|set| chain(set.take(), set.taking(marks)));
    let answers = Kind::Servers.sets().map(|set| set.answers_by_peer(marks)).to_vec();
    vec![
        chain(BACKENDS, both(Kind::Lots, Set::translated)),
        taking4,
        taking6,
        chain(LEAD, marks::to_packet(marks.get())),
        base("prerouting", nat(PREROUTING, TRANSLATING), vec![vec![Verdict(Jump(BACKENDS))]]),
        base("output", nat(OUTPUT, TRANSLATING), both(Kind::Local, Set::as_others)),
        base("postrouting", nat(POSTROUTING, MASQUERADING), masqueraded),
        base("arriving", by_peer("filter", PREROUTING), both(Kind::Servers, Set::marked_by_peer)),
        base("leaving", by_peer("route", OUTPUT), answers),
    ]
}

impl TableContents for Contents {
    const FAMILY: TableFamily = TableFamily::Inet;

    fn sets(&self) -> Vec<(&'static str, Attributes)> {
        Set::all().map(|set| (set.name(), set.definition(&Attributes::new()))).collect()
    }

    fn chains(&self) -> Vec<Chain> {
        chains(self.marks)
    }

    fn changes(&self, next: &Self) -> Vec<SetChange> {
        let change = |set: Set| {
            let (old, new) = (set.members(self), set.members(next));
            let without = |one: &BTreeSet<Element>, other| one.difference(other).cloned().collect();
            SetChange { set: set.name(), gone: without(&old, &new), come: without(&new, &old) }
        };
        Set::all().map(change).collect()
    }

    fn expiring(&self) -> Vec<(&'static str, BTreeSet<Element>)> {
        Kind::Local.sets().map(|set| (set.name(), set.addresses(&self.local))).into()
    }
}

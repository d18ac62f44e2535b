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
    Connection::{Mark, State},
    Expression::{
        self, Chance, Compare, Connection, Counter, From, In, Map, Mask, Masquerade, Meta, NotIn, Payload,
        TranslateToPort, Verdict,
    },
    Meta::InputKind,
    Verdict::{Goto, Jump},
};
use windlass_kernel::netfilter::marks::{self, LEAD};
use windlass_kernel::netfilter::message::TableFamily;
use windlass_kernel::netfilter::packet::{
    self, NEW, PORT, SOURCE_PORT, TRANSLATED, destination, is_of, source,
};
use windlass_vrrp::Family;

use super::balancing::LOTS;
use super::set::{Contents, Kind, Set};

#[cfg(test)]
mod tests;

/// ARPHRD_ETHER.
const ETHERNET: [u8; 2] = 1_u16.to_ne_bytes();
const LINK_LAYER_SOURCE: Expression = Payload { base: Base::Link, offset: 6, length: 6 };

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
    /// The packet's destination, protocol and port.
    fn service(self) -> [Expression; 3] {
        let [protocol, port] = packet::after_address(self.family, &PORT);
        [*destination(self.family), protocol, port]
    }

    /// The rule that gives packets to the backend that this map names.
    fn translated(self) -> Vec<Expression> {
        let chance = const { &Chance(LOTS) };
        let words = packet::words(self.family);
        let by_lot = [
            From(words.saturating_add(2), chance),
            Map(self.name()),
            TranslateToPort(packet::number(self.family), words),
        ];
        [is_of(self.family).as_slice(), &self.service(), &by_lot].concat()
    }

    /// The rule that has the node's own packets to these VIPs go the way of others.
    fn as_others(self) -> Vec<Expression> {
        let to_backends = [*destination(self.family), In(self.name()), Verdict(Jump(BACKENDS))];
        [is_of(self.family).as_slice(), &to_backends].concat()
    }

    /// Rule matches: "the packet is of a translated connection to a port of this set, towards another node".
    fn to_other_nodes(self) -> Vec<Expression> {
        let own = Self { kind: Kind::Own, ..self };
        [
            TRANSLATED.as_slice(),
            &[Compare(NotEqual, &[0; 4])],
            &is_of(self.family),
            &packet::original_service(self.family),
            &[In(self.name()), *destination(self.family), NotIn(own.name())],
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
        let masqueraded = [*source(self.family), In(nodes.name()), Counter, Masquerade];
        [self.to_other_nodes().as_slice(), &masqueraded].concat()
    }

    /// The rule that marks connections of clients to these servers by the peer that their first packet came by.
    fn marked_by_peer(self) -> Vec<Expression> {
        let [nodes, senders] = [Kind::Nodes, Kind::Senders].map(|kind| Self { kind, ..self });
        [
            [Meta(InputKind), Compare(Equal, &ETHERNET)].as_slice(),
            &is_of(self.family),
            &self.service(),
            &[In(self.name()), Connection(State), Mask(NEW), Compare(NotEqual, &[0; 4])],
            &[*source(self.family), NotIn(nodes.name())],
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
        let [protocol, port] = packet::after_address(self.family, &SOURCE_PORT);
        let from_server = [*source(self.family), protocol, port, In(self.name())];
        let ours = Mask(marks.get().to_ne_bytes());
        let marked = [Connection(Mark), ours, In(of_peers.name()), Counter, Verdict(Goto(LEAD))];
        [is_of(self.family).as_slice(), &from_server, &marked].concat()
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

//! Rules of the table, as data. The text form is in the parent module. Pure.

use std::collections::{BTreeMap, BTreeSet};

use windlass_kernel::netfilter::attributes::Attributes;
use windlass_kernel::netfilter::chain::{Chain, DeviceChain};
use windlass_kernel::netfilter::contents::{SetChange, TableContents};
use windlass_kernel::netfilter::element::Element;
use windlass_kernel::netfilter::expression::{
    Base,
    Comparison::{AtLeast, AtMost, Equal, NotEqual},
    Expression::{
        self, Compare, Counter, ForwardTo, From, HasHeader, Hash, In, Load, Map, Mask, Meta, Payload, Verdict,
    },
    Hash as Hashed,
    Meta::{InputInterface, Protocol, Recipient},
    Verdict::{Accept, Goto},
    encode,
};
use windlass_kernel::netfilter::message::{
    Batch, Operation,
    TableFamily::{self, Netdev},
};
use windlass_kernel::netfilter::packet;
use windlass_vrrp::Family;

use super::contents::{Contents, changed_elements};
use super::hash::{LOTS, SEED, SharedBy};
use super::set::Set;

#[cfg(test)]
mod tests;

/// Before other programs' ingress chains: a packet that is directed has left this node.
const PRIORITY: i32 = -10;
/// The chain that all frames of the interfaces take.
const FRONT: &str = "direct";
/// Parts of nf_tables that kernels may lack, in the order in which they are tried: an error names the part.
const NETDEV: &str =
    "use chains of the family netdev (nf_tables, CONFIG_NF_TABLES_NETDEV, CONFIG_NETFILTER_INGRESS)";
const HASH: &str = "use the expression hash (module nft_hash, CONFIG_NFT_HASH)";
const FWD: &str = "use the expression fwd (module nft_fwd_netdev, CONFIG_NFT_FWD_NETDEV)";
const LINK_LAYER_SOURCE: Expression = Payload { base: Base::Link, offset: 6, length: 6 };
/// Ethernet type. Of a frame with a VLAN tag, which belongs to another interface, it is not that of IPv4 or IPv6.
const ETHERNET_TYPE: Expression = Payload { base: Base::Link, offset: 12, length: 2 };
/// IHL 5: IPv4 without options.
const PLAIN_IPV4: &[u8] = &[0x45];
const FRAGMENT_HEADER: u8 = 44;

/// Places of a connection's ends in a packet, or in the packet that an ICMP error is about.
#[derive(Clone, Copy)]
struct Ends {
    protocol: &'static Expression,
    /// Port of the shared address.
    port: &'static Expression,
    client: &'static Expression,
    client_port: &'static Expression,
}

const fn network(offset: u32, length: u32) -> Expression {
    Payload { base: Base::Network, offset, length }
}

const fn transport(offset: u32, length: u32) -> Expression {
    Payload { base: Base::Transport, offset, length }
}

/// Ends of the connection of a packet from a client.
const fn of_packet(family: Family) -> Ends {
    Ends {
        protocol: &Meta(Protocol),
        port: &packet::PORT,
        client: packet::source(family),
        client_port: &packet::SOURCE_PORT,
    }
}

/// Ends of the connection of the packet to a client that an ICMP error is about. It begins after 8 bytes.
const fn of_error(family: Family) -> Ends {
    match family {
        Family::V4 => Ends {
            protocol: const { &transport(8 + 9, 1) },
            port: const { &transport(8 + 20, 2) },
            client: const { &transport(8 + 16, 4) },
            client_port: const { &transport(8 + 22, 2) },
        },
        Family::V6 => Ends {
            protocol: const { &transport(8 + 6, 1) },
            port: const { &transport(8 + 40, 2) },
            client: const { &transport(8 + 24, 16) },
            client_port: const { &transport(8 + 42, 2) },
        },
    }
}

/// Names of the chains of a family: about all packets, and about ICMP errors.
const fn names(family: Family) -> [&'static str; 2] {
    match family {
        Family::V4 => ["direct4", "errors4"],
        Family::V6 => ["direct6", "errors6"],
    }
}

/// Loads the key of a packet's lot in a map: address, protocol and number.
fn lot_key(family: Family, by: SharedBy, ends: Ends) -> Vec<Expression> {
    let words = packet::words(family);
    let word = |number: u32| words.saturating_add(number);
    // After address, protocol and lot.
    let client = word(2);
    let client_port = client.saturating_add(words);
    let (port, hashed) = match by {
        SharedBy::Connection => (Some(From(client_port, ends.client_port)), word(1)),
        SharedBy::Client => (None, words),
    };
    let hash = Hashed {
        from: client,
        length: hashed.saturating_mul(4),
        into: word(1),
        below: u32::try_from(LOTS).unwrap_or(u32::MAX),
        seed: SEED,
    };
    let key = [*packet::destination(family), From(word(0), ends.protocol), From(client, ends.client)];
    key.into_iter().chain(port).chain([Hash(hash)]).collect()
}

/// Loads the key of the lot of a packet from a client.
pub(crate) fn lot_of_packet(family: Family, by: SharedBy) -> Vec<Expression> {
    lot_key(family, by, of_packet(family))
}

/// Loads the key of the lot of the packet that an ICMP error is about.
pub(crate) fn lot_of_error(family: Family, by: SharedBy) -> Vec<Expression> {
    lot_key(family, by, of_error(family))
}

/// The rule that sends a packet to the node that serves its lot.
fn directing(family: Family, by: SharedBy, ends: Ends) -> Vec<Expression> {
    let words = packet::words(family);
    let is_shared = [
        Meta(InputInterface),
        From(1, packet::destination(family)),
        From(words.saturating_add(1), ends.protocol),
        From(words.saturating_add(2), ends.port),
        In(Set::of(by, family).name()),
    ];
    let directed = [
        Map(Set::Lots(family).name()),
        From(words, const { &Meta(InputInterface) }),
        Counter,
        ForwardTo(packet::number(family), words),
    ];
    [is_shared.as_slice(), &lot_key(family, by, ends), &directed].concat()
}

fn front() -> Vec<Vec<Expression>> {
    let [v4, v6] = [Family::V4, Family::V6].map(names);
    vec![
        vec![Meta(Recipient), Compare(NotEqual, &[0]), Verdict(Accept)],
        vec![LINK_LAYER_SOURCE, In(Set::Peers.name()), Verdict(Accept)],
        vec![ETHERNET_TYPE, Compare(Equal, &[0x08, 0x00]), Verdict(Goto(v4[0]))],
        vec![ETHERNET_TYPE, Compare(Equal, &[0x86, 0xdd]), Verdict(Goto(v6[0]))],
    ]
}

/// The rules about all packets of a family.
fn of_family(family: Family) -> Vec<Vec<Expression>> {
    let [_, errors] = names(family);
    // Older kernels send on what has no hop left.
    let (hops, is_fragment) = match family {
        Family::V4 => {
            let fragment = [network(4, 4), Mask([0, 0, 0x3f, 0xff]), Compare(NotEqual, &[0; 4])];
            (network(8, 1), fragment.to_vec())
        }
        Family::V6 => (network(7, 1), vec![HasHeader(FRAGMENT_HEADER), Compare(Equal, &[1])]),
    };
    let icmp = |matches: &[Expression]| {
        let number: &[u8] = match family {
            Family::V4 => &[1],
            Family::V6 => &[58],
        };
        [&[Meta(Protocol), Compare(Equal, number), transport(0, 1)], matches, &[Verdict(Goto(errors))]]
            .concat()
    };
    let mut rules = vec![
        vec![hops, Compare(AtMost, &[1]), Verdict(Accept)],
        [is_fragment, vec![Verdict(Accept)]].concat(),
        directing(family, SharedBy::Connection, of_packet(family)),
        directing(family, SharedBy::Client, of_packet(family)),
    ];
    match family {
        // Unreachable, time exceeded, parameter problem.
        Family::V4 => rules.extend([&[3], &[11], &[12]].map(|kind| icmp(&[Compare(Equal, kind)]))),
        // The same, and packet too big.
        Family::V6 => rules.push(icmp(&[Compare(AtLeast, &[1]), Compare(AtMost, &[4])])),
    }
    rules
}

/// Rule matches: "the packet that the ICMP error is about has its ports right after its addresses".
pub(crate) fn is_about_plain(family: Family) -> Vec<Expression> {
    match family {
        Family::V4 => vec![transport(8, 1), Compare(Equal, PLAIN_IPV4)],
        Family::V6 => Vec::new(),
    }
}

/// The rules about ICMP errors of a family.
fn about_errors(family: Family) -> Vec<Vec<Expression>> {
    let is_plain = is_about_plain(family);
    [SharedBy::Connection, SharedBy::Client]
        .map(|by| [is_plain.clone(), directing(family, by, of_error(family))].concat())
        .to_vec()
}

/// The chains that those of the interfaces lead to.
fn chains() -> Vec<Chain> {
    let chain = |name, rules| Chain { name, hook: None, rules };
    let of_family = |family| {
        let [all, errors] = names(family);
        [chain(errors, about_errors(family)), chain(all, of_family(family))]
    };
    let mut chains = [Family::V4, Family::V6].map(of_family).into_iter().flatten().collect::<Vec<_>>();
    chains.push(chain(FRONT, front()));
    chains
}

impl TableContents for Contents {
    const FAMILY: TableFamily = Netdev;

    fn sets(&self) -> Vec<(&'static str, Attributes)> {
        Set::ALL.map(|set| (set.name(), set.definition(Attributes::new()))).into()
    }

    fn chains(&self) -> Vec<Chain> {
        chains()
    }

    fn rules(&self) -> usize {
        let common: usize = chains().iter().map(|chain| chain.rules.len()).sum();
        common.saturating_add(self.devices.len())
    }

    fn changes(&self, next: &Self) -> Vec<SetChange> {
        let peers = |one: &Self, other: &Self| {
            one.peers.difference(&other.peers).map(|mac| Element::of(mac.to_vec())).collect()
        };
        let mut changes: BTreeMap<Set, (BTreeSet<Element>, BTreeSet<Element>)> =
            [(Set::Peers, (peers(self, next), peers(next, self)))].into();
        for service in self.changed_services(next) {
            let [old, new] = [self, next].map(|contents| contents.services.get(&service));
            let [gone, come] = changed_elements(service, old, new);
            for (set, element) in gone {
                changes.entry(set).or_default().0.insert(element);
            }
            for (set, element) in come {
                changes.entry(set).or_default().1.insert(element);
            }
        }
        let change = |(set, (gone, come)): (Set, _)| SetChange { set: set.name(), gone, come };
        changes.into_iter().map(change).collect()
    }

    fn step_to(&self, wanted: &Self) -> Option<Self> {
        Some(self.next(wanted)).filter(|next| next != wanted)
    }

    fn require_parts(batch: &mut Batch, table: &str) {
        let (chain, named) = ("parts", || Attributes::new().text(1, table));
        let ingress = Attributes::new().number(1, 0).number(2, 0).text(3, "lo");
        batch.add(NETDEV, Operation::NewChain, named().text(3, chain).nest(4, &ingress));
        batch.add(NETDEV, Operation::DeleteChain, named().text(3, chain));
        let hash = Hashed { from: 0, length: 4, into: 1, below: 2, seed: SEED };
        let parts = [
            (HASH, [Load(&[0; 4]), Hash(hash)].to_vec()),
            (FWD, [Load(&[0; 4]), From(1, &Meta(InputInterface)), ForwardTo(2, 1)].to_vec()),
        ];
        for (part, rule) in parts {
            let rule = named().text(2, chain).nest(4, &encode(&rule));
            batch.add(part, Operation::NewChain, named().text(3, chain));
            batch.add(part, Operation::NewRule, rule);
            batch.add(part, Operation::DeleteChain, named().text(3, chain));
        }
    }

    fn change_devices(&self, next: &Self, batch: &mut Batch, table: &str) {
        for (device, index) in &self.devices {
            if next.devices.get(device) != Some(index) {
                DeviceChain { table, device }.remove(batch);
            }
        }
        for (device, index) in &next.devices {
            if self.devices.get(device) != Some(index) {
                DeviceChain { table, device }.renew(batch, PRIORITY, &[Verdict(Goto(FRONT))]);
            }
        }
    }
}

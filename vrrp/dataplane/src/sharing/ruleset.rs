//! Rules of the table, as data, and the batches that write it. The text form is in the parent module. Pure.

use std::collections::BTreeSet;

use windlass_kernel::netfilter::attributes::Attributes;
use windlass_kernel::netfilter::chain::{Chain, DeviceChain, add_chains, new_table};
use windlass_kernel::netfilter::element::{self, Element};
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
use windlass_kernel::netfilter::message::{Batch, Operation, TableFamily::Netdev};
use windlass_vrrp::Family;

use super::contents::{Contents, changed_elements};
use super::error::Missing;
use super::hash::{LOTS, SEED, SharedBy};
use super::set::Set;

#[cfg(test)]
mod tests;

/// Before other programs' ingress chains: a packet that is directed has left this node.
const PRIORITY: i32 = -10;
/// The chain that all frames of the interfaces take.
const FRONT: &str = "direct";
/// Elements in one message: an attribute has at most 65,535 bytes, and the longest take 80.
const ELEMENTS_IN_A_MESSAGE: usize = 500;
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
        port: const { &transport(2, 2) },
        client: match family {
            Family::V4 => const { &network(12, 4) },
            Family::V6 => const { &network(8, 16) },
        },
        client_port: const { &transport(0, 2) },
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

/// Destination address of a packet, and its length in words.
const fn destination(family: Family) -> (&'static Expression, u32) {
    match family {
        Family::V4 => (const { &network(16, 4) }, 1),
        Family::V6 => (const { &network(24, 16) }, 4),
    }
}

/// Loads the key of a packet's lot in a map: address, protocol and number.
fn lot_key(family: Family, by: SharedBy, ends: Ends) -> Vec<Expression> {
    let (destination, words) = destination(family);
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
    let key = [*destination, From(word(0), ends.protocol), From(client, ends.client)];
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
    let (destination, words) = destination(family);
    let number: u8 = match family {
        Family::V4 => 2,
        Family::V6 => 10,
    };
    let is_shared = [
        Meta(InputInterface),
        From(1, destination),
        From(words.saturating_add(1), ends.protocol),
        From(words.saturating_add(2), ends.port),
        In(Set::of(by, family).name()),
    ];
    let directed = [
        Map(Set::Lots(family).name()),
        From(words, const { &Meta(InputInterface) }),
        Counter,
        ForwardTo(number, words),
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

/// Returns the number of rules in a table with these contents.
pub(super) fn rules(contents: &Contents) -> usize {
    let common: usize = chains().iter().map(|chain| chain.rules.len()).sum();
    common.saturating_add(contents.devices.len())
}

/// Replaces the table, whatever exists under its name, in one step: what an earlier process left directs until then.
pub(super) fn install(table: &str, contents: &Contents) -> Batch {
    let mut batch = new_table(Netdev, table);
    require(&mut batch, table);
    for (set, id) in Set::ALL.into_iter().zip(1..) {
        batch.add(
            format!("create the set {} in the table netdev {table}", set.name()),
            Operation::NewSet,
            set.definition(of_set(table, set).number(10, id)),
        );
    }
    add_chains(&mut batch, Netdev, table, &chains());
    change(&mut batch, table, &Contents::default(), contents);
    batch
}

/// Changes the table from one contents to another.
pub(super) fn update(table: &str, installed: &Contents, next: &Contents) -> Batch {
    let mut batch = Batch::default();
    change(&mut batch, table, installed, next);
    batch
}

/// Shows that the kernel has all parts, each by a step of its own: it names the step that it refuses.
fn require(batch: &mut Batch, table: &str) {
    let (chain, named) = ("parts", || Attributes::new().text(1, table));
    let ingress = Attributes::new().number(1, 0).number(2, 0).text(3, "lo");
    batch.add(Missing::Netdev.step(), Operation::NewChain, named().text(3, chain).nest(4, &ingress));
    batch.add(Missing::Netdev.step(), Operation::DeleteChain, named().text(3, chain));
    let hash = Hashed { from: 0, length: 4, into: 1, below: 2, seed: SEED };
    let parts = [
        (Missing::Hash, [Load(&[0; 4]), Hash(hash)].to_vec()),
        (Missing::Fwd, [Load(&[0; 4]), From(1, &Meta(InputInterface)), ForwardTo(2, 1)].to_vec()),
    ];
    for (part, rule) in parts {
        let rule = named().text(2, chain).nest(4, &encode(&rule));
        batch.add(part.step(), Operation::NewChain, named().text(3, chain));
        batch.add(part.step(), Operation::NewRule, rule);
        batch.add(part.step(), Operation::DeleteChain, named().text(3, chain));
    }
}

fn change(batch: &mut Batch, table: &str, installed: &Contents, next: &Contents) {
    for (device, index) in &installed.devices {
        if next.devices.get(device) != Some(index) {
            DeviceChain { table, device }.remove(batch);
        }
    }
    let peer = |mac: &[u8; 6]| (Set::Peers, Element::of(mac.to_vec()));
    let mut gone: BTreeSet<_> = installed.peers.difference(&next.peers).map(peer).collect();
    let mut come: BTreeSet<_> = next.peers.difference(&installed.peers).map(peer).collect();
    for service in installed.changed_services(next) {
        let [old, new] = [installed, next].map(|contents| contents.services.get(&service));
        let [of_service, new] = changed_elements(service, old, new);
        gone.extend(of_service);
        come.extend(new);
    }
    let steps = [
        (gone, Operation::DeleteElements, "delete elements from"),
        (come, Operation::NewElements, "add elements to"),
    ];
    for (elements, operation, what) in steps {
        let elements: Vec<_> = elements.into_iter().collect();
        for of_one_set in elements.chunk_by(|(set, _), (next, _)| set == next) {
            for piece in of_one_set.chunks(ELEMENTS_IN_A_MESSAGE) {
                let Some((set, _)) = piece.first() else { continue };
                let what = format!("{what} the set {} of the table netdev {table}", set.name());
                let elements = element::encode(piece.iter().map(|(_, element)| element));
                batch.add(what, operation, of_set(table, *set).nest(3, &elements));
            }
        }
    }
    for (device, index) in &next.devices {
        if installed.devices.get(device) != Some(index) {
            DeviceChain { table, device }.renew(batch, PRIORITY, &[Verdict(Goto(FRONT))]);
        }
    }
}

/// Names a set for a change of it or its elements.
fn of_set(table: &str, set: Set) -> Attributes {
    Attributes::new().text(1, table).text(2, set.name())
}

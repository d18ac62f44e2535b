//! Errors of a Service's request.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use windlass_api::{ANNOTATION_ADDRESS_COUNT, ANNOTATION_SHARE_WITH, ANNOTATION_SHARING_KEY};
use windlass_ccm::service::{RangesPlace, SourceRangesError};
use windlass_ipam::Family;

use super::limits::{
    LONGEST_KEY, MOST_ELEMENTS, MOST_NAMESPACES, MOST_OF_A_FAMILY, MOST_PORTS, MOST_SOURCES,
};
use crate::allocation::source_elements::MOST_OF_CLUSTER;

/// Reason that a Service cannot be served as requested, with the remedy. Annotations are named by their full names, fields by their
/// paths.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Ranges of clients that are none.
    #[error("{0}; until then the nodes admit no client")]
    Sources(#[from] SourceRangesError),
    /// More ranges than a `VirtualIP` holds.
    #[error("{place}: {number} ranges are named: name at most {MOST_SOURCES}")]
    TooManySources { place: RangesPlace, number: usize },
    /// More ranges at each of many ports than a node keeps of one Service.
    #[error(
        "{place}: {number} ranges at each of {ports} ports exceed the {MOST_ELEMENTS} entries that a node \
         holds for one Service: write fewer or wider ranges"
    )]
    TooManySourcesOfPorts { place: RangesPlace, number: usize, ports: usize },
    /// More of them than a node keeps of all Services.
    #[error(
        "the source ranges need {number} entries on each node (one per port, and one per range at each \
         port), but the nodes keep {others} of other Services and {MOST_OF_CLUSTER} at most; until there is \
         room, they admit no client: write fewer or wider ranges"
    )]
    NoRoomForSources { number: usize, others: usize },
    /// More ports than nodes keep.
    #[error("spec.ports: {number} ports: write at most {MOST_PORTS}, and the others in another Service")]
    TooManyPorts { number: usize },
    /// An annotation without end.
    #[error("{annotation}: {text}")]
    TooLong { annotation: &'static str, text: String },
    /// Not an address at all.
    #[error("{place}: {value:?} is not an IP address: write one, as 192.0.2.10 or 2001:db8::10")]
    NotAnAddress { place: &'static str, value: String },
    /// An IPv4 address in IPv6's clothes, which no neighbour would ask for.
    #[error("{place}: {address} is an IPv4 address mapped into IPv6: write {v4}")]
    Mapped { place: &'static str, address: Ipv6Addr, v4: Ipv4Addr },
    /// An address that no host can have.
    #[error("{place}: {address} is {why}, which no Service can have: name one of a pool")]
    Unusable { place: &'static str, address: IpAddr, why: &'static str },
    /// kube-vip's way to ask for DHCP.
    #[error(
        "{place}: {address} asks for an address by DHCP, which is not supported: name an address of a pool, or remove \
         the annotation to be given one"
    )]
    Dhcp { place: &'static str, address: IpAddr },
    /// One address twice in a list.
    #[error("{place}: {address} is named twice: name it once")]
    NamedTwice { place: &'static str, address: IpAddr },
    /// A list that is too long.
    #[error("{place}: {number} {family} addresses are named: name at most {MOST_OF_A_FAMILY}")]
    TooManyNamed { place: &'static str, family: Family, number: usize },
    /// Two places contradict each other.
    #[error("{first} is {says}, but {second} is {but}: remove one of them")]
    Disagree { first: &'static str, says: String, second: &'static str, but: String },
    /// An address of a family that the Service has not (allocation scenarios 51, 52).
    #[error(
        "{place}: {address} is named, and the Service has no {family}: name one of its own families, or add {family} \
         to spec.ipFamilies"
    )]
    OtherFamily { place: &'static str, address: IpAddr, family: Family },
    /// Both families are required and one is not named (allocation scenario 51).
    #[error(
        "{place} names no {family} address, and spec.ipFamilyPolicy is RequireDualStack: name one of each family, or none"
    )]
    FamilyNotNamed { place: &'static str, family: Family },
    /// Not a number, or out of bounds.
    #[error(
        "{ANNOTATION_ADDRESS_COUNT}: {value:?} is not a number from 1 to {MOST_OF_A_FAMILY}: write how many addresses \
         of each family the Service is to have"
    )]
    Count { value: String },
    /// The count and the named addresses contradict each other.
    #[error(
        "{ANNOTATION_ADDRESS_COUNT} says {count}, and {place} names {number} of {family}: name {count}, or remove the \
         count"
    )]
    CountAndNames { count: u8, place: &'static str, family: Family, number: usize },
    /// A pool that cannot exist.
    #[error("{annotation}: {value:?} is not the name of a VirtualIPPool: name one pool")]
    PoolName { annotation: &'static str, value: String },
    /// A sharing key without end.
    #[error("{annotation}: the key has {length} bytes: write at most {LONGEST_KEY}")]
    LongKey { annotation: &'static str, length: usize },
    /// A sharing key that looks like another one.
    #[error("{annotation}: {character:?} is in the key: write printable ASCII characters without spaces")]
    KeyCharacter { annotation: &'static str, character: char },
    /// Sharing without saying what.
    #[error("{ANNOTATION_SHARE_WITH} is set without {ANNOTATION_SHARING_KEY}: set the key too, or remove it")]
    ShareWithoutKey,
    /// Not a namespace.
    #[error("{ANNOTATION_SHARE_WITH}: {value:?} is not the name of a namespace: write names as in \"a, b\"")]
    NoNamespace { value: String },
    /// Too many namespaces.
    #[error("{ANNOTATION_SHARE_WITH}: {number} namespaces are named: name at most {MOST_NAMESPACES}")]
    TooManyNamespaces { number: usize },
    /// A word that is no family.
    #[error("spec.ipFamilies: {value:?} is neither IPv4 nor IPv6: write one of them")]
    UnknownFamily { value: String },
    /// One family twice.
    #[error("spec.ipFamilies: {family} is there twice: write it once")]
    FamilyTwice { family: Family },
    /// A word that is no policy.
    #[error(
        "spec.ipFamilyPolicy: {value:?} is not known: write SingleStack, PreferDualStack or RequireDualStack"
    )]
    UnknownPolicy { value: String },
    /// Both families are required and the cluster gave one (allocation scenario 41).
    #[error(
        "spec.ipFamilyPolicy is RequireDualStack, and the Service has {family} only: write PreferDualStack, or give \
         the cluster a Service range of the other family"
    )]
    OneFamily { family: Family },
    /// A word that is no protocol.
    #[error("spec.ports: protocol {value:?} is not known: write TCP, UDP or SCTP")]
    UnknownProtocol { value: String },
    /// A number that is no port.
    #[error("spec.ports: {value} is not a port: write a number from 1 to 65535")]
    Port { value: i32 },
}

/// A value for a message: what users write may be of any length.
pub(super) fn shortened(text: &str) -> String {
    const MOST: usize = 64;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

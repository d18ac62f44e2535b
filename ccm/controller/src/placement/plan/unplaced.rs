//! Reasons that no virtual router carries a VIP.

use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass_api::{VirtualIP, announced};

use crate::placement::announcements::ParsedAnnouncement;

/// Reason that no virtual router can carry a VIP, in words for its condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unplaced {
    /// No node's subnet holds the address.
    #[error(
        "{address} is in no subnet of any node with a Windlass agent: give pool {pool:?} addresses of the nodes' subnet, \
         or name the interface in the spec.interfaces of an Announcement"
    )]
    Segment { address: IpAddr, pool: String },
    /// None of the nodes and interfaces that the Announcement leaves has one.
    #[error(
        "no node with a Windlass agent that Announcement {announcement:?} selects has an {} subnet for {address} on {}: \
         correct its spec.nodeSelectors, spec.interfaces or spec.excludeInterfaces",
        family(*.address), which(.interfaces)
    )]
    Announcement { address: IpAddr, announcement: String, interfaces: String },
    /// The nodes have addresses of the family, each by itself.
    #[error(
        "{address} is in no subnet of any node with a Windlass agent, because the nodes' {} addresses have \
         no subnet (example: {example}). Configure them with the prefix length of the subnet, such as /{}",
        family(*.address), usual_prefix(*.address)
    )]
    HostRoutes { address: IpAddr, example: String },
    /// IPv6 is off on the interfaces, except for addresses that were set by hand.
    #[error(
        "{address} is in {segment}, where no node's interface has a link-local address, the source of IPv6 \
         adverts: let the interfaces have one (sysctl net.ipv6.conf.<interface>.addr_gen_mode)"
    )]
    LinkLocal { address: IpAddr, segment: IpNet },
    /// The VIP is restricted, and no agent there enforces that.
    #[error(
        "source ranges restrict {address}, and no node that could announce it enforces them: the \
         NodeNetworks of {agents} do not have SourceRanges in spec.capabilities. Apply the definitions \
         (kubectl apply -f manifests/crds), then update the agents"
    )]
    AgentTooOld { address: IpAddr, agents: String },
    /// Every VRID is in use on the segment.
    #[error("all 255 VRIDs are in use on segment {segment}: free one, or use addresses of another segment")]
    Vrid { segment: IpNet },
    /// Every VRID that the Announcement allows is in use on the segment.
    #[error(
        "all VRIDs from {first} to {last}, which Announcement {announcement:?} allows, are in use on segment \
         {segment}: extend its spec.vrrp.vridRange, or free one"
    )]
    VridRange { segment: IpNet, announcement: String, first: u8, last: u8 },
}

impl Unplaced {
    /// Reason for a condition: one of [`announced::UNPLACED`].
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Segment { .. } => announced::NO_SEGMENT,
            Self::Announcement { .. } => announced::NO_INTERFACE,
            Self::HostRoutes { .. } => announced::NO_SUBNET,
            Self::LinkLocal { .. } => announced::NO_LINK_LOCAL_ADDRESS,
            Self::AgentTooOld { .. } => announced::AGENT_TOO_OLD,
            Self::Vrid { .. } | Self::VridRange { .. } => announced::NO_VRID,
        }
    }

    /// Returns the reason for an Announcement for which no VRID is left.
    pub(super) fn vrid(segment: IpNet, announcement: &ParsedAnnouncement) -> Self {
        let (first, last) = (*announcement.vrrp.vrids.start(), *announcement.vrrp.vrids.end());
        match &announcement.name {
            Some(name) if (first, last) != (1, u8::MAX) => {
                Self::VridRange { segment, announcement: name.clone(), first, last }
            }
            Some(_) | None => Self::Vrid { segment },
        }
    }
}

fn which(interfaces: &str) -> String {
    if interfaces.is_empty() {
        "the interfaces that it leaves".to_owned()
    } else {
        format!("interface {interfaces}")
    }
}

const fn usual_prefix(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 24,
        IpAddr::V6(_) => 64,
    }
}

const fn family(address: IpAddr) -> &'static str {
    match address {
        IpAddr::V4(_) => "IPv4",
        IpAddr::V6(_) => "IPv6",
    }
}

/// Returns the planner's reason that the address is not placed. An earlier reason of an agent, such as a quarantine, does
/// not mean that none will.
pub(crate) fn why_unplaced(vip: &VirtualIP) -> Option<&str> {
    if vip.is_placed() {
        return None;
    }
    let of_planner = |one: &&Condition| announced::UNPLACED.contains(&one.reason.as_str());
    vip.announced().filter(of_planner).map(|one| one.message.as_str())
}

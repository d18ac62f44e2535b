//! Log lines of the engine's events, and the faults that an operator has to repair. Pure but for the log.

use std::net::IpAddr;

use windlass_api::node_event;
use windlass_engine::{Event, RouterKey};

use crate::bgp_sessions;
use crate::mac;

#[cfg(test)]
mod tests;

/// Remedies, in terms of the settings of the program that runs the engine.
pub(crate) struct Remedies {
    /// Remedy where multicast does not pass.
    pub(crate) multicast: &'static str,
    /// Remedy against a host that sends in a peer's name.
    pub(crate) forged: &'static str,
    /// Remedy where a virtual IP is an address of the interface.
    pub(crate) on_interface: &'static str,
}

/// Remedies of an agent.
pub(crate) const AGENT: Remedies = Remedies {
    multicast: "let the switches flood 224.0.0.18 and ff02::12 or turn on a querier where they snoop IGMP and MLD, or set \
                spec.vrrp.transport: Unicast in the Announcement",
    forged: "require a key (spec.vrrp.authentication of the Announcement)",
    on_interface: "remove it there, or give the Service another address",
};

/// Remedies of `windlass vip`.
pub(crate) const VIP: Remedies = Remedies {
    multicast: "let the switches flood 224.0.0.18 and ff02::12 or turn on a querier where they snoop IGMP and MLD, or name the nodes as \
                peers",
    forged: "sign adverts (keysDir)",
    on_interface: "remove it there",
};

/// A fault of this machine or of the LAN that does not go away by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Reason, one of [`node_event::ALL`].
    pub(crate) reason: &'static str,
    /// Virtual router that met it. The routers of one interface share the remedy.
    pub(crate) key: RouterKey,
    /// Host that it concerns; `None`: this node.
    pub(crate) about: Option<IpAddr>,
    /// Description of the fault, and its remedy.
    pub(crate) message: String,
}

impl Fault {
    fn new(reason: &'static str, key: &RouterKey, about: Option<IpAddr>, message: &str) -> Self {
        Self { reason, key: key.clone(), about, message: format!("on {}: {message}", key.interface) }
    }

    /// Returns the fault that an event reports, if any.
    fn of(event: &Event, remedies: &Remedies) -> Option<Self> {
        match event {
            Event::SourceInUse { key } => Some(Self::new(
                node_event::SOURCE_IN_USE,
                key,
                None,
                "received adverts from this node's own address: another host has it, or the LAN sends frames \
                 back. Two nodes with one address both become Active: give one of them another address",
            )),
            Event::SecondActive { key, source } => Some(Self::new(
                node_event::SECOND_ACTIVE,
                key,
                Some(*source),
                &format!(
                    "{source} stays Active of VRID {} although this node has precedence: it does not receive \
                     this node's adverts (look there for a firewall, a full receive queue or a one-way \
                     cable), it rejects them (check keys and clock), or another host sends from its address: \
                     {}",
                    key.vrid, remedies.forged
                ),
            )),
            Event::AdvertsRefused { key, error } => Some(Self::new(
                node_event::ADVERTS_REFUSED,
                key,
                None,
                &format!("{error}; another node takes over, so both are Active"),
            )),
            Event::Unauthenticated { key, source, error } => Some(Self::new(
                node_event::ADVERTS_NOT_AUTHENTIC,
                key,
                Some(*source),
                &format!(
                    "rejected adverts of {source}: {error}; until they are accepted, both may be Active"
                ),
            )),
            Event::ClocksDiffer { key, source, seconds } => Some(Self::new(
                node_event::CLOCKS_DIFFER,
                key,
                Some(*source),
                &format!(
                    "the clock of {source} is {seconds} s ahead, more than half of the allowed difference: \
                     beyond that, this node rejects its adverts, and both become Active; synchronise the \
                     clocks"
                ),
            )),
            Event::AddressOnInterface { key, address } => Some(Self::new(
                node_event::VIRTUAL_IP_ON_INTERFACE,
                key,
                Some(*address),
                &format!(
                    "the virtual IP {address} is configured on the interface, so this node answers for it \
                     even in Backup; {}",
                    remedies.on_interface
                ),
            )),
            Event::ClaimIgnored { key, intruder } => {
                Some(Self::new(node_event::CLAIM_IGNORED, key, None, &intruder.to_string()))
            }
            _ => None,
        }
    }
}

/// Logs one line for an event. Returns the fault that it reports, if any.
pub(crate) fn log(event: &Event, remedies: &Remedies) -> Option<Fault> {
    let fault = Fault::of(event, remedies);
    match &fault {
        Some(fault) => tracing::warn!(vrid = fault.key.vrid.get(), "{}", fault.message),
        None => log_faultless(event, remedies),
    }
    fault
}

fn log_faultless(event: &Event, remedies: &Remedies) {
    match event {
        Event::StateChanged { key, state, reason } => {
            tracing::info!(vrid = key.vrid.get(), interface = %key.interface, %state, ?reason, "state changed");
        }
        Event::ForeignRouter { interface, vrid, source, version, carp, .. } => {
            tracing::debug!(
                %interface, vrid, %source, version, carp,
                "received an advert of a foreign VRRP router"
            );
        }
        Event::Failed { key, error } => {
            tracing::warn!(vrid = key.vrid.get(), interface = %key.interface, %error, "cannot run the virtual router");
        }
        Event::Recovered { key } => {
            tracing::info!(vrid = key.vrid.get(), interface = %key.interface, "the virtual router runs again");
        }
        Event::AddressesClaimed { key, addresses } => {
            tracing::debug!(vrid = key.vrid.get(), interface = %key.interface, ?addresses, "answering for addresses");
        }
        Event::AddressConflict { interface, address, mac: host } => {
            let mac = mac(*host);
            tracing::warn!(%interface, %address, %mac, "another host claims an address that this node announces");
        }
        Event::AddressTaken { key, address, mac: host } => {
            let mac = mac(*host);
            tracing::warn!(
                vrid = key.vrid.get(), interface = %key.interface, %address, %mac,
                "not announcing the address, because another host answers for it; probing until that host \
                 stops"
            );
        }
        Event::AddressLeftToPeer { key, address, mac: peer } => {
            let mac = mac(*peer);
            tracing::info!(
                vrid = key.vrid.get(), interface = %key.interface, %address, %mac,
                "not announcing the address, because a peer with precedence serves it in another virtual \
                 router"
            );
        }
        Event::WithoutMulticast { key, peers } if peers.is_empty() => {
            tracing::info!(vrid = key.vrid.get(), interface = %key.interface, "VRRP multicast passes again");
        }
        Event::WithoutMulticast { key, peers } => tracing::warn!(
            vrid = key.vrid.get(), interface = %key.interface, ?peers,
            "VRRP multicast does not pass between this node and these peers: unicast takes its place; \
             {}", remedies.multicast
        ),
        Event::SessionChanged { session, state, error: None } => {
            tracing::info!(peer = %session, %state, "the BGP session is up");
        }
        Event::SessionChanged { session, state, error: Some(error) } => tracing::warn!(
            peer = %session, %state, %error,
            "the BGP session is down; remedy: {}", bgp_sessions::remedy(error)
        ),
        Event::RoutesAcknowledged { session } => {
            tracing::info!(peer = %session, "the BGP router has acknowledged all routes");
        }
        // The engine has already logged the reason.
        Event::GuardChanged
        | Event::BfdChanged { .. }
        | Event::HelperAway { .. }
        | Event::HelperBack { .. } => {}
        Event::PeersNotRecognised { key } => tracing::warn!(
            vrid = key.vrid.get(), interface = %key.interface,
            "many unknown hosts advertise a virtual IP of this virtual router: the node accepts only a few \
             of them a second as peers, first those that keep sending. If their adverts are forged: \
             {}", remedies.forged
        ),
        _ => tracing::warn!(?event, "event of the VRRP engine"),
    }
}

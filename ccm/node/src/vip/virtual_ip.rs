//! A virtual IP, and its configuration for the engine. Pure: adverts, host addresses and results of checks are passed in.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use windlass_engine::{
    Backends, Balancing, ClientSource, Hold, HostAddresses, Priority, Protocol, ProtocolPort, Restrictions,
    RouterConfig, RouterStatus, State, Transport, Vrid,
};
use windlass_vrrp::auth::{Authenticator, SignedData, WallTime};
use windlass_vrrp::vrid_choice::{Decision, Listing, Role, VridChoice};
use windlass_vrrp::wire::{self, Addressing, Datagram, ExpectedAdvert};
use windlass_vrrp::{Family, Time, Versions};

use super::election::{LostPriority, PASSING_FROM, priority};
use super::place::{self, Place};
use super::settings::{SourceAddress, VipSettings};
use crate::keys::signing::SigningKeys;

#[cfg(test)]
mod tests;

/// Time for which the LAN is probed for another host with the address, before it is announced for the first time (RFC 5227 §2.1.1).
const PROBE: Duration = Duration::from_millis(60);
/// Preempt delay by which a fit node keeps the address, whichever node comes.
const NEVER: Duration = Duration::from_hours(24 * 365 * 100);

const NO_PLACE: &str = "its interface is not known yet";

/// A virtual IP on this node.
#[derive(Debug)]
pub(super) struct VirtualIp {
    pub(super) settings: VipSettings,
    place: Result<Place, String>,
    /// Interface that has it from another source than this process.
    bound_by_others: Option<String>,
    /// Verifies the adverts that list the address under other VRIDs.
    authenticator: Authenticator,
    vrid: VridSource,
}

#[derive(Debug)]
enum VridSource {
    /// The administrator gave it.
    Given(Vrid),
    /// It is chosen. No choice before there is a place to listen at.
    Chosen(Option<Choice>),
}

/// The choice of a VRID on the LAN of an interface.
#[derive(Debug)]
struct Choice {
    interface: String,
    vrids: VridChoice,
    decision: Decision,
}

/// State of a node that all its virtual IPs need.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    /// `None`: adverts are not signed.
    pub(super) keys: Option<&'a SigningKeys>,
    /// Returns true if a process of this machine has this VRID on this interface.
    pub(super) vrid_in_use: &'a dyn Fn(&str, IpAddr, Vrid) -> bool,
    pub(super) now: Time,
    pub(super) wall: WallTime,
}

/// A router that is no peer, or not under this VRID.
#[derive(Clone, Copy)]
pub(super) struct Heard<'a> {
    pub(super) interface: &'a str,
    pub(super) vrid: u8,
    pub(super) source: IpAddr,
    /// The addresses that its advert lists.
    pub(super) listed: &'a [IpAddr],
    /// The VRRP message, with what follows it.
    pub(super) message: &'a [u8],
}

impl VirtualIp {
    pub(super) fn new(settings: VipSettings) -> Self {
        let vrid = settings.vrid.map_or(VridSource::Chosen(None), VridSource::Given);
        Self {
            settings,
            place: Err(NO_PLACE.to_owned()),
            bound_by_others: None,
            authenticator: Authenticator::new(None),
            vrid,
        }
    }

    /// Takes other settings, of the same address. What was chosen stays.
    pub(super) fn change(&mut self, settings: VipSettings) {
        if settings.vrrp != self.settings.vrrp {
            // It is found again, and with it a VRID if VRRP needs one.
            self.place = Err(NO_PLACE.to_owned());
            self.vrid = VridSource::Chosen(None);
        }
        match (settings.vrid, &self.vrid) {
            (Some(vrid), _) => self.vrid = VridSource::Given(vrid),
            (None, VridSource::Given(_)) => self.vrid = VridSource::Chosen(None),
            (None, VridSource::Chosen(_)) => {}
        }
        self.settings = settings;
    }

    /// Finds the place at which it is announced. Returns true if that has changed.
    pub(super) fn find_place(&mut self, machine: &HostAddresses, now: Time) -> bool {
        let bound = machine.addresses.iter().find(|(_, address)| *address == self.settings.address);
        self.bound_by_others = bound.map(|(interface, _)| interface.clone());
        let place = place::find(&self.settings, machine);
        if place == self.place {
            return false;
        }
        // A machine that has lost its address for a moment gets it back: the VRID is the same.
        if let (Ok(Place { interface, source, .. }), VridSource::Chosen(choice), true) =
            (&place, &mut self.vrid, self.settings.vrrp)
        {
            match choice {
                Some(known) if known.interface == *interface => known.vrids.set_source(*source),
                Some(_) | None => {
                    let new = VridChoice::new(self.settings.address, *source, now);
                    *choice =
                        Some(Choice { interface: interface.clone(), vrids: new, decision: Decision::Listen });
                }
            }
        }
        self.place = place;
        true
    }

    /// Returns the place at which it is announced, or the reason why there is none.
    pub(super) fn place(&self) -> Result<&Place, &str> {
        self.place.as_ref().map_err(String::as_str)
    }

    /// Returns true if packets that routers send here are served: by this node's programs, or by the backends.
    pub(super) fn can_serve(&self) -> bool {
        self.place.is_ok() && self.bound_by_others.is_none()
    }

    /// Its VRID, once there is one.
    pub(super) fn vrid(&self) -> Option<Vrid> {
        match &self.vrid {
            VridSource::Given(vrid) => Some(*vrid),
            VridSource::Chosen(choice) => choice.as_ref().and_then(|known| known.vrids.vrid()),
        }
    }
    /// Records an advert that the engine does not accept. A router that lists the address is a peer; if adverts are signed, only with a
    /// valid signature.
    pub(super) fn hear(&mut self, heard: Heard<'_>, node: Node<'_>) {
        let Heard { interface, vrid, source, listed, message } = heard;
        let is_here = self.place.as_ref().is_ok_and(|place| place.interface == interface);
        let is_of_family = source.is_ipv4() == self.settings.address.is_ipv4();
        let (VridSource::Chosen(Some(Choice { vrids, .. })), Ok(vrid), true, true) =
            (&mut self.vrid, Vrid::new(vrid), is_here, is_of_family)
        else {
            return;
        };
        let mut is_believed = || match node.keys {
            None => true,
            Some(keys) => {
                self.authenticator.reconfigure(keys.authentication(self.settings.advert_interval));
                is_signed(&mut self.authenticator, source, message, node.wall)
            }
        };
        let listing = if listed.contains(&self.settings.address) {
            if is_believed() { Listing::Ours } else { Listing::Others }
        } else if listed.is_empty() {
            Listing::Nothing
        } else {
            Listing::Others
        };
        vrids.hear(vrid, source, listing, node.now);
    }

    /// Chooses a VRID where that is to be done; whether it is another one.
    pub(super) fn choose_vrid(&mut self, status: Option<&RouterStatus>, node: Node<'_>) -> bool {
        let (VridSource::Chosen(Some(Choice { vrids, decision, .. })), Ok(place)) =
            (&mut self.vrid, &self.place)
        else {
            return false;
        };
        let role = match status.map(|status| (status.state, status.active)) {
            Some((State::Active, _)) => Role::Active,
            Some((State::Backup, active)) => Role::Backup { active },
            Some((State::Initialize, _)) | None => Role::Initialize,
        };
        let before = vrids.vrid();
        if let (Some(vrid), true) = (before, status.is_some_and(|status| status.lacks_vrid)) {
            vrids.hear(vrid, place.source, Listing::Others, node.now);
        }
        if let Some(RouterStatus { key, state: State::Backup, active: Some(active), .. }) = status {
            vrids.note_running(key.vrid, *active, node.now);
        }
        let taken = |vrid| (node.vrid_in_use)(&place.interface, self.settings.address, vrid);
        *decision = vrids.decide(role, taken, node.now);
        if before != vrids.vrid() {
            let vrid = vrids.vrid().map(Vrid::get);
            tracing::info!(address = %self.settings.address, interface = place.interface, vrid, "chose a VRID");
        }
        before != vrids.vrid()
    }

    /// Returns the obstacle to its announcement that this node or its administrator can remove.
    pub(super) fn obstacle(&self, keys: Option<&SigningKeys>) -> Option<String> {
        let no_keys = keys.is_some_and(|keys| keys.authentication(self.settings.advert_interval).is_none());
        match (&self.place, &self.vrid) {
            (Err(why), _) => Some(why.clone()),
            (Ok(_), VridSource::Chosen(Some(Choice { decision: Decision::NoneFree, .. }))) => {
                Some("other routers of this LAN use all 255 VRIDs: free one, or set vrid".to_owned())
            }
            (Ok(_), _) if no_keys => {
                Some("no key signs its adverts yet: write a key to the folder keysDir".to_owned())
            }
            (Ok(_), VridSource::Given(_) | VridSource::Chosen(_)) => {
                let address = self.settings.address;
                self.bound_by_others.as_ref().map(|interface| {
                    if !self.settings.vrrp {
                        return format!(
                            "{address} is an address of interface {interface} of this host, and a node's own \
                             address is not announced by BGP: remove it (`ip addr del {address} dev \
                             {interface}`), or choose another virtual IP"
                        );
                    }
                    format!(
                        "another program configured {address} on interface \
                         {interface} of this host, so its kernel answers for it even while another node is \
                         Active: remove it (`ip addr del {address} dev {interface}`, and from the network's \
                         configuration), and stop whatever else announces it, such as keepalived"
                    )
                })
            }
        }
    }

    /// Returns its virtual router, with the priority that the checks leave; `None` while something is missing.
    pub(super) fn router(&self, lost: LostPriority, node: Node<'_>) -> Option<RouterConfig> {
        let settings = &self.settings;
        let (place, vrid) = (self.place.as_ref().ok()?, self.vrid()?);
        let authentication = match node.keys {
            None => None,
            Some(keys) => Some(keys.authentication(settings.advert_interval)?),
        };
        let is_own = |peer: &&IpAddr| **peer == place.own || **peer == place.source;
        let peers: BTreeSet<IpAddr> = settings.peers.iter().filter(|peer| !is_own(peer)).copied().collect();
        // Without a peer there is nobody to speak to by unicast.
        let multicast = settings.multicast || peers.is_empty();
        let priority = priority(settings.priority, lost, place.source);
        let config = RouterConfig {
            priority,
            interval: settings.advert_interval,
            // One whose checks fail takes over from nobody that is heard: where they fail on all a move is a gap for nothing.
            preempt: priority.get() >= PASSING_FROM,
            preempt_delay: if settings.preempt && lost.proving == 0 { Duration::ZERO } else { NEVER },
            // One whose checks pass is left in place though they have failed before: a move would break connections that are served.
            fit_from: Priority::new(PASSING_FROM).ok()?,
            recognise_peers: multicast,
            transport: if multicast {
                Transport::default()
            } else {
                Transport::Unicast { ttl: u8::MAX, accept_ttl: u8::MAX..=u8::MAX }
            },
            unicast_fallback: multicast,
            peers,
            addresses: [settings.address].into(),
            hold: if settings.bind { Hold::Address } else { Hold::Respond },
            accept: settings.bind,
            probe: Some(PROBE),
            // An unfit node's own server may hang. With balancing, other servers take the connections.
            forward_to_unfit: settings.balance.is_some(),
            authentication,
            ..RouterConfig::new(place.interface.clone(), vrid, place.source)
        };
        Some(config)
    }

    /// Closes its ports but those that are served.
    pub(super) fn restrict(&self, restrictions: &mut Restrictions) {
        if self.settings.route.is_some() && self.bound_by_others.is_none() {
            restrictions.guard_routed(self.settings.address);
        }
        restrictions.only_ports(self.settings.address, self.ports());
    }

    /// Sends connections to its ports to this node's programs, or to the backends that are well.
    pub(super) fn balance(&self, well: &BTreeSet<SocketAddr>, balancing: &mut Balancing) {
        let Ok(place) = &self.place else { return };
        let backends = |port: ProtocolPort| match &self.settings.balance {
            // None is well: then one that is believed not to be is better than none.
            Some(balance) => Some(Backends {
                targets: if well.is_empty() { balance.backends.clone() } else { well.clone() },
                source: match balance.source {
                    SourceAddress::Masquerade => ClientSource::Masquerade,
                    SourceAddress::Keep => ClientSource::Keep,
                },
            }),
            None if self.settings.bind => None,
            None => Some(Backends {
                targets: [SocketAddr::new(place.own, port.port)].into(),
                source: ClientSource::Masquerade,
            }),
        };
        let services = self.ports().filter_map(|port| Some(((self.settings.address, port), backends(port)?)));
        balancing.services.extend(services);
        self.lead_back(balancing);
    }
    /// Sends answers of this node's server through the node that balances, where clients keep their addresses.
    fn lead_back(&self, balancing: &mut Balancing) {
        let keeps = self.settings.balance.iter().filter(|balance| match balance.source {
            SourceAddress::Keep => true,
            SourceAddress::Masquerade => false,
        });
        for backend in keeps.flat_map(|balance| &balance.backends) {
            if balancing.own.contains(&backend.ip()) {
                let port = ProtocolPort { protocol: Protocol::Tcp, port: backend.port() };
                balancing.returns.servers.insert((backend.ip(), port));
            } else {
                balancing.returns.peers.insert(backend.ip());
            }
        }
    }

    /// Returns true if [`Self::balance`] applies to this node's own packets to it.
    pub(super) fn is_translated(&self) -> bool {
        !self.settings.bind || self.settings.balance.is_some()
    }

    fn ports(&self) -> impl Iterator<Item = ProtocolPort> {
        self.settings.ports.iter().map(|port| ProtocolPort { protocol: Protocol::Tcp, port: *port })
    }
}

/// Returns true if one of the keys signed this advert to the group of all VRRP routers.
fn is_signed(authenticator: &mut Authenticator, source: IpAddr, message: &[u8], wall: WallTime) -> bool {
    if authenticator.config().is_none() {
        return false;
    }
    let group = wire::default_group(Family::of(source));
    let datagram = Datagram { source, destination: group, ttl: wire::TTL, payload: message };
    let addressing = Addressing::Multicast { group, unicast: false };
    let expected = ExpectedAdvert { versions: Versions::V2AndV3, addressing, trailer: true };
    let Ok(packet) = wire::parse(&datagram, |_| Some(&expected)) else { return false };
    let data = SignedData { source, vrid: packet.vrid, message: packet.message };
    authenticator.admit(data, packet.trailer, wall).is_ok()
}

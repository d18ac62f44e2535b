//! Configuration of the virtual routers that the engine runs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::IpNet;
use windlass_vrrp::auth::Authentication;
use windlass_vrrp::wire::{self, Addressing, Checksum};
use windlass_vrrp::{Config, Family, Interval, InvalidVersions, Priority, Versions, Vrid};

#[cfg(test)]
mod tests;

/// One virtual router on this node. [`RouterConfig::new`] gives the RFC's defaults.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the user over `RouterConfig::new`")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own, as the RFC's Preempt_Mode and Accept_Mode"
)]
pub struct RouterConfig {
    /// Interface on whose LAN it runs.
    pub interface: String,
    /// Its VRID.
    pub vrid: Vrid,
    /// This node's priority in it: the highest is Active. Default: 100. 255 is for the owner of the addresses, which does not
    /// wait when it starts.
    pub priority: Priority,
    /// Time between adverts while Active. Default: 1 s. Another candidate takes over after 3 intervals and its skew time.
    pub interval: Interval,
    /// True if it takes over from an Active of lower priority. Default: yes.
    pub preempt: bool,
    /// Time for which it leaves an Active of lower priority in place before it takes over, from the first advert received from it. A silent
    /// Active is replaced without this delay. Default: none.
    pub preempt_delay: Duration,
    /// Priority from which on an Active is fit for its work: a lower one is not left in place for the delay, and a Backup that is fit
    /// takes over from it after its skew time. Default: 1, of which every Active is.
    pub fit_from: Priority,
    /// Peers that come before this node. Each of them but the Active is left [`Self::preempt_turn`] to take over first, so that VIPs do not
    /// move twice where nodes learn of other priorities at different moments. Default: none.
    pub preferred: BTreeSet<IpAddr>,
    /// Time for which the node waits for each peer in [`Self::preferred`]. Default: none.
    pub preempt_turn: Duration,
    /// Versions it speaks. Default: 3 alone.
    pub versions: Versions,
    /// Checksum form of its adverts in version 3 for IPv4. Both are accepted. keepalived and FRR want RFC 5798's.
    pub checksum: Checksum,
    /// Source of its adverts, an address of the interface, and with it the router's family. In IPv6 a link-local address.
    pub source: IpAddr,
    /// The other candidates' addresses, from which their adverts come: only those are obeyed. With none it becomes Active
    /// alone. Without the own source.
    pub peers: BTreeSet<IpAddr>,
    /// True if a router of this VRID that lists one of its VIPs is a peer, too, from its first advert on, for candidates that do not know
    /// each other's addresses. With [`Self::authentication`] only if its adverts are signed. At most [`MOST_RECOGNISED`] are stored; where
    /// many come within a short time, those that keep sending ([`Event::PeersNotRecognised`](crate::Event::PeersNotRecognised)). For
    /// [`Transport::Multicast`], or beside named peers. Default: no.
    pub recognise_peers: bool,
    /// The VIPs it serves while Active, any number, of its family, and no other router's on this interface: of two that have
    /// one in common the one with the higher VRID fails. With none it still elects, ready for the first.
    pub addresses: BTreeSet<IpAddr>,
    /// Transport of its adverts to the peers.
    pub transport: Transport,
    /// True if the node also sends unicast adverts to peers that multicast does not reach, and obeys such adverts of peers, so that two
    /// nodes which do not receive each other's multicast are not both Active. For [`Transport::Multicast`], and peers with the same
    /// setting, which only this engine has. Default: no.
    pub unicast_fallback: bool,
    /// Way in which its VIPs are held while Active.
    pub hold: Hold,
    /// True if sockets of this host may be reached on the VIPs (Accept_Mode, RFC 9568 §6.1). Needs [`Hold::Address`] or [`Hold::Vmac`]:
    /// with [`Hold::Respond`] no socket is reachable. If false, the guard still answers ping but immediately refuses a packet to a VIP that
    /// no NAT rule takes. It is the guard that closes a VIP on an interface: without [`Options::guard`](crate::Options::guard) sockets are
    /// reached there.
    pub accept: bool,
    /// Time for which the node probes the LAN for another owner of a VIP before the VIP is claimed for the first time (RFC 5227 §2.1.1, RFC
    /// 4862 §5.4). A takeover from a peer that can have served a VIP waits only for the VIPs in [`Self::unproven`] and those that the peer
    /// did not list: they may have gone to another virtual router. `None`: no probe is sent.
    pub probe: Option<Duration>,
    /// VIPs of the router that no candidate is known to have claimed yet: the peer that it takes over from may still have been probing, or
    /// have found another host. Each node that becomes Active probes for them, each time, until they are removed from here; to add or
    /// remove them while Active changes nothing. Addresses that are not VIPs of the router are ignored. Default: none.
    pub unproven: BTreeSet<IpAddr>,
    /// VIPs of the router that are claimed although another host answers the probe. The engine reports that as an
    /// [`Event::AddressConflict`](crate::Event::AddressConflict) and defends the VIP, whatever [`Self::address_conflict`] is. Addresses
    /// that are not VIPs of the router are ignored. Default: none.
    pub forced: BTreeSet<IpAddr>,
    /// Reaction to another host that claims a VIP while this node serves it. Default: the VIP is defended.
    pub address_conflict: AddressConflictPolicy,
    /// True if packets of its clients that kube-proxy would masquerade get the VIP itself as their source, instead of this node's address:
    /// backends then answer to the present Active, so that a connection can continue there. For VIPs held by [`Hold::Respond`], with the
    /// guard, where answers of the backends' nodes to the VIP arrive by its LAN: where an overlay network or a reverse-path filter drops
    /// them, no connection can be established at all ([`Self::astray`]). Concerns connections that begin from then on. Default: no.
    pub vip_as_source: bool,
    /// Networks of backends that keep this node's address as their client's, although [`Self::vip_as_source`]: answers to the VIP would not
    /// arrive from there ([`Engine::ask_way_back`](crate::Engine::ask_way_back)). Counts for all virtual routers of this engine. Default:
    /// none.
    pub astray: BTreeSet<IpNet>,
    /// Peers to which this node, while Active, sends the connections of its VIPs, so that a peer that takes over continues them
    /// ([`Options::connection_replication`](crate::Options::connection_replication)). While another node is Active, and there are any peers
    /// here, this node accepts its replicas. Addresses that are not peers of the router are ignored. Default: none.
    pub replicas: BTreeSet<IpAddr>,
    /// True if connections of its VIPs that began elsewhere are forwarded to the peer that handed a VIP over
    /// ([`Options::connection_forwarding`](crate::Options::connection_forwarding)). Default: yes.
    pub forward_connections: bool,
    /// True if they are forwarded also to a peer that was not fit for its work ([`Self::fit_from`]): its kernel has the connections, but
    /// what serves them may hang. If false, clients of such connections are notified immediately that they are gone. Default: yes.
    pub forward_to_unfit: bool,
    /// Authentication: its adverts are signed and its peers' accepted only if they are signed (`docs/dev/auth.md`). `None`: neither. Can be
    /// changed while it runs; the record of adverts sent and received is kept, so that nothing can be replayed.
    ///
    /// ```
    /// use windlass_engine::auth::{AntiReplay, Authentication, Key, KeyId, Keyring, AuthMode, Window};
    /// # use windlass_engine::{RouterConfig, Vrid};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut config = RouterConfig::new("eth0", Vrid::new(7)?, [192, 0, 2, 1].into());
    /// # let (new, old) = (format!("hex:{}", "17".repeat(32)), format!("hex:{}", "42".repeat(32)));
    /// // `new` and `old` as printed by `openssl rand -hex 32`, after `hex:`.
    /// let keyring = Keyring::new(KeyId::new(2)?, new.parse::<Key>()?).with(KeyId::new(1)?, old.parse::<Key>()?)?;
    /// let anti_replay = AntiReplay::Window(Window::for_interval(config.interval));
    /// config.authentication = Some(Authentication { keyring, mode: AuthMode::Enforce, anti_replay });
    /// # Ok(())
    /// # }
    /// ```
    pub authentication: Option<Authentication>,
}

/// Maximum number of peers that are known by their adverts alone ([`RouterConfig::recognise_peers`]): beyond it the peer that was received
/// least, or last the longest ago, is removed.
pub const MOST_RECOGNISED: usize = 64;

/// Reaction to another host that claims a VIP in service for longer than a hand-over takes. The engine reports it in both cases
/// ([`Event::AddressConflict`](crate::Event::AddressConflict)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::exhaustive_enums, reason = "it is kept or let go of")]
pub enum AddressConflictPolicy {
    /// It is kept, and announced again, at most once in ten seconds (RFC 5227 §2.4 (c)).
    #[default]
    Defend,
    /// If the other host answers requests for it, this node stops answering for it (RFC 5227 §2.4 (a)), probes again as for an address that
    /// was taken before its first use ([`Event::AddressTaken`](crate::Event::AddressTaken)), and takes it back once no host answers. Needs
    /// [`RouterConfig::probe`].
    Yield,
}

/// Transport of adverts to the peers.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a packet has one peer or a group")]
pub enum Transport {
    /// To a group on the LAN, TTL 255.
    Multicast {
        /// Another group than the RFC's: a realm with VRIDs of its own.
        group: Option<IpAddr>,
    },
    /// To each peer by itself, for LANs that do not carry multicast.
    Unicast {
        /// TTL of own adverts.
        ttl: u8,
        /// TTLs accepted. 255 alone keeps out what comes from beyond a router.
        accept_ttl: RangeInclusive<u8>,
    },
}

impl Transport {
    /// Returns true if the peers are on the same LAN for certain.
    pub(crate) fn is_on_link(&self) -> bool {
        match self {
            Self::Multicast { .. } => true,
            Self::Unicast { accept_ttl, .. } => *accept_ttl.start() == u8::MAX,
        }
    }
}

impl Default for Transport {
    fn default() -> Self {
        Self::Multicast { group: None }
    }
}

/// Way in which VIPs are held while Active.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[expect(clippy::exhaustive_enums, reason = "a caller must not overlook a mode")]
pub enum Hold {
    /// Nothing is bound: the engine answers ARP and neighbour solicitations, and a NAT rule (kube-proxy's) takes the packets. A killed or
    /// frozen process stops answering immediately and leaves nothing behind.
    #[default]
    Respond,
    /// On the interface, as /32 or /128 without a route, in IPv6 never a source. Its lifetime of 3 s (longer for more than
    /// 1,024 addresses of IPv4 or 256 of IPv6, 10 min at most) is renewed while Active, so that the kernel removes it if the process dies or is frozen. For services
    /// of the host itself. Needs CAP_NET_ADMIN. An equal address that is not this engine's is left alone: the router fails.
    Address,
    /// On a macvlan device with the virtual router's MAC address, which moves with it: neighbour caches need not change (RFC
    /// 9568 §7.3). Lifetime as with [`Hold::Address`]. Needs CAP_NET_ADMIN, macvlan in the kernel, a LAN that lets a second MAC
    /// address through each port, and an interface that is no port of a bridge, bond or team. For IPv4, `arp_ignore` and
    /// `arp_announce` of the interface are set, and put back at the end.
    Vmac,
}

impl RouterConfig {
    /// A virtual router with the RFC's defaults: priority 100, 1 s, preempting, no peers, no addresses.
    pub fn new(interface: impl Into<String>, vrid: Vrid, source: IpAddr) -> Self {
        Self {
            interface: interface.into(),
            vrid,
            priority: Priority::DEFAULT,
            interval: Interval::SECOND,
            preempt: true,
            preempt_delay: Duration::ZERO,
            fit_from: Priority::LOWEST,
            preferred: BTreeSet::new(),
            preempt_turn: Duration::ZERO,
            versions: Versions::default(),
            checksum: Checksum::default(),
            source,
            peers: BTreeSet::new(),
            recognise_peers: false,
            addresses: BTreeSet::new(),
            transport: Transport::default(),
            unicast_fallback: false,
            hold: Hold::default(),
            accept: false,
            probe: None,
            unproven: BTreeSet::new(),
            forced: BTreeSet::new(),
            address_conflict: AddressConflictPolicy::default(),
            vip_as_source: false,
            astray: BTreeSet::new(),
            replicas: BTreeSet::new(),
            forward_connections: true,
            forward_to_unfit: true,
            authentication: None,
        }
    }

    /// Returns the key that identifies it on this node.
    pub fn key(&self) -> RouterKey {
        RouterKey { interface: self.interface.clone(), family: self.family(), vrid: self.vrid }
    }

    /// Its family.
    pub fn family(&self) -> Family {
        Family::of(self.source)
    }

    /// Returns an error if it cannot be run.
    pub fn check(&self) -> Result<(), ConfigError> {
        let key = || self.key();
        self.versions
            .check(self.family(), self.interval)
            .map_err(|source| ConfigError::Versions { key: key(), source })?;
        let foreign = |address: &&IpAddr| Family::of(**address) != self.family();
        if let Some(address) = self.addresses.iter().chain(&self.peers).find(foreign) {
            return Err(ConfigError::Family { key: key(), address: *address, own: self.source });
        }
        if self.peers.contains(&self.source) {
            return Err(ConfigError::OwnPeer { key: key(), own: self.source });
        }
        if let IpAddr::V6(source) = self.source
            && !source.is_unicast_link_local()
            && matches!(self.transport, Transport::Multicast { .. })
        {
            return Err(ConfigError::NotLinkLocal { key: key(), own: self.source });
        }
        match &self.transport {
            Transport::Multicast { group: Some(group) }
                if !group.is_multicast() || Family::of(*group) != self.family() =>
            {
                return Err(ConfigError::Group { key: key(), group: *group });
            }
            Transport::Unicast { .. } if self.peers.is_empty() => {
                return Err(ConfigError::NoPeers { key: key() });
            }
            Transport::Multicast { .. } | Transport::Unicast { .. } => {}
        }
        if self.address_conflict == AddressConflictPolicy::Yield && self.probe.is_none() {
            return Err(ConfigError::NothingAsked { key: key() });
        }
        match (self.hold, self.accept) {
            (Hold::Respond, true) => Err(ConfigError::NothingToAccept { key: key() }),
            (Hold::Respond, false) | (Hold::Address | Hold::Vmac, _) => Ok(()),
        }
    }

    /// Returns the group to which its adverts go; `None` with [`Transport::Unicast`].
    pub(crate) fn group(&self) -> Option<IpAddr> {
        match &self.transport {
            Transport::Multicast { group } => {
                Some(group.unwrap_or_else(|| wire::default_group(self.family())))
            }
            Transport::Unicast { .. } => None,
        }
    }

    /// Returns true if it sends unicast where its multicast does not arrive.
    pub(crate) fn falls_back(&self) -> bool {
        self.unicast_fallback && self.group().is_some()
    }

    /// Returns the addressing that its peers' adverts have.
    pub(crate) fn addressing(&self) -> Addressing {
        match &self.transport {
            Transport::Multicast { group } => {
                let group = group.unwrap_or_else(|| wire::default_group(self.family()));
                Addressing::Multicast { group, unicast: self.unicast_fallback }
            }
            Transport::Unicast { accept_ttl, .. } => Addressing::Unicast { ttl: accept_ttl.clone() },
        }
    }

    /// Returns true if its adverts have a trailer.
    pub(crate) fn signs(&self) -> bool {
        self.authentication.as_ref().is_some_and(|authentication| authentication.mode.signs())
    }

    /// The state machine's part of it.
    pub(crate) fn state_machine_config(&self) -> Config {
        Config {
            priority: self.priority,
            interval: self.interval,
            preempt: self.preempt,
            preempt_delay: self.preempt_delay,
            fit_from: self.fit_from,
            preferred: self.preferred.clone(),
            preempt_turn: self.preempt_turn,
            versions: self.versions,
            primary: self.source,
            peers: self.peers.clone(),
            unknown_peers: self.recognise_peers,
            unicast_fallback: self.falls_back(),
            addresses: self.addresses.clone(),
        }
    }
}

/// Returns the routers that share a VIP with another on their interface, all but the one with the lowest VRID, each with the reason. The
/// order in which they were configured does not matter, so all nodes choose the same.
pub(crate) fn overlaps(routers: &[RouterConfig]) -> BTreeMap<RouterKey, String> {
    // Of several with one key the last counts.
    let routers: BTreeMap<RouterKey, &RouterConfig> =
        routers.iter().map(|router| (router.key(), router)).collect();
    if are_disjoint(routers.values().copied()) {
        return BTreeMap::new();
    }
    let mut owners: HashMap<(&str, IpAddr), Vrid> = HashMap::new();
    let mut overlaps = BTreeMap::new();
    for (key, router) in &routers {
        let place = |address: &IpAddr| (router.interface.as_str(), *address);
        let shared =
            router.addresses.iter().find_map(|address| Some((address, owners.get(&place(address))?)));
        if let Some((address, owner)) = shared {
            let (key, address, owner) = (key.clone(), *address, *owner);
            overlaps.insert(key.clone(), ConfigError::SharedAddress { key, address, owner }.to_string());
        } else {
            owners.extend(router.addresses.iter().map(|address| (place(address), router.vrid)));
        }
    }
    overlaps
}

/// Returns true if no VIP is named twice, as it should be; on whichever interface, as that is a rare mistake.
fn are_disjoint<'a>(routers: impl Iterator<Item = &'a RouterConfig>) -> bool {
    let mut all: Vec<&IpAddr> = routers.flat_map(|router| &router.addresses).collect();
    // Stable sorting is fast where there are a few runs in order.
    all.sort();
    all.is_sorted_by(|one, next| one < next)
}

/// Reason for which a virtual router cannot be run as it is configured.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Its versions cannot carry it.
    #[error("{key}: {source}")]
    Versions {
        /// The router.
        key: RouterKey,
        /// Reason.
        source: InvalidVersions,
    },
    /// Two families in one router.
    #[error(
        "{key}: {address} is of another family than its source {own}: run a virtual router for each family"
    )]
    Family {
        /// The router.
        key: RouterKey,
        /// The VIP or peer.
        address: IpAddr,
        /// The source.
        own: IpAddr,
    },
    /// It would wait for adverts that only it sends, or take received ones for its own.
    #[error("{key}: its peers contain {own}, its own source: name only the other candidates' addresses")]
    OwnPeer {
        /// The router.
        key: RouterKey,
        /// The source.
        own: IpAddr,
    },
    /// Each would be Active for it by itself, at worst on two nodes.
    #[error(
        "{key}: {address} is a VIP of VRID {owner} on this interface, too: take it out of one of the two"
    )]
    SharedAddress {
        /// The router.
        key: RouterKey,
        /// The VIP.
        address: IpAddr,
        /// The router that serves it: the one with the lowest VRID.
        owner: Vrid,
    },
    /// RFC 9568 §5.1.2.1.
    #[error(
        "{key}: its source {own} is not link-local, as adverts to an IPv6 group must be: use the interface's fe80:: address"
    )]
    NotLinkLocal {
        /// The router.
        key: RouterKey,
        /// The source.
        own: IpAddr,
    },
    /// Not a group, or of another family.
    #[error("{key}: {group} is no multicast group of its family: use one of 224.0.0.0/24 or ff02::/16")]
    Group {
        /// The router.
        key: RouterKey,
        /// The address.
        group: IpAddr,
    },
    /// Unicast without peers would be a second Active wherever there are other candidates.
    #[error("{key}: unicast without peers: name the other candidates' addresses")]
    NoPeers {
        /// The router.
        key: RouterKey,
    },
    /// It would give an address up for good.
    #[error("{key}: to yield an address needs a probe: set one, or defend it")]
    NothingAsked {
        /// The router.
        key: RouterKey,
    },
    /// Nothing is bound.
    #[error("{key}: accept needs the VIPs on an interface: hold them by address or vmac")]
    NothingToAccept {
        /// The router.
        key: RouterKey,
    },
}

/// Identifies a virtual router on this node.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a name")]
pub struct RouterKey {
    /// Its interface.
    pub interface: String,
    /// Its family.
    pub family: Family,
    /// Its VRID.
    pub vrid: Vrid,
}

impl fmt::Display for RouterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VRID {} for {} on {}", self.vrid, self.family, self.interface)
    }
}

//! Events of the engine.

use std::collections::BTreeSet;
use std::net::IpAddr;

use windlass_bgp as bgp;
use windlass_vrrp::auth::AuthError;
use windlass_vrrp::wire::{self, Datagram, ForeignRouter};
use windlass_vrrp::{State, TransitionReason};

use crate::config::RouterKey;
use crate::host_claim::Intruder;
use crate::speaker::status::SessionId;

/// Something that happened. Events of one router come in order.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A virtual router changed its state.
    StateChanged {
        /// The router.
        key: RouterKey,
        /// Its state now.
        state: State,
        /// Reason for the change.
        reason: TransitionReason,
    },
    /// A VRRP or CARP router that is no peer uses a VRID on this LAN. Repeated each minute while its adverts arrive
    /// ([`Options::foreign_router_period`](crate::Options::foreign_router_period)). Nodes of the own cluster are among them where
    /// this node has no such router or does not count them as peers.
    #[non_exhaustive]
    ForeignRouter {
        /// Interface on which its advert arrived.
        interface: String,
        /// Its VRID (CARP: vhid).
        vrid: u8,
        /// Source address of its advert.
        source: IpAddr,
        /// VRRP version of its advert; 2 for CARP.
        version: u8,
        /// True for CARP, which shares protocol number, group and virtual MAC addresses with VRRP.
        carp: bool,
        /// The virtual addresses that its advert listed.
        addresses: Vec<IpAddr>,
        /// Its VRRP message, with the bytes after it, which show whether it was signed.
        message: Vec<u8>,
    },
    /// A virtual router cannot run. The engine tries again by itself; [`Event::Recovered`] follows when it can.
    Failed {
        /// The router.
        key: RouterKey,
        /// Fault and remedy.
        error: String,
    },
    /// A virtual router that had failed runs again.
    Recovered {
        /// The router.
        key: RouterKey,
    },
    /// This node answers for these VIPs from now on and announces them, until its state changes or they are no longer its VIPs. It
    /// has become Active, or no host answered for a VIP that it probed ([`crate::RouterConfig::probe`]), or VIPs were added.
    AddressesClaimed {
        /// The router.
        key: RouterKey,
        /// The VIPs, in no order that means anything, each once.
        addresses: Vec<IpAddr>,
    },
    /// Another host claims a VIP that this node is Active for. At most once a minute per address and host.
    /// [`crate::RouterConfig::address_conflict`] decides what becomes of the VIP.
    AddressConflict {
        /// Interface on which it was seen.
        interface: String,
        /// The VIP.
        address: IpAddr,
        /// Link-layer address of the other host.
        mac: [u8; 6],
    },
    /// A VIP is not claimed, or no longer: another host answered the probe before its first use, or the probe after an
    /// [`Event::AddressConflict`] in which it is to be [yielded](crate::AddressConflictPolicy::Yield). Probed again each second for
    /// ten seconds, as its holder may be about to release it, and then each minute; reported at most once a minute. The VIP is
    /// claimed as soon as no host answers ([`Event::AddressesClaimed`]).
    AddressTaken {
        /// The router that was to serve it.
        key: RouterKey,
        /// The VIP.
        address: IpAddr,
        /// Link-layer address of the other host.
        mac: [u8; 6],
    },
    /// A VIP is no longer claimed here: a peer is Active for it in a virtual router that this node does not run, would win an
    /// election against this node, and answered the probe for the VIP. One of the two has not learnt yet that the VIP has changed
    /// its virtual router. It is claimed again ([`Event::AddressesClaimed`]) once the peer resigns there, or loses to this node in
    /// a virtual router of both, or no longer answers the probe, which is repeated each second. Needs
    /// [`crate::RouterConfig::probe`].
    AddressLeftToPeer {
        /// The router that serves it here.
        key: RouterKey,
        /// The VIP.
        address: IpAddr,
        /// Link-layer address from which the peer answered.
        mac: [u8; 6],
    },
    /// A VIP of an Active virtual router is not on its interface: the kernel refuses it, or another program's equal address is
    /// there. Tried again by itself; reported again when the reason is another.
    AddressRefused {
        /// The router.
        key: RouterKey,
        /// The VIP.
        address: IpAddr,
        /// Fault and remedy.
        error: String,
    },
    /// Another program on this node removed a VIP from its interface, as network managers do with addresses that they do not know.
    /// The engine restores it immediately, and after growing pauses if that continues. When they exceed a second the router is
    /// given up for a while ([`Event::Failed`]), so that another node serves the VIP.
    AddressLost {
        /// The router.
        key: RouterKey,
        /// The VIP.
        address: IpAddr,
    },
    /// An advert with a peer's address was not authentic. At most once a minute per peer and reason.
    Unauthenticated {
        /// The router.
        key: RouterKey,
        /// The peer that sent it, or whose address was forged.
        source: IpAddr,
        /// Reason and remedy.
        error: AuthError,
    },
    /// A peer's clock and this node's differ by more than half of what is allowed: beyond it, its adverts are refused and
    /// both become Active. At most once a minute per peer.
    ClocksDiffer {
        /// The router.
        key: RouterKey,
        /// The peer.
        source: IpAddr,
        /// Seconds its clock is ahead; negative if behind.
        seconds: i32,
    },
    /// A VIP that is answered for and bound nowhere ([`crate::Hold::Respond`]) is an address of the router's interface: the kernel
    /// of this node answers for it in Backup, too, and clients reach two nodes. Reported when it is found. Remove the address, or
    /// make this node its owner (priority 255).
    AddressOnInterface {
        /// The router.
        key: RouterKey,
        /// The VIP.
        address: IpAddr,
    },
    /// Adverts come in whose source is this router's own: another host has its address, or the LAN sends frames back. They are
    /// ignored, so two nodes with one source address do not see each other and both become Active. At most once a minute. In IPv4
    /// the kernel drops such adverts (unless `accept_local` is set): there [`Event::AddressConflict`] reports the two nodes' claims
    /// to the VIPs.
    SourceInUse {
        /// The router.
        key: RouterKey,
    },
    /// The peers between which and this node multicast does not pass are these now: unicast takes its place
    /// ([`crate::RouterConfig::unicast_fallback`]). None: it passes again, or this node has no part in it any more.
    WithoutMulticast {
        /// The router.
        key: RouterKey,
        /// On an Active, the peers that it sends unicast because its multicast does not reach them; on a Backup, the Active whose
        /// adverts it receives by unicast alone.
        peers: BTreeSet<IpAddr>,
    },
    /// A peer stays Active in this virtual router, for some seconds now, although this node's adverts beat its own: it does not
    /// receive or does not accept them, or another host sends in its name. At most once a minute.
    SecondActive {
        /// The router.
        key: RouterKey,
        /// The peer.
        source: IpAddr,
    },
    /// More unknown routers list a VIP of this router than it recognises as peers at a time
    /// ([`crate::RouterConfig::recognise_peers`]): new ones are not obeyed before their second advert, or later. Forged adverts do
    /// that. At most once a minute.
    PeersNotRecognised {
        /// The router.
        key: RouterKey,
    },
    /// The restrictions of sources that are in force have changed, or the obstacles to them: see
    /// [`Engine::guard_status`](crate::Engine::guard_status).
    GuardChanged,
    /// The kernel refuses this router's adverts: a peer that receives none takes over, and both are Active. Reported at the third
    /// in a row and each minute while that lasts.
    AdvertsRefused {
        /// The router.
        key: RouterKey,
        /// Fault and remedy.
        error: String,
    },
    /// A process of another user holds the claim to this router's VRID on this host. It is ignored: the router runs.
    ClaimIgnored {
        /// The router.
        key: RouterKey,
        /// The process.
        intruder: Intruder,
    },
    /// A BGP session is Established, or failed: reported once while the reason stays the same.
    SessionChanged {
        /// The session.
        session: SessionId,
        /// Its state now: Established or Idle.
        state: bgp::State,
        /// Reason why it is down.
        error: Option<String>,
    },
    /// The TCP of a BGP peer has acknowledged all routes that it is to have.
    RoutesAcknowledged {
        /// The session.
        session: SessionId,
    },
    /// BFD with a BGP peer is Up, or no longer. After Down, [`Event::SessionChanged`] follows unless the peer's administrator took BFD down;
    /// AdminDown is the consequence of a BGP session that ended.
    BfdChanged {
        /// The BGP session.
        session: SessionId,
        /// The change, with its reason and the peer's state.
        change: bgp::bfd::Event,
    },
    /// A thread that the election does not need panicked, failed or stalls: its function is missing until [`Event::HelperBack`]. It is started
    /// again by itself; the virtual routers stay as they are. [`Engine::helpers`](crate::Engine::helpers) returns the present state.
    HelperAway {
        /// Its name.
        thread: &'static str,
        /// The fault, the consequence and what helps.
        error: String,
    },
    /// The thread does its work again.
    HelperBack {
        /// Its name.
        thread: &'static str,
    },
    /// A thread that the election needs panicked: a bug. All virtual routers have resigned, and nothing runs any more: start another
    /// engine.
    Stopped {
        /// Its name.
        thread: &'static str,
    },
}

impl Event {
    /// Builds the event for a router that is no peer.
    pub(crate) fn foreign_router(interface: &str, foreign: ForeignRouter, datagram: &Datagram<'_>) -> Self {
        let ForeignRouter { source, vrid, version, carp, .. } = foreign;
        let addresses = wire::listed_addresses(datagram, &foreign).collect();
        let (interface, message) = (interface.to_owned(), datagram.payload.to_vec());
        Self::ForeignRouter { interface, vrid, source, version, carp, addresses, message }
    }
}

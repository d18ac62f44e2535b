//! Status of the engine and its parts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use windlass_dataplane::restriction::Restrictions;
use windlass_dataplane::sharing::Shares;
use windlass_vrrp::State;

use crate::config::RouterKey;

/// A virtual router as it is now.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RouterStatus {
    /// The router.
    pub key: RouterKey,
    /// Its state.
    pub state: State,
    /// Address of the router known to be Active: this node's source, a peer's, or none known yet.
    pub active: Option<IpAddr>,
    /// Its VIPs.
    pub addresses: BTreeSet<IpAddr>,
    /// VIPs that this node answers for now: none unless it is Active, then all that no other host was found to have.
    pub claimed: BTreeSet<IpAddr>,
    /// Peers between which and this node multicast does not pass, and unicast takes its place: on an Active those that its
    /// multicast does not reach, on a Backup the Active.
    pub without_multicast: BTreeSet<IpAddr>,
    /// True if another process of this host uses its VRID, so that it does not run.
    pub lacks_vrid: bool,
    /// Its counters, since it was first applied.
    pub counters: RouterCounters,
    /// Reason why it cannot run, if it cannot.
    pub error: Option<String>,
}

/// Counters of one virtual router. They only grow.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RouterCounters {
    /// Times it became Active.
    pub became_active: u64,
    /// Adverts sent, resignations and adverts to single peers included.
    pub adverts_sent: u64,
    /// Resignations (priority 0) sent.
    pub resignations_sent: u64,
    /// Adverts, ARP and neighbour discovery packets the kernel refused to send.
    pub send_errors: u64,
    /// Valid adverts received from peers.
    pub adverts_received: u64,
    /// Resignations (priority 0) received from peers.
    pub resignations_received: u64,
    /// Adverts from a peer of lower claim, received while Active, but for the last one of a peer that was preempted.
    pub contentions: u64,
    /// Adverts from routers that are no peers.
    pub foreign_adverts: u64,
    /// Adverts that bear this node's own address.
    pub own_address: u64,
    /// Peers' adverts with another interval than ours (R11): accepted.
    pub interval_mismatches: u64,
    /// Peers' adverts with the checksum form of RFC 5798 (R6): accepted.
    pub rfc5798_checksums: u64,
    /// Peers' adverts in version 2 with another interval than ours: refused (R11).
    pub interval_refused: u64,
    /// Peers' adverts for IPv6 whose list does not begin with a link-local address (R10): accepted.
    pub missing_link_local: u64,
    /// Adverts with a peer's address that authentication refused: by reason in [`LinkStatus::rejected`].
    pub unauthenticated: u64,
    /// Peers' adverts without a trailer that were accepted, as the modes permissive and receive-only do. When it no longer
    /// grows on any router, the mode enforce harms no peer.
    pub unsigned: u64,
    /// ARP requests and neighbour solicitations for its VIPs answered.
    pub replies: u64,
    /// Gratuitous ARP and unsolicited neighbour advertisements sent.
    pub announcements: u64,
}

/// Status of the forwarding of connections of VIPs that were handed over:
/// [`Options::connection_forwarding`](crate::Options::connection_forwarding).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ForwardingStatus {
    /// VIPs whose connections from before they came here are forwarded.
    pub addresses: usize,
    /// Packets forwarded since the start, as counted each second.
    pub packets: u64,
    /// Reason why nothing is forwarded, if so.
    pub error: Option<String>,
}

/// Status of the replication of VIPs' connections: [`Options::connection_replication`](crate::Options::connection_replication).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ReplicationStatus {
    /// Connections that this node serves and replicates.
    pub connections: usize,
    /// Each peer with which connections are shared.
    pub peers: Vec<PeerReplication>,
    /// Replicas for which there was no room, beside what the node needs itself or in the kernel at all (`net.netfilter.nf_conntrack_max`).
    pub table_full: u64,
    /// Times that the kernel refused a replica for another reason.
    pub refused: u64,
    /// Reason why nothing is replicated, or not with all peers, if so.
    pub error: Option<String>,
}

/// Replication with one peer.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself")]
pub struct PeerReplication {
    /// The peer's address.
    pub peer: IpAddr,
    /// This node's address.
    pub own: IpAddr,
    /// True if a valid datagram came from it within the last 15 s: a peer that is sent nothing asks for it.
    pub answers: bool,
    /// True if the peer is sent the connections that this node serves.
    pub is_replica: bool,
    /// True if the peer has acknowledged all of them, and has room for them.
    pub knows_all: bool,
    /// True if the peer reports that it has no room for some of them: its kernel's table is full
    /// (`net.netfilter.nf_conntrack_max`).
    pub is_full: bool,
    /// True if this node has all connections that the peer serves.
    pub in_sync: bool,
    /// Connections received from the peer.
    pub connections: usize,
    /// Connections of the peer for which this node had no room.
    pub untaken: u64,
    /// Datagrams in its name that were refused: malformed, or not signed as they have to be.
    pub refused: u64,
}

/// A thread of the engine, or a part of the process that runs it, that the election does not need.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct HelperStatus {
    /// Its name.
    pub thread: &'static str,
    /// Times that it panicked, failed or stalled.
    pub faults: u64,
    /// The fault that keeps it from its work, the consequence and what helps; `None`: it works.
    pub error: Option<String>,
}

impl HelperStatus {
    /// Returns the status of one without faults.
    pub const fn new(thread: &'static str) -> Self {
        Self { thread, faults: 0, error: None }
    }
}

/// An interface the engine listens on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LinkStatus {
    /// Its name.
    pub interface: String,
    /// Reason why it cannot be used, if it cannot.
    pub error: Option<String>,
    /// Packets refused, by reason as `windlass_vrrp::wire::Rejection` and `windlass_vrrp::auth::AuthError` label them.
    pub rejected: BTreeMap<&'static str, u64>,
    /// Adverts of foreign routers.
    pub foreign_adverts: u64,
}

/// Status of the enforcement of [`Restrictions`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct GuardStatus {
    /// The restrictions that this node's kernel enforces.
    pub enforced: Arc<Restrictions>,
    /// Reason why these are not the desired ones, and remedy; `None`: they are, or will be in a moment, but for [`Self::refused`].
    pub error: Option<String>,
    /// Addresses whose desired restrictions the kernel refuses, with the reason: there it enforces the earlier ones. For all others
    /// it enforces the desired ones.
    pub refused: BTreeMap<IpAddr, String>,
}

impl GuardStatus {
    /// Returns the obstacle to enforcing the desired restrictions of this address.
    pub fn obstacle(&self, address: IpAddr) -> Option<&str> {
        self.error.as_deref().or_else(|| self.refused.get(&address).map(String::as_str))
    }
}

/// Status of [`Engine::share`](crate::Engine::share).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct SharingStatus {
    /// The addresses that are shared, but for lots of [`Self::unknown_peers`], which this node serves itself.
    pub in_force: Arc<Shares>,
    /// Peers that have not answered yet.
    pub unknown_peers: BTreeSet<IpAddr>,
    /// Servers that do not answer, so that others serve their lots. Only the director asks them.
    pub silent: BTreeSet<IpAddr>,
    /// Servers that answer again, while others serve their lots: for 3 s, and longer if they were often silent.
    pub returning: BTreeSet<IpAddr>,
    /// Servers to which packets with a client's source address do not pass from this node, or whose answers do not pass back: a hypervisor or
    /// a switch drops them. Others serve their lots, unless all servers that answer are filtered.
    pub filtered: BTreeSet<IpAddr>,
    /// Servers and former servers to which this node passes no packets of connections that it does not know: no mark is left
    /// ([`ConnectionForwarding::marks`](crate::ConnectionForwarding::marks)), or connections are not forwarded.
    pub without_mark: BTreeSet<IpAddr>,
    /// Interfaces that are not there: nothing that comes by them is directed.
    pub missing_interfaces: BTreeSet<String>,
    /// Reason why the declared addresses are not in force, and remedy; `None`: they are, or will be in a moment.
    pub error: Option<String>,
}

//! Options of the engine, and reasons why it does not start.

use std::io;
use std::time::Duration;

use windlass_dataplane::guard::AWAKE;
use windlass_kernel::mark_mask::MarkMask;
use windlass_kernel::tag::AddressTag;

use crate::event::Event;

/// Options of the engine. [`Options::new`] gives the defaults.
#[non_exhaustive]
pub struct Options {
    /// Called with every event, one after the other, from a thread of its own. It may take its time, panic or call the
    /// engine: nothing waits for it. While it is behind by thousands, further events are lost, which is logged.
    pub on_event: Box<dyn Fn(Event) + Send + Sync>,
    /// Ask for real-time scheduling and locked memory; if they are refused, as in most containers, the engine runs without and logs
    /// that once. Default: yes.
    pub realtime: bool,
    /// Install the nftables table that answers ping to VIPs, refuses what no Service takes, and enforces
    /// [`Engine::restrict`](crate::Engine::restrict). Default: no.
    pub guard: bool,
    /// Name of that table, of family `inet`; the table of [`Engine::share`](crate::Engine::share) is named after it. Default: `windlass`.
    pub table: String,
    /// Time for which the guard refuses the node's own packets to VIPs that it is Active for, once the process was killed or
    /// frozen: another node serves them by then. At least 3 s; less than the default costs a change of nftables each second.
    /// Default: 15 s.
    pub guard_timeout: Duration,
    /// Forward established connections to the node that handed a VIP over. Needs [`Self::guard`]. Default: no.
    pub connection_forwarding: Option<ConnectionForwarding>,
    /// Replicate the connections of VIPs to the peers, and insert theirs into this node's kernel
    /// ([`RouterConfig::replicas`](crate::RouterConfig::replicas)). Needs CAP_NET_ADMIN. Default: no.
    pub connection_replication: Option<ConnectionReplication>,
    /// Mark of the addresses that the engine puts on interfaces: another for each engine on the host. Default: 0x57.
    pub tag: AddressTag,
    /// Pace at which VIPs are announced.
    pub announcements: Pacing,
    /// Time in which both ends of a connection can get a reset before its entry is removed from the kernel, where its address, port
    /// or source range is no Service's any more ([`Engine::restrict`](crate::Engine::restrict)). Default: 10 s.
    pub ending_notice: Duration,
    /// Time after which [`Event::ForeignRouter`] reports the same router again. Default: 1 min.
    pub foreign_router_period: Duration,
}

/// Forwards packets of established TCP connections to a VIP to the previous Active, if that node lives: it resigned or was
/// preempted, or stopped sending adverts and its kernel still answers. Its kernel knows them, and answers go to the client
/// directly. New connections are this node's. For VIPs held by [`Hold::Respond`](crate::Hold::Respond), whose packets NAT rules
/// take.
///
/// Needs a kernel that routes by marks (CONFIG_IP_MULTIPLE_TABLES) and `net.netfilter.nf_conntrack_tcp_loose` at its default, 1.
/// An active firewall in between that forbids a node to send what has another's source address, as of virtual machines, drops it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the user over its default")]
pub struct ConnectionForwarding {
    /// Time after a VIP came here in which a connection that this node does not know is taken for the other node's. A connection
    /// with a packet in that time is forwarded as long as it lasts, and all end when for so long none had a packet. Default: 1 h.
    pub window: Duration,
    /// The bits of packet mark and connection mark that tell the nodes apart that handed VIPs over.
    pub marks: MarkMask,
}

/// Keeps established connections to a VIP alive when the node that serves them dies, for those whose backend lives: the peers that
/// may take over have them in their kernels' connection tracking by then. TCP connections that are older than a second, and UDP
/// flows that were answered more than once.
///
/// Backends must answer to the Active: [`RouterConfig::vip_as_source`](crate::RouterConfig::vip_as_source). Needs a kernel that
/// reports events of connection tracking (`net.netfilter.nf_conntrack_events`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the user over its default")]
pub struct ConnectionReplication {
    /// The UDP port of all nodes. Default: 10112.
    pub port: u16,
}

impl Default for ConnectionReplication {
    fn default() -> Self {
        Self { port: 10112 }
    }
}

impl Default for ConnectionForwarding {
    fn default() -> Self {
        Self { window: Duration::from_hours(1), marks: MarkMask::default() }
    }
}

/// Pace at which VIPs are announced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Pacing {
    /// Most gratuitous ARP and unsolicited neighbour advertisement frames a second, of all routers together. A VIP takes
    /// two in IPv4 and one in IPv6. Default: 20,000.
    pub frames_per_second: u32,
}

impl Default for Pacing {
    fn default() -> Self {
        Self { frames_per_second: 20_000 }
    }
}

impl Options {
    /// The defaults, with this receiver of events.
    pub fn new(on_event: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self {
            on_event: Box::new(on_event),
            realtime: true,
            guard: false,
            table: "windlass".to_owned(),
            guard_timeout: AWAKE,
            connection_forwarding: None,
            connection_replication: None,
            tag: AddressTag::default(),
            announcements: Pacing::default(),
            ending_notice: Duration::from_secs(10),
            foreign_router_period: Duration::from_mins(1),
        }
    }
}

/// Reason why the engine could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The process may not open raw sockets.
    #[error(
        "cannot open a {socket} socket: {source}: the process lacks CAP_NET_RAW; run it as root or add the capability \
         (Kubernetes: securityContext.capabilities.add: [NET_RAW])"
    )]
    MissingCapability {
        /// Kind of socket.
        socket: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The interfaces cannot be followed.
    #[error(
        "cannot follow the interfaces: {source}: the engine needs netlink sockets of the family NETLINK_ROUTE; allow them \
         (systemd: RestrictAddressFamilies=AF_NETLINK; container: the seccomp profile)"
    )]
    Netlink {
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel refused something else.
    #[error("cannot {what}: {source}")]
    Os {
        /// Operation that failed.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

//! How the engine is started, and why it may refuse.

use std::io;
use std::time::Duration;

use windlass_dataplane::guard::AWAKE;
use windlass_kernel::mark_mask::MarkMask;
use windlass_kernel::tag::AddressTag;

use crate::event::Event;

/// How to run the engine. [`Options::new`] gives the defaults.
#[non_exhaustive]
pub struct Options {
    /// Called with every event, one after the other, from a thread of its own. It may take its time, panic or call the
    /// engine: nothing waits for it. While it is behind by thousands, further events are lost, which is logged.
    pub on_event: Box<dyn Fn(Event) + Send + Sync>,
    /// Ask for real-time scheduling and locked memory; refused (as in most containers), the engine runs without and says
    /// so once. Default: yes.
    pub realtime: bool,
    /// Install the nftables table that answers ping to VIPs, refuses what no Service takes, and enforces
    /// [`Engine::restrict`](crate::Engine::restrict). Default: no.
    pub guard: bool,
    /// Name of that table, of family `inet`. Default: `windlass`.
    pub table: String,
    /// How long the guard refuses what the node itself sends to VIPs that it is Active for, once the process was killed or frozen: another
    /// node serves them by then. At least 3 s; less than the default costs a change of nftables each second. Default: 15 s.
    pub guard_timeout: Duration,
    /// Forward established connections to the node that handed a VIP over. Needs [`Self::guard`]. Default: no.
    pub connection_forwarding: Option<ConnectionForwarding>,
    /// Tell the peers which connections VIPs have, and put theirs into this node's kernel
    /// ([`RouterConfig::replicas`](crate::RouterConfig::replicas)). Needs CAP_NET_ADMIN. Default: no.
    pub connection_replication: Option<ConnectionReplication>,
    /// Mark of the addresses that the engine puts on interfaces: another for each engine on the host. Default: 0x57.
    pub tag: AddressTag,
    /// How fast VIPs are announced.
    pub announcements: Pacing,
    /// Time in which both ends of a connection can get a reset before the kernel forgets it, where its address, port or source range is
    /// no Service's any more ([`Engine::restrict`](crate::Engine::restrict)). Default: 10 s.
    pub ending_notice: Duration,
    /// How often [`Event::ForeignRouter`] tells of the same router. Default: once a minute.
    pub foreign_router_period: Duration,
}

/// Forwards what established TCP connections to a VIP say to the node that was Active before, if that node lives: it resigned or
/// was preempted, or fell silent and its kernel still answers. Its kernel knows them, and answers go to the client directly. New
/// connections are this node's. For VIPs held by [`Hold::Respond`](crate::Hold::Respond), whose packets NAT rules take.
///
/// Needs a kernel that routes by marks (CONFIG_IP_MULTIPLE_TABLES) and `net.netfilter.nf_conntrack_tcp_loose` at its default, 1.
/// An active firewall in between that forbids a node to send what has another's source address, as of virtual machines, drops it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the user over its default")]
pub struct ConnectionForwarding {
    /// How long after a VIP came here a connection that this node does not know is taken for the other node's. One that was
    /// heard of in that time is forwarded as long as it lasts, and all end when for so long none was heard. Default: 1 h.
    pub window: Duration,
    /// The bits of packet mark and connection mark that tell the nodes apart that handed VIPs over.
    pub marks: MarkMask,
}

/// Has established connections to a VIP go on when the node that serves them dies, for those whose backend lives: the peers that may
/// take over have them in their kernels' connection tracking by then. TCP connections that are older than a second, and UDP
/// flows that were answered more than once.
///
/// Backends must answer to whoever is Active: [`RouterConfig::vip_as_source`](crate::RouterConfig::vip_as_source). Needs a kernel that
/// tells events of connection tracking (`net.netfilter.nf_conntrack_events`).
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

/// How fast VIPs are announced.
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

/// Why the engine could not start.
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
        /// What the kernel said.
        source: io::Error,
    },
    /// The interfaces cannot be followed.
    #[error(
        "cannot follow the interfaces: {source}: the engine needs netlink sockets of the family NETLINK_ROUTE; allow them \
         (systemd: RestrictAddressFamilies=AF_NETLINK; container: the seccomp profile)"
    )]
    Netlink {
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel refused something else.
    #[error("cannot {what}: {source}")]
    Os {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

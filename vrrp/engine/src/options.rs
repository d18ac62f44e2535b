//! How the engine is started, and why it may refuse.

use std::io;

use crate::event::Event;
use crate::tag::AddressTag;

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
    /// Mark of the addresses that the engine puts on interfaces: another for each engine on the host. Default: 0x57.
    pub tag: AddressTag,
    /// How fast VIPs are announced.
    pub announcements: Pacing,
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
            tag: AddressTag::default(),
            announcements: Pacing::default(),
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

//! The handle.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::announce::Announcer;
use crate::clock;
use crate::config::RouterConfig;
use crate::core::Core;
use crate::event::Event;
use crate::inbox::Inbox;
use crate::interfaces::{self, Follower, InterfaceInfo};
use crate::links::Links;
use crate::realtime;
use crate::sockets;
use crate::status::{LinkStatus, RouterStatus};

/// How to run the engine.
pub struct Options {
    /// Called with every event from the engine's threads: must not block.
    pub on_event: Box<dyn Fn(Event) + Send>,
    /// Ask for real-time scheduling and locked memory; refused (as in most containers), the engine runs without and says
    /// so once.
    pub realtime: bool,
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

/// The running engine. Dropping it is like [`Engine::shutdown`].
pub struct Engine {
    inbox: Arc<Inbox>,
    links: Arc<Links>,
    announcer: Arc<Announcer>,
    timer_thread: Option<JoinHandle<()>>,
    helpers: Vec<JoinHandle<()>>,
}

impl Engine {
    /// Starts the engine's threads. They work in the network namespace of the calling thread.
    pub fn start(options: Options) -> Result<Self, StartError> {
        sockets::probe()?;
        let inbox = Inbox::new().map_err(|source| StartError::Os { what: "create an eventfd", source })?;
        let links = Links::new().map_err(|source| StartError::Os { what: "create an eventfd", source })?;
        let follower = Follower::open(clock::now())
            .map_err(|error| StartError::Netlink { source: io::Error::from(error) })?;
        let mut engine = Self {
            inbox: Arc::new(inbox),
            links: Arc::new(links),
            announcer: Arc::new(Announcer::new()),
            timer_thread: None,
            helpers: Vec::new(),
        };
        let Options { on_event, realtime } = options;
        let announcer = Arc::clone(&engine.announcer);
        engine.helpers.push(spawn("windlass-garp", move || {
            if realtime {
                realtime::announcer_thread();
            }
            announcer.run();
        })?);
        let (links, inbox) = (Arc::clone(&engine.links), Arc::clone(&engine.inbox));
        engine.helpers.push(spawn("windlass-links", move || links.run(follower, &inbox))?);
        let core = Core::new(Arc::clone(&engine.announcer), Arc::clone(&engine.inbox), on_event);
        engine.timer_thread = Some(spawn("windlass-vrrp", move || {
            if realtime {
                realtime::timer_thread();
            }
            core.run();
        })?);
        Ok(engine)
    }

    /// Declares which virtual routers shall run: new ones start, missing ones resign (priority 0) and stop, changed ones
    /// are updated in place. Returns at once; the last call wins. Of several with one key the last counts.
    pub fn apply(&self, desired: Vec<RouterConfig>) {
        let mut groups: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
        for config in &desired {
            groups.entry(config.interface.clone()).or_default().extend(config.group());
        }
        // The inbox first: routers that go must resign before their interface is let go.
        self.inbox.desire(desired);
        self.links.want_for_routers(groups);
    }

    /// The virtual routers as they are now, in the order of their keys.
    pub fn snapshot(&self) -> Vec<RouterStatus> {
        self.inbox.ask().recv().map(|answer| answer.routers).unwrap_or_default()
    }

    /// The interfaces listened on, with what was refused there.
    pub fn links(&self) -> Vec<LinkStatus> {
        self.inbox.ask().recv().map(|answer| answer.links).unwrap_or_default()
    }

    /// Ethernet interfaces that are up and have an IPv4 or a usable IPv6 address, by name, without those that the engine
    /// makes.
    pub fn interfaces() -> io::Result<Vec<InterfaceInfo>> {
        let has_address = |info: &InterfaceInfo| !info.ipv4.is_empty() || !info.ipv6.is_empty();
        Ok(interfaces::scan()?.into_iter().filter(|info| info.up && has_address(info)).collect())
    }

    /// Listens for VRRP routers on these interfaces, also where no router of ours runs. The last call wins.
    pub fn listen(&self, interfaces: &[String]) {
        let interfaces: BTreeSet<String> = interfaces.iter().cloned().collect();
        self.inbox.census(interfaces.clone());
        self.links.want_for_census(interfaces);
    }

    /// Resigns everything and joins the threads.
    pub fn shutdown(self) {
        drop(self);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The timer thread first: resigning needs the others' sockets. A thread that panicked has nothing to resign.
        self.inbox.stop();
        if let Some(thread) = self.timer_thread.take() {
            let _ = thread.join();
        }
        self.announcer.stop();
        self.links.stop();
        for thread in self.helpers.drain(..) {
            let _ = thread.join();
        }
    }
}

fn spawn(name: &'static str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StartError> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(body);
    thread.map_err(|source| StartError::Os { what: "start a thread", source })
}

//! The handle.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::sync::PoisonError;

use windlass_vrrp::State;

use crate::config::{RouterConfig, RouterKey};
use crate::event::Event;
use crate::interfaces::{self, InterfaceInfo};
use crate::status::{LinkStatus, RouterCounters, RouterStatus};

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
    desired: Mutex<BTreeMap<RouterKey, RouterConfig>>,
    _options: Mutex<Options>,
}

impl Engine {
    /// Starts the engine's threads. They work in the network namespace of the calling thread.
    pub fn start(options: Options) -> Result<Self, StartError> {
        Ok(Self { desired: Mutex::new(BTreeMap::new()), _options: Mutex::new(options) })
    }

    /// Declares which virtual routers shall run: new ones start, missing ones resign (priority 0) and stop, changed ones
    /// are updated in place. Returns at once; the last call wins. Of several with one key the last counts.
    pub fn apply(&self, desired: Vec<RouterConfig>) {
        let desired = desired.into_iter().map(|config| (config.key(), config)).collect();
        *self.desired.lock().unwrap_or_else(PoisonError::into_inner) = desired;
    }

    /// The virtual routers as they are now, in the order of their keys.
    pub fn snapshot(&self) -> Vec<RouterStatus> {
        let desired = self.desired.lock().unwrap_or_else(PoisonError::into_inner);
        let status = |config: &RouterConfig| RouterStatus {
            key: config.key(),
            state: State::Initialize,
            active: None,
            addresses: config.addresses.clone(),
            counters: RouterCounters::default(),
            error: None,
        };
        desired.values().map(status).collect()
    }

    /// The interfaces listened on, with what was refused there.
    pub fn links(&self) -> Vec<LinkStatus> {
        Vec::new()
    }

    /// Ethernet interfaces that are up and have an IPv4 address, by name.
    pub fn interfaces() -> io::Result<Vec<InterfaceInfo>> {
        let all = interfaces::scan()?.into_values();
        Ok(all.filter(|info| info.up && !info.ipv4.is_empty()).collect())
    }

    /// Listens for VRRP routers on these interfaces, also where no router of ours runs. The last call wins.
    pub fn listen(&self, _interfaces: &[String]) {}

    /// Resigns everything and joins the threads.
    pub fn shutdown(self) {}
}

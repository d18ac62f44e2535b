//! What the engine is told to run.

use std::collections::BTreeSet;
use std::fmt;
use std::net::Ipv4Addr;

use windlass_vrrp::{Config, Interval, Priority, Vrid};

/// One virtual router on this node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouterConfig {
    /// Interface on whose LAN it runs.
    pub interface: String,
    /// Its VRID.
    pub vrid: Vrid,
    /// This node's priority in it.
    pub priority: Priority,
    /// Time between adverts while Active.
    pub interval: Interval,
    /// Whether it takes over from an Active of lower priority.
    pub preempt: bool,
    /// Source of its adverts: an address of the interface.
    pub source: Ipv4Addr,
    /// The other candidates' addresses: only their adverts are obeyed. With none it becomes Active alone.
    pub peers: BTreeSet<Ipv4Addr>,
    /// The VIPs it answers for while Active, any number. With none it still elects, ready for the first.
    pub addresses: BTreeSet<Ipv4Addr>,
}

impl RouterConfig {
    /// What identifies it on this node.
    pub fn key(&self) -> RouterKey {
        RouterKey { interface: self.interface.clone(), vrid: self.vrid }
    }

    /// The state machine's part of it.
    pub(crate) fn machine(&self) -> Config {
        Config {
            priority: self.priority,
            interval: self.interval,
            preempt: self.preempt,
            primary: self.source,
            peers: self.peers.clone(),
            addresses: self.addresses.clone(),
        }
    }
}

/// Identifies a virtual router on this node.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RouterKey {
    /// Its interface.
    pub interface: String,
    /// Its VRID.
    pub vrid: Vrid,
}

impl fmt::Display for RouterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VRID {} on {}", self.vrid, self.interface)
    }
}

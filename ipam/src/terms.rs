//! Terms on which the holder of an address shares it.

use std::collections::BTreeSet;
use std::fmt;

/// A protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A port that a Service listens on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port {
    /// Its protocol: the same number of two protocols is two ports.
    pub protocol: Protocol,
    /// Its number.
    pub number: u16,
}

/// Which nodes take a Service's traffic (`externalTrafficPolicy`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TrafficPolicy {
    /// Every node.
    Cluster,
    /// Nodes that run its pods.
    Local {
        /// Which pods those are, in a canonical text: Services with the same text run on the same nodes.
        selector: String,
    },
}

/// Owners with which an address is shared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sharing {
    /// Only with holders of the same key.
    pub key: String,
    /// Namespaces with which it is shared besides its own. They have to name this one too.
    pub with: BTreeSet<String>,
}

/// Use of an address by its holder, and the terms on which it shares it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Terms {
    /// Its namespace.
    pub namespace: String,
    /// Its ports.
    pub ports: BTreeSet<Port>,
    /// Nodes that take its traffic.
    pub traffic: TrafficPolicy,
    /// Owners with which it shares; `None`: with none.
    pub sharing: Option<Sharing>,
}

impl Terms {
    /// Terms of a holder in `namespace` that shares with no other.
    pub fn alone(namespace: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            ports: BTreeSet::new(),
            traffic: TrafficPolicy::Cluster,
            sharing: None,
        }
    }

    /// The sharing key.
    pub fn key(&self) -> Option<&str> {
        self.sharing.as_ref().map(|sharing| sharing.key.as_str())
    }

    /// Returns `Ok` if an owner with these terms may use an address together with `holder`, which has it.
    ///
    /// # Errors
    /// The first rule that forbids it.
    pub fn fits(&self, holder: &Self) -> Result<(), Incompatible> {
        let Some(mine) = &self.sharing else { return Err(Incompatible::NoKey) };
        let Some(theirs) = &holder.sharing else { return Err(Incompatible::HolderHasNoKey) };
        if mine.key != theirs.key {
            return Err(Incompatible::DifferentKey { key: mine.key.clone(), held: theirs.key.clone() });
        }
        if self.namespace != holder.namespace {
            if !mine.with.contains(&holder.namespace) {
                return Err(Incompatible::HolderNotNamed { namespace: holder.namespace.clone() });
            }
            if !theirs.with.contains(&self.namespace) {
                return Err(Incompatible::NotNamedByHolder { namespace: self.namespace.clone() });
            }
        }
        if self.traffic != holder.traffic {
            return Err(Incompatible::DifferentTrafficPolicy);
        }
        match self.ports.intersection(&holder.ports).next() {
            Some(port) => Err(Incompatible::PortTaken(*port)),
            None => Ok(()),
        }
    }
}

/// Reason why two owners may not use one address together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Incompatible {
    /// The requester has no sharing key.
    #[error("this Service has no sharing key")]
    NoKey,
    /// The holder shares the address with no other owner.
    #[error("its holder has no sharing key")]
    HolderHasNoKey,
    /// Both have a sharing key, each another.
    #[error("its holder has the sharing key {held:?}, not {key:?}")]
    DifferentKey {
        /// Key of the requester.
        key: String,
        /// Key of the holder.
        held: String,
    },
    /// The requester does not share with the holder's namespace.
    #[error("this Service does not name the holder's namespace {namespace:?} as one it shares with")]
    HolderNotNamed {
        /// The holder's namespace.
        namespace: String,
    },
    /// The holder does not share with the requester's namespace.
    #[error("its holder does not name namespace {namespace:?} as one it shares with")]
    NotNamedByHolder {
        /// The requester's namespace.
        namespace: String,
    },
    /// Their traffic goes to different nodes.
    #[error(
        "its holder's traffic goes to other nodes: externalTrafficPolicy must be Cluster for both, or Local for both \
         with equal selectors"
    )]
    DifferentTrafficPolicy,
    /// Both listen on the same port.
    #[error("its holder listens on port {0} too")]
    PortTaken(Port),
    /// As many hold it as can.
    #[error("{MAX_HOLDERS} Services hold it, and no more can")]
    TooManyHolders,
}

/// Holders that one address can have: a `VirtualIP` names no more owners.
pub const MAX_HOLDERS: usize = 64;

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
        };
        write!(f, "{protocol} {}", self.number)
    }
}

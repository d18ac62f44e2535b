//! What befalls the node that has the address, and where backends are.

use std::net::IpAddr;

/// The node that has the addresses while all is well, and the one that takes them over.
pub(crate) const FIRST: &str = "n1";
pub(crate) const SECOND: &str = "n2";
/// The node that never has an address.
pub(crate) const THIRD: &str = "n3";
/// The port of the first place; those of the others follow.
const FIRST_PORT: u16 = 80;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The cable of the first node is pulled.
    Cable,
    /// Whoever elects on it (the agent, keepalived) is stopped by SIGSTOP.
    Frozen,
    /// It is to give its addresses to the other.
    Drain,
    /// All that runs on it is killed by SIGKILL; its kernel lives.
    Killed,
    /// It was off, and its kernel knows nothing of before: it is switched on and takes its addresses back.
    Back,
}

/// Where a server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a pod on the first node.
    First,
    /// In a pod on the second node.
    Second,
    /// In a pod on the third node.
    Third,
    /// On the third node itself, as with `hostNetwork`.
    Host,
}

/// Where the backend of a connection is, as seen from the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    ThirdNode,
    NewActive,
    /// The node that has the address before: by some faults it dies with its backends, by others it lives.
    DeadNode,
    HostNetwork,
}

impl Fault {
    /// In this order: who comes back has been killed before.
    pub(crate) const ALL: [Self; 5] = [Self::Cable, Self::Frozen, Self::Drain, Self::Killed, Self::Back];

    /// As `FAULTS` has it.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Cable => "cable",
            Self::Frozen => "frozen",
            Self::Drain => "drain",
            Self::Killed => "killed",
            Self::Back => "back",
        }
    }

    /// As the rows have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cable => "cable pulled",
            Self::Killed => "node killed",
            Self::Frozen | Self::Drain | Self::Back => self.key(),
        }
    }

    /// The node that has the addresses before and the one that has them after.
    pub(crate) fn nodes(self) -> [&'static str; 2] {
        match self {
            Self::Cable | Self::Frozen | Self::Drain | Self::Killed => [FIRST, SECOND],
            Self::Back => [SECOND, FIRST],
        }
    }
}

impl Place {
    pub(crate) const ALL: [Self; 4] = [Self::First, Self::Second, Self::Third, Self::Host];

    /// Name of its backend.
    pub(crate) fn backend(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Second => "second",
            Self::Third => "third",
            Self::Host => "host",
        }
    }

    /// The node that it is on.
    pub(crate) fn node(self) -> &'static str {
        match self {
            Self::First => FIRST,
            Self::Second => SECOND,
            Self::Third | Self::Host => THIRD,
        }
    }

    /// Port of its Services: those of one address share it.
    pub(crate) fn port(self) -> u16 {
        let behind = match self {
            Self::First => 0,
            Self::Second => 1,
            Self::Third => 2,
            Self::Host => 3,
        };
        FIRST_PORT + behind
    }
}

impl Backend {
    pub(crate) const ALL: [Self; 4] = [Self::ThirdNode, Self::NewActive, Self::DeadNode, Self::HostNetwork];

    /// As the rows have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ThirdNode => "third node",
            Self::NewActive => "new active",
            Self::DeadNode => "dead node",
            Self::HostNetwork => "host network",
        }
    }

    /// Those to which there are connections before this fault, and where their servers are. On a node that is off there is none.
    pub(crate) fn of(fault: Fault) -> Vec<(Self, Place)> {
        let place = |backend| match (backend, fault) {
            (Self::ThirdNode, _) => Some(Place::Third),
            (Self::HostNetwork, _) => Some(Place::Host),
            (Self::NewActive, Fault::Back) => None,
            (Self::DeadNode, Fault::Back) => Some(Place::Second),
            (Self::NewActive, Fault::Cable | Fault::Frozen | Fault::Drain | Fault::Killed) => {
                Some(Place::Second)
            }
            (Self::DeadNode, Fault::Cable | Fault::Frozen | Fault::Drain | Fault::Killed) => {
                Some(Place::First)
            }
        };
        Self::ALL.into_iter().filter_map(|backend| Some((backend, place(backend)?))).collect()
    }
}

/// A family of addresses, as `FAMILIES` and the rows have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const ALL: [Self; 2] = [Self::V4, Self::V6];

    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::V4 => "v4",
            Self::V6 => "v6",
        }
    }

    /// As a Service's `ipFamilies` has it.
    pub(crate) fn of_service(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// An address of the lab's LAN that ends with these three digits.
    pub(crate) fn address(self, end: u8) -> anyhow::Result<IpAddr> {
        let text = match self {
            Self::V4 => format!("192.0.2.{end}"),
            Self::V6 => format!("2001:db8::{end}"),
        };
        Ok(text.parse()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backend_on_the_dead_node_is_where_the_address_was_and_that_on_the_new_active_where_it_goes() {
        for fault in Fault::ALL {
            let [before, after] = fault.nodes();
            for (backend, place) in Backend::of(fault) {
                let wanted = match backend {
                    Backend::DeadNode => before,
                    Backend::NewActive => after,
                    Backend::ThirdNode | Backend::HostNetwork => THIRD,
                };
                assert_eq!(place.node(), wanted, "{fault:?}: {backend:?}");
            }
        }
    }

    #[test]
    fn nobody_has_connections_to_a_node_that_is_off() {
        let there = |fault| Backend::of(fault).into_iter().map(|(backend, _)| backend).collect::<Vec<_>>();
        assert_eq!(there(Fault::Killed), Backend::ALL);
        assert_eq!(there(Fault::Back), [Backend::ThirdNode, Backend::DeadNode, Backend::HostNetwork]);
    }

    #[test]
    fn each_place_has_a_port_and_a_backend_of_its_own() {
        let mut seen: Vec<_> = Place::ALL.iter().map(|place| (place.port(), place.backend())).collect();
        seen.dedup_by(|a, b| a.0 == b.0 || a.1 == b.1);
        assert_eq!(seen.len(), Place::ALL.len());
    }
}

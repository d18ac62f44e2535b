//! Faults of the node that has the address, and where backends are as seen from them.

use super::place::{FIRST, Place, SECOND};

/// Fault. In this order: a node that comes back has been killed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Fault {
    /// The cable of the first node is pulled.
    Cable,
    /// The program that elects on it (the agent, keepalived) is stopped by SIGSTOP.
    Frozen,
    /// It is to give its addresses to the other.
    Drain,
    /// All that runs on it is killed by SIGKILL; its kernel lives.
    Killed,
    /// It was off, and its kernel knows nothing of before: it is switched on and takes its addresses back.
    Back,
}

/// Place of the backend of a connection, as seen from the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    ThirdNode,
    NewActive,
    /// The node that has the address before: by some faults it dies with its backends, by others it lives.
    DeadNode,
    HostNetwork,
}

impl Fault {
    /// Name in rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cable => "cable pulled",
            Self::Killed => "node killed",
            Self::Frozen => "frozen",
            Self::Drain => "drain",
            Self::Back => "back",
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

impl Backend {
    pub(crate) const ALL: [Self; 4] = [Self::ThirdNode, Self::NewActive, Self::DeadNode, Self::HostNetwork];

    /// Name in rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ThirdNode => "third node",
            Self::NewActive => "new active",
            Self::DeadNode => "dead node",
            Self::HostNetwork => "host network",
        }
    }

    /// Returns the backends that have connections before this fault, with the places of their servers. On a node that is off there is none.
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

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;
    use crate::connections::place::THIRD;

    #[test]
    fn the_backend_on_the_dead_node_is_where_the_address_was_and_that_on_the_new_active_where_it_goes() {
        for &fault in Fault::value_variants() {
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
}

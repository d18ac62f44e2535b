//! The phases: faults of nodes, in order.

/// Way of taking a node down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Its cable is pulled.
    Cable,
    /// Its cable is dead and all that runs on it is killed; what comes back knows nothing of before.
    Host,
    /// It is to give its addresses to others.
    Drain,
}

/// A part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing is done.
    Steady,
    /// A node is taken down, at the beginning.
    Down(Fault, &'static str),
    /// It is brought back, at the beginning.
    Back(Fault, &'static str),
}

impl Fault {
    const ALL: [Self; 3] = [Self::Cable, Self::Host, Self::Drain];
}

impl Phase {
    /// Name of the phases of one kind, whichever node they befall.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Down(Fault::Cable, _) => "cable pulled",
            Self::Back(Fault::Cable, _) => "cable back",
            Self::Down(Fault::Host, _) => "host killed",
            Self::Back(Fault::Host, _) => "host back",
            Self::Down(Fault::Drain, _) => "drain",
            Self::Back(Fault::Drain, _) => "drain ended",
        }
    }

    /// The node that it befalls.
    pub(crate) fn node(self) -> Option<&'static str> {
        match self {
            Self::Steady => None,
            Self::Down(_, node) | Self::Back(_, node) => Some(node),
        }
    }
}

/// All phases: by each fault the nodes one by one, each brought back before the next.
pub(crate) fn all(nodes: &[&'static str]) -> Vec<Phase> {
    let mut phases = vec![Phase::Steady];
    for fault in Fault::ALL {
        for node in nodes {
            phases.extend([Phase::Down(fault, node), Phase::Back(fault, node)]);
        }
    }
    phases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_is_taken_down_by_each_fault_and_is_back_before_the_next() {
        let nodes = ["n1", "n2", "n3"];
        let phases = all(&nodes);
        assert_eq!(phases[0], Phase::Steady);
        let mut seen = Vec::new();
        for pair in phases[1..].chunks(2) {
            let &[Phase::Down(fault, node), Phase::Back(same, back)] = pair else { panic!("{pair:?}") };
            assert_eq!((fault, node), (same, back));
            assert!(!seen.contains(&(fault, node)), "{fault:?} of {node} comes twice");
            seen.push((fault, node));
        }
        assert_eq!(seen.len(), nodes.len() * Fault::ALL.len());
    }

    #[test]
    fn each_kind_of_phase_has_a_name_of_its_own() {
        let phases = all(&["n1"]);
        let mut names: Vec<&str> = phases.iter().map(|phase| phase.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), phases.len());
    }
}

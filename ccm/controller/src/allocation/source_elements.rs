//! Number of the elements that the restricted ports of all `VirtualIP`s need in the kernel of each node, and of the ports that they name.

use windlass_api::{PortSources, VirtualIP};
use windlass_ccm::store::Change;

/// Elements of all `VirtualIP`s together: tens of megabytes of an agent's memory, and a third of a second of its kernel when it starts.
pub(crate) const MOST_OF_CLUSTER: usize = 131_072;

/// Number of ports that any `VirtualIP` may name, even if others have used up the budget.
const FEW_PORTS: usize = 64;
/// Maximum number of ports of all `VirtualIP`s that name more than `FEW_PORTS`.
pub(super) const MOST_PORTS_OF_CLUSTER: usize = 131_072;

/// The elements, and the ports, of the `VirtualIP`s that there are.
#[derive(Debug, Default)]
pub(crate) struct SourceElements {
    pub(super) total: usize,
    /// Ports of `VirtualIP`s that name more than `FEW_PORTS`.
    pub(super) ports: usize,
}

impl SourceElements {
    /// A `VirtualIP` came, changed or went.
    pub(crate) fn on_change(&mut self, change: &Change<VirtualIP>) {
        let of = |vip: Option<&VirtualIP>| vip.map_or(0, |vip| elements(&vip.spec.sources));
        self.total = (self.total + of(change.new.as_deref())).saturating_sub(of(change.old.as_deref()));
        let of = |vip: Option<&VirtualIP>| vip.map_or(0, |vip| beyond_few(vip.spec.ports.len()));
        self.ports = (self.ports + of(change.new.as_deref())).saturating_sub(of(change.old.as_deref()));
    }
}

/// Returns `ports` if it is more than `FEW_PORTS`, else 0.
pub(super) const fn beyond_few(ports: usize) -> usize {
    if ports > FEW_PORTS { ports } else { 0 }
}

/// Returns the number of elements: one for each port, and one for each range at each port.
pub(super) fn elements(sources: &[PortSources]) -> usize {
    sources.iter().map(|one| one.ports.len() * (1 + one.allowed.len())).sum()
}

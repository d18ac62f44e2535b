//! The addresses of others on the interfaces: where one is, ours is not bound.

use std::collections::{BTreeMap, BTreeSet};

use super::bindings::Binding;

/// Addresses that are not this engine's, with their prefix lengths: IPv4 allows one address with several.
#[derive(Default, Debug)]
pub(super) struct ForeignAddresses(BTreeMap<Binding, BTreeSet<u8>>);

impl ForeignAddresses {
    /// Records an address of another owner.
    pub(super) fn insert(&mut self, binding: Binding, prefix: u8) {
        self.0.entry(binding).or_default().insert(prefix);
    }

    /// It is gone, or not another's.
    pub(super) fn remove(&mut self, binding: Binding, prefix: u8) {
        if let Some(prefixes) = self.0.get_mut(&binding) {
            prefixes.remove(&prefix);
            if prefixes.is_empty() {
                self.0.remove(&binding);
            }
        }
    }

    /// The interface is gone.
    pub(super) fn remove_interface(&mut self, index: u32) {
        self.0.retain(|binding, _| binding.interface != index);
    }

    /// Returns the reason why ours cannot be bound there, if another owner's is.
    pub(super) fn conflict(&self, binding: &Binding) -> Option<String> {
        let prefix = self.0.get(binding)?.first()?;
        let address = binding.address;
        Some(format!(
            "the interface has {address}/{prefix}, which this engine did not put there and leaves alone: remove it \
             (`ip addr del {address}/{prefix} dev …`, and from the network's configuration), or take {address} from the \
             virtual router"
        ))
    }
}

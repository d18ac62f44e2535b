//! The addresses of others on the interfaces: where one is, ours is not bound.

use std::collections::{BTreeMap, BTreeSet};

use super::bindings::Place;

/// Addresses that are not this engine's, with their prefix lengths: IPv4 allows one address with several.
#[derive(Default, Debug)]
pub(super) struct Occupants(BTreeMap<Place, BTreeSet<u8>>);

impl Occupants {
    /// Somebody has it there.
    pub(super) fn enter(&mut self, place: Place, prefix: u8) {
        self.0.entry(place).or_default().insert(prefix);
    }

    /// It is gone, or not another's.
    pub(super) fn leave(&mut self, place: Place, prefix: u8) {
        if let Some(prefixes) = self.0.get_mut(&place) {
            prefixes.remove(&prefix);
            if prefixes.is_empty() {
                self.0.remove(&place);
            }
        }
    }

    /// The interface is gone.
    pub(super) fn leave_interface(&mut self, index: u32) {
        self.0.retain(|place, _| place.interface != index);
    }

    /// Why ours cannot be bound there, if somebody else's is.
    pub(super) fn objection(&self, place: &Place) -> Option<String> {
        let prefix = self.0.get(place)?.first()?;
        let address = place.address;
        Some(format!(
            "the interface has {address}/{prefix}, which this engine did not put there and leaves alone: remove it \
             (`ip addr del {address}/{prefix} dev …`, and from the network's configuration), or take {address} from the \
             virtual router"
        ))
    }
}

//! Times of the lots of shared addresses that no object has. After a restart they begin anew.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use windlass_api::VirtualIP;

use super::lots::Lots;

/// Times of shared addresses.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharingMemory {
    /// Time since which each node is a former server of a lot, by the address, and the lot and the node.
    former: BTreeMap<IpAddr, BTreeMap<(usize, String), Timestamp>>,
    /// Time since which the shares of an address are uneven.
    uneven: BTreeMap<IpAddr, Timestamp>,
}

impl SharingMemory {
    /// Records the former servers that these objects name since now, and removes those that they no longer name.
    pub(crate) fn observe(&mut self, vips: &[Arc<VirtualIP>], now: Timestamp) {
        let mut before = std::mem::take(&mut self.former);
        for vip in vips {
            let address = vip.spec.address;
            let Some(shared) = vip.spec.load_sharing.as_ref().filter(|shared| !shared.former_lots.is_empty())
            else {
                continue;
            };
            let Ok(lots) = Lots::read(address, shared) else { continue };
            let known = before.remove(&address).unwrap_or_default();
            let since = lots.former().map(|(lot, node)| {
                let entry = (lot, node.to_owned());
                let since = known.get(&entry).copied().unwrap_or(now);
                (entry, since)
            });
            self.former.insert(address, since.collect());
        }
    }

    /// Records the addresses whose shares are uneven.
    pub(crate) fn set_uneven(&mut self, addresses: &BTreeSet<IpAddr>, now: Timestamp) {
        self.uneven.retain(|address, _| addresses.contains(address));
        for address in addresses {
            self.uneven.entry(*address).or_insert(now);
        }
    }

    pub(super) fn former_since(&self, address: IpAddr, lot: usize, node: &str) -> Option<Timestamp> {
        self.former.get(&address)?.get(&(lot, node.to_owned())).copied()
    }

    pub(super) fn uneven_since(&self, address: IpAddr) -> Option<Timestamp> {
        self.uneven.get(&address).copied()
    }
}

//! How many VIPs each virtual router carries, kept up change by change: a new VIP needs to know it, and to count ten thousand
//! for each of ten thousand would take the controller's time.

use std::collections::BTreeMap;
use std::net::IpAddr;

use windlass_api::VirtualIP;

use super::cache::News;

#[cfg(test)]
mod tests;

/// VIPs of each virtual router.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    /// Of objects that are known, by the router's name.
    carried: BTreeMap<String, usize>,
    /// Of objects that are being made.
    expected: BTreeMap<IpAddr, String>,
}

impl Loads {
    /// A VIP came, changed or went.
    pub(crate) fn note(&mut self, news: &News<VirtualIP>) {
        if let Some(old) = &news.old
            && let Some(router) = &old.spec.virtual_router
            && let Some(count) = self.carried.get_mut(router)
        {
            *count -= 1;
            if *count == 0 {
                self.carried.remove(router);
            }
        }
        if let Some(new) = &news.new {
            self.expected.remove(&new.spec.address);
            if let Some(router) = &new.spec.virtual_router {
                *self.carried.entry(router.clone()).or_default() += 1;
            }
        }
    }

    /// A VIP is being made that `router` is to carry. What comes of it, the next [`Self::note`] tells; if nothing does, the
    /// next try for the same address takes its place.
    pub(crate) fn expect(&mut self, address: IpAddr, router: String) {
        self.expected.insert(address, router);
    }

    /// The counts, with what is expected.
    pub(crate) fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = self.carried.clone();
        for router in self.expected.values() {
            *counts.entry(router.clone()).or_default() += 1;
        }
        counts
    }
}

//! Number of VIPs of each virtual router, updated change by change: a new VIP needs it, and counting ten thousand for each of ten
//! thousand would take the controller's time.

use std::collections::BTreeMap;
use std::net::IpAddr;

use windlass_api::VirtualIP;

use windlass_ccm::store::Change;

#[cfg(test)]
mod tests;

/// VIPs of each virtual router.
#[derive(Debug, Default)]
pub(crate) struct RouterLoads {
    /// VIPs of objects that are known, by the router's name.
    carried: BTreeMap<String, usize>,
    /// Routers of objects that are being made, by address.
    expected: BTreeMap<IpAddr, String>,
    /// Number of objects being made that each router is to carry.
    expected_by: BTreeMap<String, usize>,
}

impl RouterLoads {
    /// A VIP came, changed or went.
    pub(crate) fn on_change(&mut self, change: &Change<VirtualIP>) {
        if let Some(router) = change.old.as_ref().and_then(|old| old.spec.virtual_router.as_ref()) {
            decrease(&mut self.carried, router);
        }
        if let Some(new) = &change.new {
            self.no_longer_expected(new.spec.address);
            if let Some(router) = &new.spec.virtual_router {
                *self.carried.entry(router.clone()).or_default() += 1;
            }
        }
    }

    /// Records that a VIP is being made that `router` is to carry. The next [`Self::on_change`] shows the result; without one, the
    /// next try for the same address replaces it.
    pub(crate) fn expect(&mut self, address: IpAddr, router: String) {
        self.no_longer_expected(address);
        *self.expected_by.entry(router.clone()).or_default() += 1;
        self.expected.insert(address, router);
    }

    /// The router that is to carry a VIP that is being made.
    pub(crate) fn expected(&self, address: IpAddr) -> Option<&str> {
        self.expected.get(&address).map(String::as_str)
    }

    /// The VIP exists, or is expected elsewhere.
    fn no_longer_expected(&mut self, address: IpAddr) {
        if let Some(router) = self.expected.remove(&address) {
            decrease(&mut self.expected_by, &router);
        }
    }

    /// Returns the number of VIPs that `router` carries, with those that are expected.
    pub(crate) fn of(&self, router: &str) -> usize {
        let count = |counts: &BTreeMap<String, usize>| counts.get(router).copied().unwrap_or(0);
        count(&self.carried) + count(&self.expected_by)
    }
}

/// Decreases a count by one. A count that becomes 0 is removed.
fn decrease(counts: &mut BTreeMap<String, usize>, router: &str) {
    if let Some(count) = counts.get_mut(router) {
        *count -= 1;
        if *count == 0 {
            counts.remove(router);
        }
    }
}

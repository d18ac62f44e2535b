//! Keeping the VIPs of one Service on different nodes, so that DNS can spread its load over them.

use std::collections::{BTreeMap, HashMap};

use windlass_api::{ServiceRef, VirtualIP};

/// The virtual routers that carry each Service's VIPs. The families are apart: a client uses either.
#[derive(Debug, Default)]
pub(super) struct Spread<'a> {
    routers: HashMap<(&'a ServiceRef, bool), Vec<String>>,
}

impl<'a> Spread<'a> {
    /// `router` carries `vip`.
    pub(super) fn add(&mut self, vip: &'a VirtualIP, router: &str) {
        for owner in &vip.spec.owners {
            let routers = self.routers.entry((owner, vip.spec.address.is_ipv6())).or_default();
            routers.push(router.to_owned());
        }
    }

    /// The virtual routers that carry VIPs of the same Services and family, each as often as it does.
    pub(super) fn siblings(&self, vip: &'a VirtualIP) -> BTreeMap<&str, usize> {
        let mut siblings = BTreeMap::new();
        for owner in &vip.spec.owners {
            let routers = self.routers.get(&(owner, vip.spec.address.is_ipv6()));
            for router in routers.into_iter().flatten() {
                *siblings.entry(router.as_str()).or_default() += 1;
            }
        }
        siblings
    }
}

//! Keeping the VIPs of one Service and family on different nodes, so that DNS can spread its load over them, and those of its two families
//! together, so that it does not depend on two nodes where one will do.

use std::collections::{BTreeMap, HashMap};

use windlass_api::{ServiceRef, VirtualIP};

/// The virtual routers that carry each Service's VIPs, by whether these are IPv6.
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

    /// The virtual routers that carry VIPs of the same Services and the other family.
    pub(super) fn partners(&self, vip: &'a VirtualIP) -> impl Iterator<Item = &str> {
        let is_ipv6 = vip.spec.address.is_ipv6();
        let routers = vip.spec.owners.iter().filter_map(move |owner| self.routers.get(&(owner, !is_ipv6)));
        routers.flatten().map(String::as_str)
    }
}

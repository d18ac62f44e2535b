//! How many VIPs each virtual router carries, and of which pools, kept up change by change: a new VIP needs to know it, and to
//! count ten thousand for each of ten thousand would take the controller's time.

use std::collections::BTreeMap;
use std::net::IpAddr;

use windlass_api::VirtualIP;

use windlass_ccm::store::Change;

#[cfg(test)]
mod tests;

/// VIPs that a plan treats alike once they are in one virtual router: those of one pool and family.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct PoolAndFamily {
    pool: String,
    is_ipv4: bool,
}

/// VIPs of each virtual router.
#[derive(Debug, Default)]
pub(crate) struct RouterLoads {
    /// Of objects that are known, by the router's name.
    carried: BTreeMap<String, Load>,
    /// Of objects that are being made.
    expected: BTreeMap<IpAddr, String>,
    /// How many of those each router is to carry.
    expected_by: BTreeMap<String, usize>,
}

/// VIPs of one virtual router. None of the counts is 0.
#[derive(Debug, Default)]
struct Load {
    vips: usize,
    /// Those that a plan is made for: not in quarantine and not being deleted.
    kinds: BTreeMap<PoolAndFamily, usize>,
}

/// What a VIP that came, changed or went means for the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Concern {
    /// Nothing but that it is there or not: what it shares its virtual router with is of its kind.
    Itself,
    /// It is, or was, the only one of its kind in its virtual router, or has none.
    Plan,
}

impl RouterLoads {
    /// A VIP came, changed or went.
    pub(crate) fn note(&mut self, news: &Change<VirtualIP>) -> Concern {
        let kinds = [&news.old, &news.new].map(|vip| vip.as_ref().and_then(|vip| kind(vip)));
        if let [Some(old), Some(new)] = [&news.old, &news.new]
            && old.spec.virtual_router.is_some()
            && old.spec.virtual_router == new.spec.virtual_router
            && let [was, is] = &kinds
            && was == is
        {
            return Concern::Itself;
        }
        let mut concern = Concern::Itself;
        if let Some(old) = &news.old
            && let Some(router) = &old.spec.virtual_router
            && let Some(load) = self.carried.get_mut(router)
        {
            load.vips -= 1;
            if let [Some(kind), _] = &kinds
                && let Some(count) = load.kinds.get_mut(kind)
            {
                *count -= 1;
                if *count == 0 {
                    load.kinds.remove(kind);
                    concern = Concern::Plan;
                }
            }
            if load.vips == 0 {
                self.carried.remove(router);
            }
        }
        if let Some(new) = &news.new {
            self.come(new.spec.address);
            match (&new.spec.virtual_router, &kinds) {
                (None, [_, Some(_)]) => concern = Concern::Plan,
                (None, [_, None]) => {}
                (Some(router), [_, kind]) => {
                    let load = self.carried.entry(router.clone()).or_default();
                    load.vips += 1;
                    if let Some(kind) = kind {
                        let count = load.kinds.entry(kind.clone()).or_default();
                        *count += 1;
                        if *count == 1 {
                            concern = Concern::Plan;
                        }
                    }
                }
            }
        }
        concern
    }

    /// A VIP is being made that `router` is to carry. What comes of it, the next [`Self::note`] tells; if nothing does, the
    /// next try for the same address takes its place.
    pub(crate) fn expect(&mut self, address: IpAddr, router: String) {
        self.come(address);
        *self.expected_by.entry(router.clone()).or_default() += 1;
        self.expected.insert(address, router);
    }

    /// It is not expected any more.
    fn come(&mut self, address: IpAddr) {
        if let Some(router) = self.expected.remove(&address)
            && let Some(count) = self.expected_by.get_mut(&router)
        {
            *count -= 1;
            if *count == 0 {
                self.expected_by.remove(&router);
            }
        }
    }

    /// How many VIPs `router` carries, with those that are expected.
    pub(crate) fn of(&self, router: &str) -> usize {
        let expected = self.expected_by.get(router).copied().unwrap_or(0);
        self.carried.get(router).map_or(0, |load| load.vips) + expected
    }

    /// The pools of the VIPs that the plan leaves with `router`.
    pub(crate) fn pools(&self, router: &str) -> impl Iterator<Item = &str> {
        self.carried.get(router).into_iter().flat_map(|load| load.kinds.keys()).map(|kind| kind.pool.as_str())
    }
}

/// `None`: it is nobody's, and planned for as if it did not exist.
fn kind(vip: &VirtualIP) -> Option<PoolAndFamily> {
    let is_wanted = vip.metadata.deletion_timestamp.is_none() && vip.spec.quarantine.is_none();
    is_wanted.then(|| PoolAndFamily { pool: vip.spec.pool.clone(), is_ipv4: vip.spec.address.is_ipv4() })
}

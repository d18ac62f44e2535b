//! The external IPs that are refused: the messages sent about them, and the counts that their pools show. Pure.
//!
//! Only messages and counts are kept for a Service: its entries are of its user's making, and so are the Services.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use windlass_api::ServiceRef;
use windlass_common::listing::list;
use windlass_ipam::Port;

/// Maximum number of addresses that one message names before the rest is counted, and of messages about one Service.
const NAMED: usize = 5;

/// Refusals of one Service, as they are found. Its size is bounded by the entries that are examined.
#[derive(Debug, Default)]
pub(super) struct Refused {
    /// Addresses and their pools, by the reason of the refusal.
    reasons: BTreeMap<String, BTreeSet<(IpAddr, String)>>,
    /// Message that concerns no single address.
    general: Option<String>,
    /// Other Services whose address is among them.
    owners: BTreeMap<ServiceRef, Overlap>,
    /// Refused addresses where another Service has a port that this one has too, with one such port.
    contested: BTreeMap<IpAddr, Port>,
}

/// An address of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Overlap {
    address: IpAddr,
    /// A port that the owner has, too.
    port: Option<Port>,
}

impl Refused {
    /// `address` of `pool` is refused.
    pub(super) fn add(&mut self, address: IpAddr, pool: String, why: String) {
        self.reasons.entry(why).or_default().insert((address, pool));
    }

    /// Sets the general message for the Service.
    pub(super) fn say(&mut self, what: Option<String>) {
        self.general = what;
    }

    /// `owner` has one of the addresses, and perhaps a port of this Service, which matters more than that it has none.
    pub(super) fn belongs_to(&mut self, owner: &ServiceRef, address: IpAddr, port: Option<Port>) {
        if let Some(port) = port {
            self.contested.entry(address).or_insert(port);
        }
        match self.owners.get_mut(owner) {
            Some(known) if known.port.is_some() || port.is_none() => {}
            Some(known) => *known = Overlap { address, port },
            None => {
                self.owners.insert(owner.clone(), Overlap { address, port });
            }
        }
    }

    /// Returns the messages for the Service: one sentence for each reason, at most `NAMED`, and the general one.
    fn messages(&self) -> Vec<String> {
        let sentence = |(why, refused): (&String, &BTreeSet<(IpAddr, String)>)| {
            let named: Vec<_> = refused.iter().take(NAMED).map(|(address, _)| address.to_string()).collect();
            let (some, is) = match refused.len() {
                1 => ("external IP", "is"),
                _ => ("external IPs", "are"),
            };
            format!("{some} {} {is} not announced: {why}", list(&named, refused.len()))
        };
        self.reasons.iter().map(sentence).take(NAMED).chain(self.general.clone()).collect()
    }

    fn summary(&self) -> Summary {
        let mut pools: BTreeMap<&str, PoolSummary> = BTreeMap::new();
        for (address, pool) in self.reasons.values().flatten() {
            let pool = pools.entry(pool).or_default();
            pool.entries += 1;
            let named = match self.contested.get(address) {
                Some(port) => {
                    pool.contested += 1;
                    (&mut pool.some_contested, (*address, Some(*port)))
                }
                None => (&mut pool.some_others, (*address, None)),
            };
            let (some, one) = named;
            if some.len() < NAMED {
                some.push(one);
            }
        }
        let pools = pools.into_iter().map(|(pool, summary)| (pool.to_owned(), summary)).collect();
        Summary { messages: self.messages(), pools }
    }
}

/// Stored summary of the refusals of one Service: its size does not grow with the number of entries.
#[derive(Debug, Default, PartialEq, Eq)]
struct Summary {
    messages: Vec<String>,
    pools: Vec<(String, PoolSummary)>,
}

/// Summary of the refusals that concern addresses of one pool.
#[derive(Debug, Default, PartialEq, Eq)]
struct PoolSummary {
    entries: usize,
    /// Number of entries on a port of an owner.
    contested: usize,
    /// The first few of each kind.
    some_contested: Vec<(IpAddr, Option<Port>)>,
    some_others: Vec<(IpAddr, Option<Port>)>,
}

impl Summary {
    fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    fn of_pool(&self, pool: &str) -> Option<&PoolSummary> {
        self.pools.iter().find_map(|(name, summary)| (name == pool).then_some(summary))
    }
}

/// Messages to send now that were not sent before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// To the Service that lists the addresses.
    pub(super) to_user: Vec<String>,
    /// To Services whose addresses they are.
    pub(super) to_owners: Vec<(ServiceRef, String)>,
    /// True if the counts that pools show changed.
    pub(super) changed: bool,
}

/// Refused external IPs of all Services.
#[derive(Debug, Default)]
pub(crate) struct RefusedExternalIps {
    by_service: BTreeMap<ServiceRef, Summary>,
    by_pool: BTreeMap<String, ShownOfPool>,
    /// Services that each owner was notified about.
    told_owners: BTreeMap<ServiceRef, ToldOwner>,
    /// Owners that were notified about each Service, each with whether it was about a contested port.
    told_of: BTreeMap<ServiceRef, BTreeMap<ServiceRef, bool>>,
    begun: bool,
}

/// The refused entries about addresses of one pool.
#[derive(Debug, Default)]
struct ShownOfPool {
    entries: usize,
    contested: usize,
    /// The Services that have such entries, and those that have contested ones.
    users: BTreeSet<ServiceRef>,
    contested_users: BTreeSet<ServiceRef>,
}

/// First few Services that list an address of an owner and about which it was notified. Those on a port of it are counted apart, so
/// that others cannot crowd them out.
#[derive(Debug, Default)]
struct ToldOwner {
    contested: BTreeSet<ServiceRef>,
    others: BTreeSet<ServiceRef>,
}

impl ToldOwner {
    fn of(&mut self, is_contested: bool) -> &mut BTreeSet<ServiceRef> {
        if is_contested { &mut self.contested } else { &mut self.others }
    }
}

impl RefusedExternalIps {
    /// Begins a pass over all Services. Returns true if it is the first: a previous process may have reported its refusals already.
    pub(super) fn begin_pass(&mut self) -> bool {
        !std::mem::replace(&mut self.begun, true)
    }

    /// Replaces the refusals of `user`. Returns the messages that were not sent yet. An owner is notified about the first few Services
    /// that list its address: its events cannot be flooded. The cost depends on the entries of `user` alone, however many others there
    /// are.
    pub(super) fn replace(&mut self, user: &ServiceRef, refused: &Refused) -> News {
        let to_owners = self.tell_owners(user, &refused.owners);
        let summary = refused.summary();
        let known = self.by_service.get(user);
        if known.map_or(summary.is_empty(), |known| *known == summary) {
            return News { to_owners, ..News::default() };
        }
        let known = self.by_service.remove(user).unwrap_or_default();
        self.remove_from_pools(user, &known);
        for (pool, summary) in &summary.pools {
            let shown = self.by_pool.entry(pool.clone()).or_default();
            shown.entries += summary.entries;
            shown.contested += summary.contested;
            shown.users.insert(user.clone());
            if summary.contested > 0 {
                shown.contested_users.insert(user.clone());
            }
        }
        let is_news = |message: &&String| !known.messages.contains(message);
        let to_user = summary.messages.iter().filter(is_news).cloned().collect();
        if !summary.is_empty() {
            self.by_service.insert(user.clone(), summary);
        }
        News { to_user, to_owners, changed: true }
    }

    fn remove_from_pools(&mut self, user: &ServiceRef, known: &Summary) {
        for (pool, summary) in &known.pools {
            let Entry::Occupied(mut of_pool) = self.by_pool.entry(pool.clone()) else { continue };
            let shown = of_pool.get_mut();
            shown.entries -= summary.entries;
            shown.contested -= summary.contested;
            shown.users.remove(user);
            shown.contested_users.remove(user);
            if shown.users.is_empty() {
                of_pool.remove();
            }
        }
    }

    /// Records the owners whose addresses `user` lists, and returns the messages to them.
    fn tell_owners(
        &mut self,
        user: &ServiceRef,
        owners: &BTreeMap<ServiceRef, Overlap>,
    ) -> Vec<(ServiceRef, String)> {
        let mut told_of = self.told_of.remove(user).unwrap_or_default();
        told_of.retain(|owner, contested| {
            let lasts = owners.get(owner).is_some_and(|overlap| overlap.port.is_some() == *contested);
            if !lasts && let Some(told) = self.told_owners.get_mut(owner) {
                told.of(*contested).remove(user);
                if told.contested.is_empty() && told.others.is_empty() {
                    self.told_owners.remove(owner);
                }
            }
            lasts
        });
        let mut news = Vec::new();
        for (owner, overlap) in
            owners.iter().filter(|(owner, _)| !told_of.contains_key(owner)).collect::<Vec<_>>()
        {
            let is_contested = overlap.port.is_some();
            let told = self.told_owners.get_mut(owner).map(|told| told.of(is_contested));
            if told.is_some_and(|told| told.len() >= NAMED) {
                continue;
            }
            self.told_owners.entry(owner.clone()).or_default().of(is_contested).insert(user.clone());
            told_of.insert(owner.clone(), is_contested);
            news.push((owner.clone(), told_to_owner(user, *overlap)));
        }
        if !told_of.is_empty() {
            self.told_of.insert(user.clone(), told_of);
        }
        news
    }

    /// Pools with such addresses.
    pub(crate) fn pools(&self) -> impl Iterator<Item = &str> {
        self.by_pool.keys().map(String::as_str)
    }

    /// Returns the number of refused entries about addresses of `pool`.
    pub(crate) fn count(&self, pool: &str) -> usize {
        self.by_pool.get(pool).map_or(0, |shown| shown.entries)
    }

    /// Returns the number of refused entries about addresses of `pool` where an owner has a port that the Service has too.
    pub(crate) fn contested(&self, pool: &str) -> usize {
        self.by_pool.get(pool).map_or(0, |shown| shown.contested)
    }

    /// The first few of them, first those on a port of an owner.
    pub(crate) fn some(&self, pool: &str) -> Vec<String> {
        let Some(shown) = self.by_pool.get(pool) else { return Vec::new() };
        let summary = |user| Some((user, self.by_service.get(user)?.of_pool(pool)?));
        let contested = shown.contested_users.iter().filter_map(summary);
        let contested =
            contested.flat_map(|(user, summary)| summary.some_contested.iter().map(move |one| (user, one)));
        // Of those who have contested ones only, there are few when this is looked at.
        let others = shown.users.iter().filter_map(summary);
        let others =
            others.flat_map(|(user, summary)| summary.some_others.iter().map(move |one| (user, one)));
        let said = |(user, (address, port)): (&ServiceRef, &(IpAddr, Option<Port>))| match port {
            Some(port) => format!("{address} by Service {user} on its owner's port {port}"),
            None => format!("{address} by Service {user}"),
        };
        contested.chain(others).take(NAMED).map(said).collect()
    }
}

/// Returns the message for an owner about a Service that lists its address, and perhaps has this port of it.
fn told_to_owner(user: &ServiceRef, Overlap { address, port }: Overlap) -> String {
    let ports = match port {
        Some(port) => {
            format!("and listens on port {port} too: kube-proxy decides which of both gets that traffic")
        }
        None => {
            "and receives the traffic to its own ports on nodes whose agent runs without its guard".to_owned()
        }
    };
    format!(
        "Service {user} lists this Service's address {address} in spec.externalIPs, which is refused, {ports}. Have the \
         entry removed, or forbid the field by the admission plugin DenyServiceExternalIPs"
    )
}

#[cfg(test)]
mod tests;

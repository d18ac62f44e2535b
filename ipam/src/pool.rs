//! A named set of addresses, and who may be given which of them.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::{AddressRange, AddressSet, RefusalReason, Requester, Selector};

/// Addresses to give, under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Its name, unique in an allocator.
    pub name: String,
    /// Its addresses.
    pub addresses: AddressSet,
    /// Those of them that are never given. Who holds one already keeps it.
    pub reserved: AddressSet,
    /// How and to whom they are given.
    pub policy: Policy,
}

/// How and to whom the addresses of a pool are given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Whether owners that name neither the pool nor an address may get one from here.
    pub auto_assign: bool,
    /// Gives nothing new; who holds one keeps it.
    pub disabled: bool,
    /// Pools are searched in ascending order of this; of equal ones those with selectors first, then by name.
    pub priority: i32,
    /// Which free address is given first.
    pub order: Order,
    /// Reserves every IPv4 address that ends in .0 or .255 too.
    pub avoid_class_c: bool,
    /// How long a released address is kept back from others. Milliseconds count.
    pub quarantine: Duration,
    /// How long a released address stays with the namespace of who released it, if that is longer: owners of that namespace
    /// that name the address may have it meanwhile. Zero: only who released it. Milliseconds count.
    pub namespace_quarantine: Duration,
    /// How many addresses one namespace and one owner may have.
    pub limits: Limits,
    /// What becomes of owners whose namespace it selects when it has no address left.
    pub when_full: WhenFull,
    /// Namespaces that may use the pool, besides those that `namespace_selectors` select; with both empty, all.
    pub namespaces: BTreeSet<String>,
    /// Namespaces that may use the pool, by label: one that matches is enough.
    pub namespace_selectors: Vec<Selector>,
    /// Services that may use the pool, by label: one that matches is enough; with none, all.
    pub service_selectors: Vec<Selector>,
}

/// What becomes of owners whose namespace a pool selects when it has no address left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum WhenFull {
    /// They get one of another pool.
    #[default]
    UseOthers,
    /// They wait: pools that are for every namespace give them nothing of a family that this one has, full or not.
    Wait,
}

/// How many addresses of each family of a pool one may have. What is kept back for it counts, so that who gets and releases
/// without end has no more than others; what it holds already it keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// All owners of one namespace together; `None`: any number.
    pub per_namespace: Option<u32>,
    /// One owner; `None`: any number.
    pub per_owner: Option<u32>,
}

/// Which free address is given first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The lowest.
    #[default]
    Lowest,
    /// The highest.
    Highest,
    /// One never given, lowest first; with none left, the one released the longest ago.
    ///
    /// The last 65,536 releases of a family in a pool are remembered, and none across a restart: an address that is
    /// forgotten counts as never given.
    LeastRecentlyUsed,
}

impl Policy {
    /// How long a released address is kept back where nothing else is said.
    pub const QUARANTINE: Duration = Duration::from_mins(1);

    /// Whether it says who may use the pool.
    pub fn selects(&self) -> bool {
        !(self.namespaces.is_empty()
            && self.namespace_selectors.is_empty()
            && self.service_selectors.is_empty())
    }

    /// Whether it says which namespaces may use the pool.
    pub fn selects_namespaces(&self) -> bool {
        !(self.namespaces.is_empty() && self.namespace_selectors.is_empty())
    }

    /// Whether `requester` is to have addresses from pools for its namespace only, as this one's policy says.
    pub fn confines(&self, requester: &Requester) -> bool {
        self.when_full == WhenFull::Wait
            && self.auto_assign
            && self.selects_namespaces()
            && self.admits_namespace(requester)
            && self.admits_labels(requester)
    }

    /// How long a released address is kept back.
    pub fn kept_back_for(&self) -> Duration {
        self.quarantine.max(self.namespace_quarantine)
    }

    /// Whether Services of `requester`'s namespace may use the pool.
    pub fn admits_namespace(&self, requester: &Requester) -> bool {
        !self.selects_namespaces()
            || self.namespaces.contains(&requester.namespace)
            || self.namespace_selectors.iter().any(|selector| selector.matches(&requester.namespace_labels))
    }

    /// Why the pool gives nothing new to `requester`, whatever it asks for.
    pub fn refuses(&self, requester: &Requester) -> Option<RefusalReason> {
        if self.disabled {
            Some(RefusalReason::Disabled)
        } else if !self.admits_namespace(requester) {
            Some(RefusalReason::OtherNamespace)
        } else if !self.admits_labels(requester) {
            Some(RefusalReason::OtherLabels)
        } else {
            None
        }
    }

    /// The namespaces whose Services may use the pool, in words: `a or b or those labelled team=web`.
    pub fn admitted_namespaces(&self) -> String {
        let labelled = self.namespace_selectors.iter().map(|selector| format!("those labelled {selector}"));
        shortened(self.namespaces.iter().cloned().chain(labelled))
    }

    /// The labels of Services that may use the pool, in words: `app=web or tier in (a,b)`.
    pub fn admitted_labels(&self) -> String {
        shortened(self.service_selectors.iter().map(Selector::to_string))
    }

    /// Whether Services with `requester`'s labels may use the pool.
    pub fn admits_labels(&self, requester: &Requester) -> bool {
        self.service_selectors.is_empty()
            || self.service_selectors.iter().any(|selector| selector.matches(&requester.labels))
    }
}

/// The first few of a list, and how many more there are.
fn shortened(items: impl Iterator<Item = String>) -> String {
    const NAMED: usize = 5;
    let items: Vec<String> = items.collect();
    let some = items.iter().take(NAMED).cloned().collect::<Vec<_>>().join(" or ");
    match items.len().saturating_sub(NAMED) {
        0 => some,
        more => format!("{some} or {more} more"),
    }
}

impl Default for Policy {
    /// As a `VirtualIPPool` that says nothing.
    fn default() -> Self {
        Self {
            auto_assign: true,
            disabled: false,
            priority: 100,
            order: Order::default(),
            avoid_class_c: false,
            quarantine: Self::QUARANTINE,
            namespace_quarantine: Duration::ZERO,
            limits: Limits::default(),
            when_full: WhenFull::default(),
            namespaces: BTreeSet::new(),
            namespace_selectors: Vec::new(),
            service_selectors: Vec::new(),
        }
    }
}

impl Pool {
    /// A pool of `ranges` that gives each of them to everybody.
    pub fn new(name: impl Into<String>, ranges: impl IntoIterator<Item = AddressRange>) -> Self {
        Self {
            name: name.into(),
            addresses: ranges.into_iter().collect(),
            reserved: AddressSet::default(),
            policy: Policy::default(),
        }
    }

    /// The same with another policy.
    #[must_use]
    pub fn with_policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }
}

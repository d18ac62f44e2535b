//! A named set of addresses, and the policy by which they are given.

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
    /// Addresses of the pool that are never given. An owner that holds one already keeps it.
    pub reserved: AddressSet,
    /// Policy by which they are given.
    pub policy: Policy,
}

/// Policy by which the addresses of a pool are given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// True if owners that name neither the pool nor an address may get one from here.
    pub auto_assign: bool,
    /// Gives nothing new; holders keep their addresses.
    pub disabled: bool,
    /// Pools are searched in ascending order of this; of equal ones those with selectors first, then by name.
    pub priority: i32,
    /// Order in which free addresses are given.
    pub order: Order,
    /// Reserves every IPv4 address that ends in .0 or .255 too.
    pub avoid_class_c: bool,
    /// Time for which a released address is kept back from others. Milliseconds count.
    pub quarantine: Duration,
    /// Time for which a released address stays with the namespace of its last holder, if that is longer: owners of that namespace
    /// that name the address may have it meanwhile. Zero: only the last holder. Milliseconds count.
    pub namespace_quarantine: Duration,
    /// Maximum numbers of addresses for one namespace and one owner.
    pub limits: Limits,
    /// Treatment of owners whose namespace it selects when it has no address left.
    pub when_full: WhenFull,
    /// Namespaces that may use the pool, besides those that `namespace_selectors` select; with both empty, all.
    pub namespaces: BTreeSet<String>,
    /// Namespaces that may use the pool, by label: one that matches is enough.
    pub namespace_selectors: Vec<Selector>,
    /// Services that may use the pool, by label: one that matches is enough; with none, all.
    pub service_selectors: Vec<Selector>,
}

/// Treatment of owners whose namespace a pool selects when it has no address left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum WhenFull {
    /// They get one of another pool.
    #[default]
    UseOthers,
    /// They wait: pools that are for every namespace give them nothing of a family that this one has, full or not.
    Wait,
}

/// Maximum numbers of addresses of each family of a pool. Addresses kept back for an owner count, so that one that gets and releases
/// without end has no more than others; it keeps the addresses that it holds already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// All owners of one namespace together; `None`: any number.
    pub per_namespace: Option<u32>,
    /// One owner; `None`: any number.
    pub per_owner: Option<u32>,
}

/// Order in which free addresses are given.
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
    /// Default time for which a released address is kept back.
    pub const QUARANTINE: Duration = Duration::from_mins(1);

    /// Returns true if it restricts the namespaces or Services that may use the pool.
    pub fn selects(&self) -> bool {
        !(self.namespaces.is_empty()
            && self.namespace_selectors.is_empty()
            && self.service_selectors.is_empty())
    }

    /// Returns true if it restricts the namespaces that may use the pool.
    pub fn selects_namespaces(&self) -> bool {
        !(self.namespaces.is_empty() && self.namespace_selectors.is_empty())
    }

    /// Returns true if this policy limits `requester` to pools for its namespace.
    pub fn confines(&self, requester: &Requester) -> bool {
        self.when_full == WhenFull::Wait
            && self.auto_assign
            && self.selects_namespaces()
            && self.admits_namespace(requester)
            && self.admits_labels(requester)
    }

    /// Time for which a released address is kept back.
    pub fn kept_back_for(&self) -> Duration {
        self.quarantine.max(self.namespace_quarantine)
    }

    /// Returns true if Services of `requester`'s namespace may use the pool.
    pub fn admits_namespace(&self, requester: &Requester) -> bool {
        !self.selects_namespaces()
            || self.namespaces.contains(&requester.namespace)
            || self.namespace_selectors.iter().any(|selector| selector.matches(&requester.namespace_labels))
    }

    /// Returns the reason why the pool gives nothing new to `requester`, whatever it asks for.
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

    /// Returns true if Services with `requester`'s labels may use the pool.
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
    /// Policy of a `VirtualIPPool` that sets no field.
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

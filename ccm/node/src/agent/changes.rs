//! Queue of changes to process. A producer never waits, and repeated changes are merged.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kube::ResourceExt as _;
use tokio::sync::Notify;
use windlass_api::{VirtualIP, VirtualRouter, virtual_ip_name};

use super::desired::is_wanted;
use super::watch::Shown;

/// Objects to look at, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    /// True if any object may have changed.
    pub(crate) all: bool,
    pub(crate) routers: BTreeSet<String>,
    pub(crate) vips: BTreeSet<String>,
    /// True if a list was received: deletions before it were not reported.
    pub(crate) listed: bool,
    /// Virtual IPs that were deleted while they were in service.
    pub(crate) vanished_vips: BTreeSet<String>,
    /// Virtual IPs that were deleted after they had been taken out of service.
    pub(crate) released_vips: BTreeSet<String>,
    /// Virtual routers that were deleted.
    pub(crate) vanished_routers: BTreeSet<String>,
}

impl Changed {
    /// Returns a change of all objects.
    pub(crate) fn all() -> Self {
        Self { all: true, ..Self::default() }
    }

    /// Returns the change for a received list, which may affect any object.
    pub(crate) fn list() -> Self {
        Self { all: true, listed: true, ..Self::default() }
    }

    /// Returns the change of this virtual IP.
    pub(crate) fn vip(name: String) -> Self {
        Self { vips: [name].into(), ..Self::default() }
    }

    /// Returns the change of the virtual IPs with these addresses.
    pub(crate) fn addresses<'a>(addresses: impl IntoIterator<Item = &'a IpAddr>) -> Self {
        let names = addresses.into_iter().map(|address| virtual_ip_name(*address));
        Self { vips: names.collect(), ..Self::default() }
    }

    /// Returns the change of this virtual router.
    pub(crate) fn router(name: String) -> Self {
        Self { routers: [name].into(), ..Self::default() }
    }

    /// Returns what to process after a change of virtual routers.
    pub(crate) fn of_router(shown: &Shown<'_, VirtualRouter>) -> Self {
        match shown {
            Shown::List => Self::list(),
            Shown::Object(router) => Self::router(router.name_any()),
            Shown::Gone(router) => {
                let name = router.name_any();
                Self { vanished_routers: [name.clone()].into(), ..Self::router(name) }
            }
        }
    }

    /// Returns what to process after a change of virtual IPs. The controller deletes none that is in service.
    pub(crate) fn of_vip(shown: &Shown<'_, VirtualIP>) -> Self {
        match shown {
            Shown::List => Self::list(),
            Shown::Object(vip) => Self::vip(vip.name_any()),
            Shown::Gone(vip) if is_wanted(vip) && vip.is_placed() => {
                let name = vip.name_any();
                Self { vanished_vips: [name.clone()].into(), ..Self::vip(name) }
            }
            Shown::Gone(vip) => {
                let name = vip.name_any();
                let released = if is_wanted(vip) { BTreeSet::new() } else { [name.clone()].into() };
                Self { released_vips: released, ..Self::vip(name) }
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.all && self.routers.is_empty() && self.vips.is_empty()
    }

    /// Keeps only the part that the reporter needs.
    pub(crate) fn into_report(self) -> Self {
        Self { all: self.all, routers: self.routers, vips: self.vips, ..Self::default() }
    }

    /// Removes up to `most` names of each kind and returns them.
    pub(crate) fn split(&mut self, most: usize) -> Self {
        let take = |names: &mut BTreeSet<String>| match names.iter().nth(most).cloned() {
            Some(first_left) => {
                let left = names.split_off(&first_left);
                std::mem::replace(names, left)
            }
            None => std::mem::take(names),
        };
        Self { routers: take(&mut self.routers), vips: take(&mut self.vips), ..Self::default() }
    }

    /// Merges `more` into this change.
    pub(crate) fn add(&mut self, mut more: Self) {
        self.all |= more.all;
        self.routers.append(&mut more.routers);
        self.vips.append(&mut more.vips);
        self.listed |= more.listed;
        self.vanished_vips.append(&mut more.vanished_vips);
        self.released_vips.append(&mut more.released_vips);
        self.vanished_routers.append(&mut more.vanished_routers);
    }
}

/// Changes that wait for their single reader.
#[derive(Debug, Default)]
pub(crate) struct ChangeQueue {
    waiting: Mutex<Changed>,
    notify: Notify,
}

impl ChangeQueue {
    fn waiting(&self) -> MutexGuard<'_, Changed> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a change and wakes the reader.
    pub(crate) fn add(&self, changed: Changed) {
        if !changed.is_empty() {
            self.waiting().add(changed);
            self.notify.notify_one();
        }
    }

    /// Takes all changes since the last call.
    pub(crate) fn take(&self) -> Changed {
        std::mem::take(&mut *self.waiting())
    }

    /// Returns once a change was added since it last returned.
    pub(crate) async fn changed(&self) {
        self.notify.notified().await;
    }
}

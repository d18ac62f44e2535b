//! What is to be looked at again. Whoever tells never waits, and what is told twice is looked at once.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use windlass_api::virtual_ip_name;

/// Objects to look at, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    /// All there are, these and others.
    pub(crate) all: bool,
    pub(crate) routers: BTreeSet<String>,
    pub(crate) vips: BTreeSet<String>,
}

impl Changed {
    /// All objects.
    pub(crate) fn all() -> Self {
        Self { all: true, ..Self::default() }
    }

    /// This virtual IP.
    pub(crate) fn vip(name: String) -> Self {
        Self { vips: [name].into(), ..Self::default() }
    }

    /// The virtual IPs with these addresses.
    pub(crate) fn addresses<'a>(addresses: impl IntoIterator<Item = &'a IpAddr>) -> Self {
        let names = addresses.into_iter().map(|address| virtual_ip_name(*address));
        Self { vips: names.collect(), ..Self::default() }
    }

    /// This virtual router.
    pub(crate) fn router(name: String) -> Self {
        Self { routers: [name].into(), ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.all && self.routers.is_empty() && self.vips.is_empty()
    }

    /// Takes up to `most` of each kind out of what is named.
    pub(crate) fn split(&mut self, most: usize) -> Self {
        let take = |names: &mut BTreeSet<String>| match names.iter().nth(most).cloned() {
            Some(first_left) => {
                let left = names.split_off(&first_left);
                std::mem::replace(names, left)
            }
            None => std::mem::take(names),
        };
        Self { all: false, routers: take(&mut self.routers), vips: take(&mut self.vips) }
    }

    /// These, too.
    pub(crate) fn add(&mut self, mut more: Self) {
        self.all |= more.all;
        self.routers.append(&mut more.routers);
        self.vips.append(&mut more.vips);
    }
}

/// Changes that one reader is to take.
#[derive(Debug, Default)]
pub(crate) struct ChangeQueue {
    waiting: Mutex<Changed>,
    notify: Notify,
}

impl ChangeQueue {
    fn waiting(&self) -> MutexGuard<'_, Changed> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whoever takes them.
    pub(crate) fn add(&self, changed: Changed) {
        if !changed.is_empty() {
            self.waiting().add(changed);
            self.notify.notify_one();
        }
    }

    /// All that was told since it was asked last.
    pub(crate) fn take(&self) -> Changed {
        std::mem::take(&mut *self.waiting())
    }

    /// Returns once something was told since it returned last.
    pub(crate) async fn changed(&self) {
        self.notify.notified().await;
    }
}

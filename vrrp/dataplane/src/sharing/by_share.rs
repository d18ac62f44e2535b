//! Values that follow from each share, kept while the share stays: of a thousand shared addresses one changes at a time. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::set::Service;
use super::shares::{Share, Shares};

#[cfg(test)]
mod tests;

/// A value for each share.
#[derive(Debug)]
pub struct ByShare<T> {
    values: BTreeMap<Service, (Arc<Share>, T)>,
}

impl<T> Default for ByShare<T> {
    fn default() -> Self {
        Self { values: BTreeMap::new() }
    }
}

impl<T> ByShare<T> {
    /// Returns the value of each of these shares. Calls `derive` for the shares that are new or others than at the last call: whatever else a
    /// value follows from has to be as it was then.
    pub fn follow(
        &mut self,
        shares: &Shares,
        mut derive: impl FnMut(Service, &Share) -> T,
    ) -> impl Iterator<Item = (Service, &T)> {
        let mut before = std::mem::take(&mut self.values);
        let values = shares.services.iter().map(|(service, share)| {
            let kept = before.remove(service).filter(|(of, _)| of == share);
            (*service, kept.unwrap_or_else(|| (Arc::clone(share), derive(*service, share))))
        });
        self.values = values.collect();
        self.values.iter().map(|(service, (_, value))| (*service, value))
    }
}

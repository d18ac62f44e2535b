//! The lists: a row for each object, with the data of other objects that belong to it. Pure.

mod node;
mod pool;
mod router;
mod service;
mod vip;

pub(super) use self::node::{NodeRow, first_failed, nodes};
pub(super) use self::pool::{PoolRow, pools};
pub(super) use self::router::routers;
pub(super) use self::service::services;
pub(super) use self::vip::{VipRow, vips};

#[cfg(test)]
mod tests;

/// Selection of the entries of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Selection {
    /// The namespace of Services; `None`: all.
    pub(super) namespace: Option<String>,
    /// Only these; empty: all.
    pub(super) names: Vec<String>,
}

impl Selection {
    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|one| one == name)
    }
}

//! The Services with external IPs.

use std::collections::BTreeSet;
use std::ops::Bound;

use k8s_openapi::api::core::v1::Service;
use windlass_api::ServiceRef;
use windlass_ccm::store::Change;

use super::external_ips;
use super::refused::{News, Refused, RefusedExternalIps};
use crate::allocation::request::owner;

/// Services with external IPs, and the refusals of theirs.
#[derive(Debug, Default)]
pub(crate) struct ExternalIps {
    users: BTreeSet<ServiceRef>,
    refused: RefusedExternalIps,
}

impl ExternalIps {
    /// Follows a change of a Service. Returns true if the refusals that pools show changed.
    pub(crate) fn follow(&mut self, change: &Change<Service>) -> bool {
        let old = change.old.as_ref().and_then(|service| owner(service));
        if let Some(old) = &old {
            self.users.remove(old);
        }
        if let Some(service) = &change.new
            && !external_ips(service).is_empty()
        {
            self.users.extend(owner(service));
        }
        // Nothing is refused of one that lists none any more, or is another under its name.
        old.is_some_and(|old| {
            !self.users.contains(&old) && self.refused.replace(&old, &Refused::default()).changed
        })
    }

    /// Returns true if the Service lists external IPs.
    pub(crate) fn has(&self, service: &ServiceRef) -> bool {
        self.users.contains(service)
    }

    /// The first `limit` Services after this one, or of all.
    pub(super) fn users_after(&self, after: Option<&ServiceRef>, limit: usize) -> Vec<ServiceRef> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.users.range((from, Bound::Unbounded)).take(limit).cloned().collect()
    }

    /// The refusals.
    pub(crate) const fn refused(&self) -> &RefusedExternalIps {
        &self.refused
    }

    pub(super) fn begin_pass(&mut self) -> bool {
        self.refused.begin_pass()
    }

    pub(super) fn replace(&mut self, user: &ServiceRef, refused: &Refused) -> News {
        self.refused.replace(user, refused)
    }
}

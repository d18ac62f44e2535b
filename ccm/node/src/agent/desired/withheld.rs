//! Virtual routers that this node leaves to others because it lacks their key. Pure.

use std::collections::BTreeSet;

use super::{Assignment, Desired, Problem, Refused};
use crate::keys::SECRET;

impl Desired {
    /// Returns the ids of the keys with which this node's virtual routers sign.
    pub(crate) fn key_ids(&self) -> BTreeSet<u8> {
        self.assignments.iter().filter_map(|one| one.key_id).collect()
    }

    /// Leaves out the virtual routers whose key this node does not have. Without the key it could not authenticate its peers' adverts, nor
    /// they its own, and it would become Active beside another.
    pub(crate) fn withhold(mut self, has_key: impl Fn(u8) -> bool) -> Self {
        let lacks = |one: &Assignment| one.key_id.filter(|id| !has_key(*id));
        for one in &self.assignments {
            let Some(id) = lacks(one) else { continue };
            let remedy = format!(
                "add an entry {id} to Secret {SECRET} in the namespace of the agents (they see it within two minutes), or give the \
                 Announcement another key"
            );
            let router = &one.virtual_router;
            self.problems.push(Problem {
                object: format!("VirtualRouter {router}"),
                reason: format!(
                    "its adverts are signed with VRRP key {id}, which this node does not have: {remedy}"
                ),
            });
            // The reason is the same on all nodes: each that lacks the key may report it, unless one has it and announces.
            self.refused.extend(one.addresses.iter().map(|address| Refused {
                address: *address,
                reason: format!(
                    "adverts for {address} are signed with VRRP key {id} (VirtualRouter {router}), which nodes that are to \
                     announce it do not have: {remedy}"
                ),
                alone: true,
            }));
            self.missing_keys.insert(id);
        }
        self.assignments.retain(|one| lacks(one).is_none());
        self.problems.sort();
        self.refused.sort_by_key(|one| one.address);
        self
    }
}

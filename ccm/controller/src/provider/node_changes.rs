//! Addresses that moved to another node, reported on their Services. Pure.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Node;
use windlass_api::{NodeNetwork, ServiceRef, VirtualIP, VirtualRouter};
use windlass_ccm::service::is_stable;
use windlass_ccm::store::Change;
use windlass_common::failures;
use windlass_common::priorities::{Class, class};

use crate::stores::Stores;

#[cfg(test)]
mod tests;

/// Maximum number of changes in the queue. Further ones, as when a node with thousands of addresses dies, are not reported: the
/// `VirtualIP`s show them.
const MOST: usize = 1024;

/// An address that another node announces than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeChange {
    /// The Services that have it.
    pub(crate) owners: Vec<ServiceRef>,
    /// In words.
    pub(crate) message: String,
}

/// Queue of changes to report.
#[derive(Debug, Default)]
pub(crate) struct NodeChanges(Vec<NodeChange>);

impl NodeChanges {
    /// Adds a change, if there is room.
    fn add(&mut self, change: NodeChange) {
        if self.0.len() < MOST {
            self.0.push(change);
        }
    }

    /// Adds a report for the Services of a `VirtualIP` if another node announces it than before.
    pub(crate) fn on_vip_change(&mut self, stores: &Stores, change: &Change<VirtualIP>) {
        let Some((vip, from, to)) = nodes(change) else { return };
        let router = vip.spec.virtual_router.as_ref().and_then(|name| stores.routers.get(name));
        let node = stores.nodes.get(from);
        let known = Known {
            router: router.map(AsRef::as_ref),
            node: node.as_deref(),
            network: stores.networks.get(from).map(AsRef::as_ref),
        };
        let message = message(vip.spec.address, from, to, known);
        self.add(NodeChange { owners: vip.spec.owners.clone(), message });
    }

    /// Takes all of them, to report them now.
    pub(crate) fn take(&mut self) -> Vec<NodeChange> {
        std::mem::take(&mut self.0)
    }
}

/// The nodes of a change, from which and to which; `None`: it is of something else. An address that nobody announced meanwhile has not
/// gone from one node to another.
fn nodes(change: &Change<VirtualIP>) -> Option<(&VirtualIP, &str, &str)> {
    let (old, new) = (change.old.as_deref()?, change.new.as_deref()?);
    let from = announces(old)?;
    let to = announces(new)?;
    (from != to && old.metadata.uid == new.metadata.uid).then_some((new, from, to))
}

fn announces(vip: &VirtualIP) -> Option<&str> {
    vip.active_node().filter(|_| vip.is_announced())
}

/// State of the cluster as an address moves from one node to another.
#[derive(Debug, Clone, Copy, Default)]
struct Known<'a> {
    /// The virtual router that carries it.
    pub(crate) router: Option<&'a VirtualRouter>,
    /// The node that had it, and what its agent reports.
    pub(crate) node: Option<&'a Node>,
    pub(crate) network: Option<&'a NodeNetwork>,
}

/// Returns the message about an address that moved.
fn message(address: IpAddr, from: &str, to: &str, known: Known<'_>) -> String {
    format!("{address} is announced by node {to}, before by node {from}: {}", why(from, to, known))
}

/// Returns the reason that a node does not have an address any more, as far as the cluster knows. The nodes elect by themselves: the
/// reason is derived after the fact, from the state of each of them.
fn why(from: &str, to: &str, Known { router, node, network }: Known<'_>) -> String {
    let Some(node) = node else { return format!("Node {from} is gone") };
    if !is_stable(node) {
        return format!("node {from} is excluded from load balancers, or about to be removed");
    }
    let (checks, key) = router.map_or((&[][..], None), |router| {
        (&router.spec.checks[..], router.spec.authentication.map(|one| one.key_id))
    });
    let failed = network.map(|network| &network.spec.failed_checks[..]).unwrap_or_default();
    let matters = |said: &&String| {
        failures::that_matter(std::slice::from_ref(said))
            .any(|subject| failures::concerns(subject, checks, key))
    };
    if let Some(failed) = failed.iter().find(matters) {
        return format!("a check fails on node {from}: {failed}");
    }
    let rank = |name: &str| {
        router
            .and_then(|router| router.spec.nodes.iter().find(|one| one.name == name))
            .map(|one| one.priority)
    };
    match (rank(from), rank(to)) {
        (None, _) => format!("node {from} is no longer a candidate"),
        (Some(was), _) if class(was) == Class::Fair => {
            format!("node {from} is drained, or its pods of the Service end")
        }
        (Some(was), _) if class(was) == Class::Unfit => {
            format!("node {from} has no ready pod of the Service, or is not known to the others yet")
        }
        (Some(was), Some(is)) if is > was => format!("node {to} has precedence and is well"),
        (Some(_), _) => format!("node {from} stopped sending adverts, or its agent was stopped or is late"),
    }
}

//! Leaving VRIDs to strangers. Ours do not obey them, but they may obey ours, and a switch that learns the virtual router's MAC
//! address cannot tell them apart.
//!
//! The new router has the nodes of the old one with their priorities, so that the node that has the VIPs goes on with them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use kube::ResourceExt as _;
use windlass_api::VirtualRouterSpec;

use super::router_draft::{RouterDraft, router_name, used_vrids};
use super::{Planner, ranking};

impl Planner<'_> {
    /// Puts another router in the place of each whose VRID a stranger uses, as far as there are VRIDs.
    pub(super) fn renumber(&mut self) {
        let heard = self.heard_by_node();
        if heard.is_empty() {
            return;
        }
        let is_taken = |draft: &RouterDraft<'_>| {
            let Some(segment) = draft.segment else { return false };
            let is_ipv4 = segment.addr().is_ipv4();
            self.links(draft, segment).into_iter().any(|(node, interface)| {
                heard.get(node).is_some_and(|heard| heard.contains(&(interface, is_ipv4, draft.spec.vrid)))
            })
        };
        let taken: Vec<String> =
            self.routers.iter().filter(|(_, draft)| is_taken(draft)).map(|(name, _)| name.clone()).collect();
        self.mark_replaced(&taken, true);
        for old in taken {
            match self.twin(&old).or_else(|| self.make_successor(&old)) {
                Some(new) => drop(self.successors.insert(old, new)),
                // Its nodes ignore the stranger: it works as it is.
                None => self.mark_replaced(&[old], false),
            }
        }
    }

    fn mark_replaced(&mut self, names: &[String], is_replaced: bool) {
        for name in names {
            if let Some(draft) = self.routers.get_mut(name) {
                draft.is_replaced = is_replaced;
            }
        }
    }

    /// The interface, whether the family is IPv4, and VRID of the strangers that each node hears.
    fn heard_by_node(&self) -> BTreeMap<String, BTreeSet<(&str, bool, u8)>> {
        let networks =
            self.topology.networks.iter().filter(|network| !network.spec.foreign_routers.is_empty());
        let heard = networks.map(|network| {
            let heard = network.spec.foreign_routers.iter();
            let keys = heard.map(|one| (one.interface.as_str(), one.source.is_ipv4(), one.vrid));
            (network.name_any(), keys.collect())
        });
        heard.collect()
    }

    /// The links of a router, each as a node and its interface: of the nodes that it has, and of those that it may get.
    fn links<'b>(&'b self, draft: &'b RouterDraft<'_>, segment: IpNet) -> BTreeSet<(&'b str, &'b str)> {
        let nodes = draft.spec.nodes.iter().map(|node| (node.name.as_str(), node.interface.as_str()));
        let candidates = self.topology.segments.candidates(segment, None).into_iter();
        nodes.chain(candidates.map(|one| (one.node.as_str(), one.interface.as_str()))).collect()
    }

    /// A router like this one, as it was made before if not all VIPs have gone to it yet. With `Local` each VIP has its own.
    fn twin(&self, old: &str) -> Option<String> {
        let of = &self.routers.get(old)?.spec;
        let is_twin = |one: &VirtualRouterSpec| VirtualRouterSpec { vrid: of.vrid, ..one.clone() } == **of;
        let mut twins = self.routers.iter().filter(|(_, draft)| !draft.is_replaced && is_twin(&draft.spec));
        twins.next().map(|(name, _)| name.clone()).filter(|_| of.external_traffic_policy.is_cluster())
    }

    /// Makes one with a VRID that is free on the links of this one.
    fn make_successor(&mut self, old: &str) -> Option<String> {
        let draft = self.routers.get(old)?;
        let (spec, segment) = (VirtualRouterSpec::clone(&draft.spec), draft.segment?);
        let links = self.links(draft, segment);
        let is_link = |node: &str, interface: &str| links.contains(&(node, interface));
        let used = used_vrids(segment, is_link, &self.routers, &self.topology.networks);
        let free = (1..=u8::MAX).filter(|vrid| !used.contains(vrid));
        let vrid = free.min_by_key(|vrid| ranking::weight(*vrid, &self.input.cluster))?;
        let name = router_name(segment, vrid);
        let new = RouterDraft::new(Cow::Owned(VirtualRouterSpec { vrid, ..spec }));
        self.routers.insert(name.clone(), new);
        Some(name)
    }
}

//! The Announcements as the planner has them, and which one applies to a virtual IP. Pure.

mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use windlass_api::{
    AddressConflictPolicy, Announcement, AnnouncementSpec, Authentication, ConnectionPolicy,
    ExternalTrafficPolicy, InterfaceInfo, LoadSharing, NodeCheck, NodeNetworkSpec, PreferredNodes,
    RankedNode, Transport, UnschedulableNodePolicy, VirtualRouterSpec, VrrpSettings,
};
use windlass_ccm::service::is_stable;
use windlass_common::failures;
use windlass_common::wildcard;
use windlass_ipam::{Labels, Requester, Selector};

use super::node_traits::NodeTraits;
pub(crate) use status::{AnnouncementFindings, status};
use windlass_common::label_selector::selector;

/// Announcement, as far as it can be read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ParsedAnnouncement {
    /// `None`: what holds for virtual IPs that no Announcement selects.
    pub(crate) name: Option<String>,
    selection: Selection,
    nodes: Vec<Selector>,
    preferred: Vec<(i32, Selector)>,
    unschedulable_nodes: UnschedulableNodePolicy,
    interfaces: Vec<String>,
    excluded: Vec<String>,
    /// Checks that each node runs itself.
    pub(crate) checks: Vec<NodeCheck>,
    pub(crate) address_conflict: AddressConflictPolicy,
    pub(crate) connections: ConnectionPolicy,
    pub(crate) load_sharing: LoadSharing,
    pub(crate) vrrp: RouterSettings,
    /// Selectors that cannot be read, which selects nothing more until they are put right.
    pub(crate) problems: Vec<String>,
}

/// VRRP settings of the virtual routers of an Announcement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RouterSettings {
    pub(crate) interval_ms: u32,
    pub(crate) preempt_delay_seconds: u32,
    pub(crate) transport: Transport,
    pub(crate) unicast_fallback: bool,
    pub(crate) virtual_mac: bool,
    pub(crate) authentication: Option<Authentication>,
    pub(crate) vrids: RangeInclusive<u8>,
}

/// The virtual IPs that an Announcement is for.
#[derive(Debug, Clone, Default, PartialEq)]
struct Selection {
    pools: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    namespace_selectors: Vec<Selector>,
    service_selectors: Vec<Selector>,
}

impl Selection {
    fn selects(&self, pool: &str, service: &Requester) -> bool {
        let Self { pools, namespaces, namespace_selectors, service_selectors } = self;
        let any = |selectors: &[Selector], labels: &Labels| selectors.iter().any(|one| one.matches(labels));
        let any_namespace = namespaces.is_empty() && namespace_selectors.is_empty();
        (pools.is_empty() || pools.contains(pool))
            && (any_namespace
                || namespaces.contains(&service.namespace)
                || any(namespace_selectors, &service.namespace_labels))
            && (service_selectors.is_empty() || any(service_selectors, &service.labels))
    }

    /// Returns true if it applies to each address of the pool, whatever Service has it.
    fn is_for_all_of(&self, pool: &str) -> bool {
        self.may_be_for(pool)
            && self.namespaces.is_empty()
            && self.namespace_selectors.is_empty()
            && self.service_selectors.is_empty()
    }

    fn may_be_for(&self, pool: &str) -> bool {
        self.pools.is_empty() || self.pools.contains(pool)
    }
}

impl ParsedAnnouncement {
    /// Reads a spec. A selector that cannot be read selects nothing.
    fn new(name: Option<String>, spec: &AnnouncementSpec) -> Self {
        let mut problems = Vec::new();
        let mut read = |field: &str, all: &[LabelSelector]| -> Vec<Selector> {
            let all = all.iter().enumerate().map(|(index, one)| {
                selector(one).map_err(|error| problems.push(format!("spec.{field}[{index}]: {error}"))).ok()
            });
            all.flatten().collect()
        };
        let AnnouncementSpec { pools, namespaces, interfaces, exclude_interfaces, preferred_nodes, .. } =
            spec;
        let selection = Selection {
            pools: pools.iter().cloned().collect(),
            namespaces: namespaces.iter().cloned().collect(),
            namespace_selectors: read("namespaceSelectors", &spec.namespace_selectors),
            service_selectors: read("serviceSelectors", &spec.service_selectors),
        };
        let nodes = read("nodeSelectors", &spec.node_selectors);
        let mut preferred = Vec::new();
        for (index, PreferredNodes { weight, selector: of }) in preferred_nodes.iter().enumerate() {
            match selector(of) {
                Ok(of) => preferred.push((*weight, of)),
                Err(error) => problems.push(format!("spec.preferredNodes[{index}].selector: {error}")),
            }
        }
        Self {
            name,
            selection,
            nodes,
            preferred,
            unschedulable_nodes: spec.unschedulable_nodes,
            interfaces: interfaces.clone(),
            excluded: exclude_interfaces.clone(),
            checks: spec.checks.clone(),
            address_conflict: spec.address_conflict,
            connections: spec.connections,
            load_sharing: spec.load_sharing,
            vrrp: RouterSettings::new(&spec.vrrp),
            problems,
        }
    }

    /// A virtual router as it wants it.
    pub(crate) fn router(
        &self,
        vrid: u8,
        segment: String,
        nodes: Vec<RankedNode>,
        external_traffic_policy: ExternalTrafficPolicy,
    ) -> VirtualRouterSpec {
        let RouterSettings {
            interval_ms,
            preempt_delay_seconds,
            transport,
            unicast_fallback,
            virtual_mac,
            authentication,
            ..
        } = self.vrrp;
        VirtualRouterSpec {
            vrid,
            segment,
            advertisement_interval_milliseconds: interval_ms,
            nodes,
            external_traffic_policy,
            announcement: self.name.clone(),
            preempt_delay_seconds,
            transport,
            unicast_fallback,
            virtual_mac,
            authentication,
            checks: self.checks.clone(),
            address_conflict: self.address_conflict,
            connections: self.connections,
            replaces: None,
        }
    }

    /// Returns true if it selects this virtual IP of `pool` and `service`.
    fn selects(&self, pool: &str, service: &Requester) -> bool {
        self.problems.is_empty() && self.selection.selects(pool, service)
    }

    /// Returns true if it allows a node with these labels to announce.
    pub(crate) fn allows_node(&self, labels: &Labels) -> bool {
        self.nodes.is_empty() || self.nodes.iter().any(|one| one.matches(labels))
    }

    /// Returns true if it allows an interface to announce. It allows a bridge without a way out of the node only if it names it.
    pub(crate) fn allows_interface(&self, interface: &InterfaceInfo) -> bool {
        let name = interface.name.as_str();
        if interface.isolated && !self.interfaces.iter().any(|one| one == name) {
            return false;
        }
        let is_in = |patterns: &[String]| patterns.iter().any(|pattern| wildcard::matches(pattern, name));
        self.interfaces.iter().any(|one| one == name)
            || ((self.interfaces.is_empty() || is_in(&self.interfaces)) && !is_in(&self.excluded))
    }

    /// Returns its preference for a node with these labels.
    pub(crate) fn weight(&self, labels: &Labels) -> i32 {
        let weights = self.preferred.iter().filter(|(_, one)| one.matches(labels)).map(|(weight, _)| *weight);
        weights.fold(0, i32::saturating_add)
    }

    /// Returns true if it moves addresses away from nodes that are unschedulable.
    fn drains_unschedulable_nodes(&self) -> bool {
        match self.unschedulable_nodes {
            UnschedulableNodePolicy::Serve => false,
            UnschedulableNodePolicy::Yield => true,
        }
    }

    /// Returns true if a node is to have addresses: it is not being removed, excluded or drained.
    pub(crate) fn is_healthy(&self, node: &NodeTraits) -> bool {
        node.is_stable && !(node.is_unschedulable && self.drains_unschedulable_nodes())
    }

    /// Returns true if the node reports a failure that affects addresses of this Announcement.
    pub(crate) fn fails_on(&self, report: &NodeNetworkSpec) -> bool {
        let key = self.vrrp.authentication.map(|one| one.key_id);
        failures::that_matter(&report.failed_checks).any(|what| failures::concerns(what, &self.checks, key))
    }

    /// Returns true if it depends on the labels of nodes.
    fn looks_at_labels(&self) -> bool {
        !self.nodes.is_empty() || !self.preferred.is_empty()
    }

    /// Returns true if it names the interfaces. On those, a subnet that does not contain an address is accepted.
    pub(crate) fn names_interfaces(&self) -> bool {
        !self.interfaces.is_empty()
    }

    /// Returns the interfaces that it names, for messages.
    pub(crate) fn interfaces(&self) -> String {
        self.interfaces.join(", ")
    }

    /// Returns true if its nodes are, in every respect, the same as without any Announcement.
    pub(crate) fn has_default_nodes(&self) -> bool {
        self.is_from_everywhere()
            && !self.drains_unschedulable_nodes()
            && self.checks.is_empty()
            && self.vrrp.authentication.is_none()
    }

    /// Returns true if every node announces on the same interfaces as without any Announcement.
    pub(crate) fn is_from_everywhere(&self) -> bool {
        let Self { nodes, preferred, interfaces, excluded, .. } = self;
        nodes.is_empty()
            && preferred.is_empty()
            && interfaces.is_empty()
            && excluded
                .iter()
                .map(String::as_str)
                .eq(windlass_api::DEFAULT_EXCLUDED_INTERFACES.iter().copied())
    }
}

impl RouterSettings {
    fn new(vrrp: &VrrpSettings) -> Self {
        let vrids = vrrp.vrid_range.map_or(1..=u8::MAX, |range| range.first.max(1)..=range.last);
        Self {
            interval_ms: vrrp.advertisement_interval_milliseconds,
            preempt_delay_seconds: vrrp.preempt_delay_seconds,
            transport: vrrp.transport,
            unicast_fallback: vrrp.unicast_fallback,
            virtual_mac: vrrp.virtual_mac,
            authentication: vrrp.authentication,
            vrids,
        }
    }
}

/// All Announcements, in the order in which they apply.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Announcements {
    none: ParsedAnnouncement,
    ordered: Vec<ParsedAnnouncement>,
}

impl Default for Announcements {
    fn default() -> Self {
        Self { none: ParsedAnnouncement::new(None, &AnnouncementSpec::default()), ordered: Vec::new() }
    }
}

/// The names of the Announcements that select a virtual IP.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SelectedBy {
    /// The one that applies, if any.
    pub(crate) applied: Option<String>,
    /// The others.
    pub(crate) overruled: Vec<String>,
}

impl Announcements {
    /// Collects these objects, except those that are being deleted.
    pub(crate) fn new<'a>(objects: impl Iterator<Item = &'a Arc<Announcement>>) -> Self {
        let mut objects: Vec<_> = objects.filter(|one| one.metadata.deletion_timestamp.is_none()).collect();
        objects.sort_by_cached_key(|one| {
            let created = one.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (one.spec.priority, created, one.name_any())
        });
        let parsed = |one: &Arc<Announcement>| ParsedAnnouncement::new(Some(one.name_any()), &one.spec);
        Self { ordered: objects.into_iter().map(parsed).collect(), ..Self::default() }
    }

    /// Returns true if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.ordered.is_empty()
    }

    /// Returns each, and last the default, which applies where none does.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ParsedAnnouncement> {
        self.ordered.iter().chain([&self.none])
    }

    /// The one of this name, if it exists; without a name, what holds where none is.
    pub(crate) fn get(&self, name: Option<&str>) -> Option<&ParsedAnnouncement> {
        self.iter().find(|one| one.name.as_deref() == name)
    }

    /// Returns the Announcement of this name, or the default if it does not exist.
    pub(crate) fn get_or_none(&self, name: Option<&str>) -> &ParsedAnnouncement {
        self.get(name).unwrap_or(&self.none)
    }

    /// Returns the Announcements that select a virtual IP of `pool`, whose Service is `service` if that is known. The one that applied
    /// until now, `shown`, still applies while it cannot be decided whether it should.
    pub(crate) fn select(&self, pool: &str, service: Option<&Requester>, shown: Option<&str>) -> SelectedBy {
        let Some(service) = service else {
            let applied = self.get(shown).and_then(|one| one.name.clone());
            return SelectedBy { applied, overruled: Vec::new() };
        };
        let keeps = |one: &ParsedAnnouncement| !one.problems.is_empty() && one.name.as_deref() == shown;
        let selecting = self.ordered.iter().filter(|one| keeps(one) || one.selects(pool, service));
        let mut names = selecting.filter_map(|one| one.name.clone());
        SelectedBy { applied: names.next(), overruled: names.collect() }
    }

    /// Returns the Announcements that may apply to addresses of `pool`. The last applies to each address to which no other does.
    pub(crate) fn of_pool(&self, pool: &str) -> Vec<&ParsedAnnouncement> {
        let mut may = Vec::new();
        for one in self.ordered.iter().filter(|one| one.problems.is_empty()) {
            if one.selection.may_be_for(pool) {
                may.push(one);
            }
            if one.selection.is_for_all_of(pool) {
                return may;
            }
        }
        may.push(&self.none);
        may
    }

    /// Returns the properties of a node that matter to a plan, as far as one of the Announcements asks for them.
    pub(crate) fn traits(&self, node: &Node) -> NodeTraits {
        let labels = node.metadata.labels.as_ref().filter(|_| self.look_at_labels());
        let is_unschedulable = || node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
        NodeTraits {
            is_stable: is_stable(node),
            is_unschedulable: self.look_at_unschedulable() && is_unschedulable(),
            labels: labels.cloned().unwrap_or_default(),
        }
    }

    /// Returns true if one of them depends on the labels of nodes.
    fn look_at_labels(&self) -> bool {
        self.ordered.iter().any(ParsedAnnouncement::looks_at_labels)
    }

    /// Returns true if one of them depends on which nodes are unschedulable.
    fn look_at_unschedulable(&self) -> bool {
        self.ordered.iter().any(ParsedAnnouncement::drains_unschedulable_nodes)
    }
}

//! Endpoints of Services on nodes, by their EndpointSlices.
//!
//! A node with a new endpoint serves it only once its kube-proxy has written its rules, which kube-proxy does once a second
//! (`minSyncPeriod`). So for two seconds it counts for less than a node that serves already, even by an endpoint that is about to end.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::ResourceExt as _;
use tokio::time::Instant;
use windlass_api::ServiceRef;
use windlass_ccm::store::{Change, Store, key};

#[cfg(test)]
mod tests;

/// Names the Service of a slice.
const LABEL_SERVICE: &str = "kubernetes.io/service-name";
/// Time that kube-proxy may need until a new endpoint is served: it writes its rules at most once a second, and that takes time.
const SETTLE: Duration = Duration::from_secs(2);

/// Endpoints of a Service on a node, by their ability to serve; the better, the greater.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EndpointState {
    /// Nothing.
    #[default]
    None,
    /// A ready endpoint that is so new that kube-proxy may not serve it yet.
    JustReady,
    /// Endpoints that end but still serve: kube-proxy uses them while the node has no ready one.
    Terminating,
    /// A ready endpoint.
    Ready,
}

/// The endpoints of a Service on one node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NodeEndpoints {
    pub(crate) state: EndpointState,
    /// Number of ready endpoints.
    pub(crate) ready: usize,
}

/// The nodes that have endpoints of a Service, by their names.
pub(crate) type ServingNodes = BTreeMap<String, NodeEndpoints>;

/// A Service, by the key of its store, and whether the family is IPv4.
type ServiceFamily = (String, bool);

/// Knowledge of endpoints beside the slices.
#[derive(Debug, Default)]
pub(crate) struct EndpointIndex {
    /// Keys of the slices of each Service.
    slices: HashMap<String, BTreeSet<String>>,
    /// Nodes that got their first ready endpoint, and when they count as serving.
    settled_at: HashMap<ServiceFamily, BTreeMap<String, Instant>>,
}

impl EndpointIndex {
    /// Handles a slice that was added, changed or removed, as `slices` has it now. `is_new` returns true for Services whose first
    /// endpoint is new: the endpoints of a first list were there before.
    pub(crate) fn on_change(
        &mut self,
        slices: &Store<EndpointSlice>,
        change: &Change<EndpointSlice>,
        is_new: impl Fn(&str) -> bool,
        now: Instant,
    ) {
        let services_of = |slice: &Option<Arc<EndpointSlice>>| slice.as_deref().and_then(service_of);
        let [was, is] = [&change.old, &change.new].map(services_of);
        let Some(key) = change.old.as_ref().or(change.new.as_ref()).map(|slice| key_of(slice)) else {
            return;
        };
        if was != is
            && let Some(was) = &was
            && let Some(keys) = self.slices.get_mut(was)
        {
            keys.remove(&key);
            if keys.is_empty() {
                self.slices.remove(was);
            }
        }
        if let Some(is) = &is {
            self.slices.entry(is.clone()).or_default().insert(key);
        }
        let families = change.old.iter().chain(&change.new).filter_map(|slice| family_of(slice));
        for family in families.collect::<BTreeSet<_>>() {
            if !is_new(&family.0) {
                continue;
            }
            let after = self.ready_nodes(slices, &family, None);
            let before = self.ready_nodes(slices, &family, Some(change));
            let settled_at = self.settled_at.entry(family.clone()).or_default();
            settled_at.retain(|node, at| *at > now && after.contains(node));
            for node in after.difference(&before) {
                settled_at.insert(node.clone(), now + SETTLE);
            }
            if settled_at.is_empty() {
                self.settled_at.remove(&family);
            }
        }
    }

    /// The nodes with endpoints of these Services, each by the worst that it has of any: together they share an address. Services
    /// without an endpoint anywhere do not count.
    pub(crate) fn serving(
        &self,
        slices: &Store<EndpointSlice>,
        owners: &[ServiceRef],
        is_ipv4: bool,
        now: Instant,
    ) -> ServingNodes {
        let of_owner = |owner: &ServiceRef| {
            self.of_service(slices, &(key(Some(&owner.namespace), &owner.name), is_ipv4), now)
        };
        let all = owners.iter().map(of_owner).filter(|serving| !serving.is_empty());
        all.reduce(|one, other| worst(&one, &other)).unwrap_or_default()
    }

    fn of_service(
        &self,
        slices: &Store<EndpointSlice>,
        service: &ServiceFamily,
        now: Instant,
    ) -> ServingNodes {
        let mut nodes = ServingNodes::new();
        for (node, state) in self.slices_of(slices, service).flat_map(serving_endpoints) {
            let known = nodes.entry(node.to_owned()).or_default();
            match state {
                EndpointState::Ready => known.ready += 1,
                // What kube-proxy uses until it has a ready one.
                EndpointState::None | EndpointState::JustReady | EndpointState::Terminating => {
                    known.state = known.state.max(state);
                }
            }
        }
        let settled_at = self.settled_at.get(service);
        for (node, known) in nodes.iter_mut().filter(|(_, known)| known.ready > 0) {
            let is_settled = settled_at.and_then(|nodes| nodes.get(node)).is_none_or(|at| *at <= now);
            let state = if is_settled { EndpointState::Ready } else { EndpointState::JustReady };
            known.state = known.state.max(state);
        }
        nodes
    }

    /// Returns the time at which the first of the nodes with new endpoints counts as serving.
    pub(crate) fn next_settled(&self, now: Instant) -> Option<Instant> {
        self.settled_at.values().flat_map(BTreeMap::values).copied().filter(|at| *at > now).min()
    }

    /// The nodes with a ready endpoint; with a change, before it.
    fn ready_nodes(
        &self,
        slices: &Store<EndpointSlice>,
        service: &ServiceFamily,
        undone: Option<&Change<EndpointSlice>>,
    ) -> BTreeSet<String> {
        let changed =
            undone.and_then(|change| change.old.as_ref().or(change.new.as_ref())).map(|one| key_of(one));
        let now = self.slices_of(slices, service);
        let others = now.filter(|slice| changed.as_ref() != Some(&key_of(slice)));
        let old = undone.and_then(|change| change.old.as_deref());
        let all = others.chain(old.filter(|slice| family_of(slice).as_ref() == Some(service)));
        let ready = all.flat_map(serving_endpoints).filter(|(_, state)| *state == EndpointState::Ready);
        ready.map(|(node, _)| node.to_owned()).collect()
    }

    /// The slices of a Service and family.
    fn slices_of<'a>(
        &self,
        slices: &'a Store<EndpointSlice>,
        service: &ServiceFamily,
    ) -> impl Iterator<Item = &'a EndpointSlice> {
        let keys = self.slices.get(&service.0).into_iter().flatten();
        keys.filter_map(|key| slices.get(key))
            .map(AsRef::as_ref)
            .filter(|slice| is_ipv4(slice) == Some(service.1))
    }
}

/// Nodes that serve both, by the worst of the two.
pub(crate) fn worst(one: &ServingNodes, other: &ServingNodes) -> ServingNodes {
    let both = one.iter().filter_map(|(node, here)| {
        let there = other.get(node)?;
        let (state, ready) = (here.state.min(there.state), here.ready.min(there.ready));
        Some((node.clone(), NodeEndpoints { state, ready }))
    });
    both.collect()
}

/// The slice without what nobody reads.
pub(crate) fn slimmed(mut slice: EndpointSlice) -> EndpointSlice {
    slice.metadata.managed_fields = None;
    slice.metadata.annotations = None;
    slice.metadata.owner_references = None;
    slice.ports = None;
    if let Some(labels) = &mut slice.metadata.labels {
        labels.retain(|label, _| label == LABEL_SERVICE);
    }
    for endpoint in slice.endpoints.iter_mut().flatten() {
        let Endpoint { conditions, node_name, .. } = std::mem::take(endpoint);
        *endpoint = Endpoint { conditions, node_name, ..Endpoint::default() };
    }
    slice
}

/// Returns true if the change of a slice changes the endpoints of nodes.
pub(crate) fn may_differ(change: &Change<EndpointSlice>) -> bool {
    let endpoints = |slice: &EndpointSlice| -> Vec<(String, EndpointState)> {
        serving_endpoints(slice).map(|(node, state)| (node.to_owned(), state)).collect()
    };
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => {
            service_of(old) != service_of(new)
                || is_ipv4(old) != is_ipv4(new)
                || endpoints(old) != endpoints(new)
        }
        (Some(one), None) | (None, Some(one)) => !endpoints(one).is_empty(),
        (None, None) => false,
    }
}

/// The Services that slices before and after the change belong to, by the keys of their store.
pub(crate) fn services(change: &Change<EndpointSlice>) -> impl Iterator<Item = String> {
    change.old.iter().chain(&change.new).filter_map(|slice| service_of(slice))
}

fn service_of(slice: &EndpointSlice) -> Option<String> {
    slice.labels().get(LABEL_SERVICE).map(|name| key(slice.metadata.namespace.as_deref(), name))
}

fn key_of(slice: &EndpointSlice) -> String {
    key(slice.metadata.namespace.as_deref(), &slice.name_any())
}

fn family_of(slice: &EndpointSlice) -> Option<ServiceFamily> {
    Some((service_of(slice)?, is_ipv4(slice)?))
}

/// `None`: it has names.
fn is_ipv4(slice: &EndpointSlice) -> Option<bool> {
    match slice.address_type.as_str() {
        "IPv4" => Some(true),
        "IPv6" => Some(false),
        _ => None,
    }
}

/// The endpoints of a slice that serve, each by its node.
fn serving_endpoints(slice: &EndpointSlice) -> impl Iterator<Item = (&str, EndpointState)> {
    slice.endpoints.iter().flatten().filter_map(on_node)
}

/// The node of an endpoint that serves, and how. What the conditions leave open is so, as kube-proxy has it. An endpoint without a
/// node is on none.
fn on_node(endpoint: &Endpoint) -> Option<(&str, EndpointState)> {
    let node = endpoint.node_name.as_deref()?;
    let conditions = endpoint.conditions.as_ref();
    let ready = conditions.and_then(|one| one.ready).unwrap_or(true);
    let serving = conditions.and_then(|one| one.serving).unwrap_or(ready);
    let terminating = conditions.and_then(|one| one.terminating).unwrap_or(false);
    if ready {
        Some((node, EndpointState::Ready))
    } else {
        (serving && terminating).then_some((node, EndpointState::Terminating))
    }
}

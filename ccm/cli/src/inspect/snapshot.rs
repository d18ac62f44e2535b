//! Objects of the API server at one moment: each kind, as far as it could be read. Pure.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use windlass_api::{
    Announcement, CONDITION_ADDRESS_ALLOCATED, LOAD_BALANCER_CLASS, NodeNetwork, ServiceRef, VirtualIP,
    VirtualIPPool, VirtualRouter,
};
use windlass_ccm::conditions::find;
use windlass_controller::Settings;

/// Default lease of a cloud-controller-manager.
pub(super) const LEASE: &str = "cloud-controller-manager";
/// Label with the component of Windlass' own pods.
const COMPONENT: &str = "app.kubernetes.io/component";
/// Label with the operating system of a kubelet, and the one on which Windlass runs.
pub(super) const OS_LABEL: &str = "kubernetes.io/os";
pub(super) const LINUX: &str = "linux";

/// All objects of a kind that could be read.
#[derive(Debug, Clone)]
pub(crate) struct Listing<K> {
    /// The objects that were read.
    pub(crate) objects: Vec<K>,
    /// Reason why some of them were not read.
    pub(super) missing: Option<Missing>,
}

impl<K: Resource> Listing<K> {
    /// The objects by their names.
    pub(super) fn by_name(&self) -> BTreeMap<&str, &K> {
        self.objects.iter().filter_map(|object| Some((object.meta().name.as_deref()?, object))).collect()
    }
}

impl<K> Default for Listing<K> {
    fn default() -> Self {
        Self { objects: Vec::new(), missing: None }
    }
}

impl<K> From<Vec<K>> for Listing<K> {
    /// All of them.
    fn from(objects: Vec<K>) -> Self {
        Self { objects, missing: None }
    }
}

/// State of the controller that reads, as it knows it itself.
#[derive(Debug, Clone)]
pub(crate) struct OwnController {
    pub(crate) settings: Settings,
    /// Namespace and name of the lease by which it leads, and its identity; `None`: it leads without election.
    pub(crate) election: Option<(String, String)>,
    /// Time at which it began to lead.
    pub(crate) since: Timestamp,
}

/// Reason why part of the cluster is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Missing {
    /// The kind, as `Services`.
    pub(super) kind: String,
    pub(super) cause: Cause,
    /// Description of the unknown part, with the reason.
    pub(super) message: String,
    /// Remedy.
    pub(super) remedy: String,
}

/// Cause of a failure to read a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Cause {
    /// The API server has no such kind.
    NotInstalled,
    /// The credentials do not permit it.
    Forbidden,
    /// The API server did not answer, or not in time.
    Unreachable,
    /// Some object does not decode.
    Unreadable,
    /// It answered with another error.
    Failed,
}

/// The cluster at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    /// The API server.
    pub(crate) server: String,
    /// Time of the query.
    pub(crate) now: Timestamp,
    pub(crate) services: Listing<Service>,
    pub(crate) vips: Listing<VirtualIP>,
    pub(crate) pools: Listing<VirtualIPPool>,
    pub(crate) routers: Listing<VirtualRouter>,
    pub(crate) announcements: Listing<Announcement>,
    pub(crate) networks: Listing<NodeNetwork>,
    pub(crate) nodes: Listing<Node>,
    /// Windlass' own.
    pub(crate) pods: Listing<Pod>,
    /// Leases of `kube-system` and of Windlass' namespace.
    pub(crate) leases: Listing<Lease>,
    /// The controller that reads the objects it watches; `None`: a user reads those of the API server.
    pub(crate) own: Option<OwnController>,
}

impl Snapshot {
    /// Returns the parts of the cluster that are unknown.
    pub(super) fn missing(&self) -> impl Iterator<Item = &Missing> {
        [
            &self.services.missing,
            &self.vips.missing,
            &self.pools.missing,
            &self.routers.missing,
            &self.announcements.missing,
            &self.networks.missing,
            &self.nodes.missing,
            &self.pods.missing,
            &self.leases.missing,
        ]
        .into_iter()
        .flatten()
    }

    /// Services of type LoadBalancer that Windlass serves, or would.
    pub(super) fn load_balancers(&self) -> impl Iterator<Item = &Service> {
        let classless = self.settings().classless_services;
        self.services.objects.iter().filter(move |service| is_served(service, classless))
    }

    /// Returns the settings of the controller, as far as the arguments of its pods show them.
    pub(super) fn settings(&self) -> Settings {
        if let Some(own) = &self.own {
            return own.settings;
        }
        let containers =
            self.controllers().filter_map(|pod| pod.spec.as_ref()).flat_map(|spec| &spec.containers);
        let args: Vec<&str> =
            containers.flat_map(|container| container.args.iter().flatten()).map(String::as_str).collect();
        let is_said = |words: &[&str]| words.iter().any(|word| args.contains(word));
        Settings {
            classless_services: !is_said(&["--classless-services=false"]),
            compat_annotations: is_said(&["--compat-annotations", "--compat-annotations=true"]),
            ..Settings::default()
        }
    }

    /// Pods of the controller.
    pub(super) fn controllers(&self) -> impl Iterator<Item = &Pod> {
        self.pods_of("controller")
    }

    /// Pods of agents.
    pub(super) fn agents(&self) -> impl Iterator<Item = &Pod> {
        self.pods_of("agent")
    }

    fn pods_of<'a>(&'a self, component: &'a str) -> impl Iterator<Item = &'a Pod> {
        self.pods
            .objects
            .iter()
            .filter(move |pod| pod.labels().get(COMPONENT).is_some_and(|is| is == component))
    }

    /// VIPs by the UID of each Service that has them. Those in quarantine have no owner.
    pub(super) fn vips_by_owner(&self) -> HashMap<&str, Vec<&VirtualIP>> {
        let mut by_owner: HashMap<&str, Vec<&VirtualIP>> = HashMap::new();
        for vip in self.vips.objects.iter().filter(|vip| vip.spec.quarantine.is_none()) {
            for owner in &vip.spec.owners {
                by_owner.entry(&owner.uid).or_default().push(vip);
            }
        }
        by_owner
    }

    /// VIPs in use by the name of the virtual router that carries them.
    pub(super) fn vips_by_router(&self) -> HashMap<&str, Vec<&VirtualIP>> {
        let mut by_router: HashMap<&str, Vec<&VirtualIP>> = HashMap::new();
        for vip in self.vips.objects.iter().filter(|vip| vip.spec.quarantine.is_none()) {
            if let Some(router) = vip.spec.virtual_router.as_deref() {
                by_router.entry(router).or_default().push(vip);
            }
        }
        by_router
    }

    /// The object of this name.
    pub(super) fn named<'a, K: Resource<DynamicType = ()>>(
        listing: &'a Listing<K>,
        name: &str,
    ) -> Option<&'a K> {
        listing.objects.iter().find(|object| object.meta().name.as_deref() == Some(name))
    }
}

/// Returns true if Windlass serves a Service, or would.
fn is_served(service: &Service, classless: bool) -> bool {
    let Some(spec) = &service.spec else { return false };
    let is_told = allocated(service).is_some();
    let is_of_class = match spec.load_balancer_class.as_deref() {
        Some(class) => class == LOAD_BALANCER_CLASS,
        None => classless,
    };
    spec.type_.as_deref() == Some("LoadBalancer") && (is_of_class || is_told)
}

/// Returns the condition that Windlass reports for a Service.
pub(super) fn allocated(service: &Service) -> Option<&Condition> {
    let conditions = service.status.as_ref()?.conditions.as_deref()?;
    find(conditions, CONDITION_ADDRESS_ALLOCATED)
}

/// The addresses that a Service shows.
pub(super) fn shown(service: &Service) -> Vec<String> {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let entries = balancer.into_iter().flat_map(|balancer| balancer.ingress.iter().flatten());
    entries.filter_map(|entry| entry.ip.clone().or_else(|| entry.hostname.clone())).collect()
}

/// Namespace and name.
pub(super) fn full_name(object: &impl Resource) -> String {
    let meta = object.meta();
    let name = meta.name.as_deref().unwrap_or_default();
    meta.namespace.as_ref().map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

/// Returns the time at which an object was created.
pub(super) fn created(object: &impl Resource) -> Option<Timestamp> {
    object.meta().creation_timestamp.as_ref().map(|time| time.0)
}

/// Returns true if a Node reports that it is ready.
pub(super) fn is_ready(node: &Node) -> bool {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|one| one.type_ == "Ready" && one.status == "True")
}

/// Returns false for a node that is labelled with another operating system than Linux: it has no agent and no pod of Windlass.
pub(super) fn is_linux(node: &Node) -> bool {
    node.metadata.labels.iter().flatten().all(|(key, os)| key != OS_LABEL || os == LINUX)
}

/// Returns true if a pod reports that it is ready.
pub(super) fn is_pod_ready(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|one| one.type_ == "Ready" && one.status == "True")
}

/// The node of a pod.
pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// The reference by which VIPs name a Service.
pub(super) fn service_ref(service: &Service) -> ServiceRef {
    ServiceRef {
        namespace: service.namespace().unwrap_or_default(),
        name: service.name_any(),
        uid: service.uid().unwrap_or_default(),
    }
}

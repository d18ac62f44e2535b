//! Interface that a cloud provider implements: small traits, each with its idempotence rules, and an error whose variant decides what
//! happens next.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Node, NodeAddress, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::timeout;

/// Namespace and name of a Service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceKey {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ServiceKey {
    /// The key of a Service.
    pub fn of(service: &Service) -> Self {
        Self::of_metadata(&service.metadata)
    }

    pub(crate) fn of_metadata(metadata: &ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

/// `namespace/name`.
impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Failure of a call to a provider. The variant decides retry, event and status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// The instance or load balancer does not exist.
    #[error("{0}")]
    NotFound(String),
    /// Another controller implements this load balancer: success, no status is written (service-contract S-13, S-17).
    #[error("implemented elsewhere: {0}")]
    ImplementedElsewhere(String),
    /// Ask again after exactly this time, but not before 100 ms nor later than in a day; the back-off does not grow
    /// (service-contract S-16).
    #[error("{reason}")]
    RetryAfter {
        /// Delay before the next call.
        after: Duration,
        /// Event that the provider waits for.
        reason: String,
    },
    /// It cannot be done as asked: the user has to change something. Retried with back-off all the same, and immediately when the Service
    /// changes or [`LoadBalancer::changes`] names it. The provider's condition becomes `False`.
    #[error("{message}")]
    Rejected {
        /// `reason` of the condition: one CamelCase word.
        reason: &'static str,
        /// Fault, and what the user has to change.
        message: String,
    },
    /// It cannot be done as asked until the user changes something, but what the status shows works all the same. As
    /// [`Self::Rejected`], except that the provider's condition becomes `True`.
    #[error("{message}")]
    Blocked {
        /// `reason` of the condition: one CamelCase word.
        reason: &'static str,
        /// Obstacle, and what the user has to change.
        message: String,
    },
    /// It failed for now; retried with back-off.
    #[error("{0}")]
    Transient(String),
}

impl ProviderError {
    /// Returns the delay before the next call that the provider asked for, clamped to 100 ms to 24 h: without a delay the controller would
    /// spin, and too long a one exceeds the range of the clock.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        const SOONEST: Duration = Duration::from_millis(100);
        const LATEST: Duration = Duration::from_hours(24);
        match self {
            Self::RetryAfter { after, .. } => Some((*after).clamp(SOONEST, LATEST)),
            Self::NotFound(_)
            | Self::ImplementedElsewhere(_)
            | Self::Rejected { .. }
            | Self::Blocked { .. }
            | Self::Transient(_) => None,
        }
    }
}

/// Outcome of [`LoadBalancer::ensure`]. Reason and message are those of the provider's condition
/// ([`LoadBalancer::condition_type`]); a provider without one leaves them empty. Users wait for that condition, so it is to be
/// `True` only while clients reach what the status shows.
#[derive(Debug, Clone, PartialEq)]
pub enum Ensured {
    /// The load balancer is as it was asked for, as far as the provider can see to it.
    Ready {
        /// Becomes `status.loadBalancer`, as a whole.
        status: LoadBalancerStatus,
        /// True if it works: `status` of the condition.
        works: bool,
        /// `reason` of the condition: one CamelCase word.
        reason: &'static str,
        /// Description of what the Service has.
        message: String,
    },
    /// Everything was done, but it does not work yet. Addresses in the status are left as they are, no failure is counted and no event
    /// written; [`LoadBalancer::changes`] names the Service when something changes. The condition is written immediately if it is `True` on
    /// a Service that shows no address, otherwise only if the wait is long: most are short.
    Pending {
        /// True if what the status shows meanwhile works: `status` of the condition.
        works: bool,
        /// `reason` of the condition: one CamelCase word.
        reason: &'static str,
        /// Event that the provider waits for.
        message: String,
    },
    /// It cannot be done as asked, and the Service loses what its status shows besides `status`. A failure otherwise, as
    /// [`ProviderError::Rejected`]: the condition becomes `False`.
    Refused {
        /// Status that it keeps: becomes `status.loadBalancer`, as a whole.
        status: LoadBalancerStatus,
        /// `reason` of the condition: one CamelCase word.
        reason: &'static str,
        /// Fault, and what the user has to change.
        message: String,
    },
}

impl Ensured {
    /// It works, for a provider without a condition.
    pub const fn ready(status: LoadBalancerStatus) -> Self {
        Self::Ready { status, works: true, reason: "", message: String::new() }
    }
}

/// Load balancers for Services. All calls for one Service are made one after the other, those for several side by side. A
/// call may take its time, which it takes from its worker (`--concurrent-service-syncs`), and is dropped where it waits when
/// this process is to end or leads no longer: what it did is asked for again.
pub trait LoadBalancer: Send + Sync + 'static {
    /// Returns true if this provider serves the Service's `spec.loadBalancerClass`; by default only classless Services (service-contract
    /// S-01). The answer for one class must not change while the process runs.
    fn serves_class(&self, class: Option<&str>) -> bool {
        class.is_none()
    }

    /// Returns the type of the condition on Services that shows how this provider serves them, as `example.com/Provisioned`. `None`: it has
    /// none. The controller writes the condition together with the addresses, only if it differs from what the Service shows, and removes
    /// it with the load balancer.
    fn condition_type(&self) -> Option<&'static str> {
        None
    }

    /// Returns true if an entry of a Service's status is this provider's; by default all are. Entries of other providers stay when the load
    /// balancer is removed. Called before [`LoadBalancer::ensure_deleted`].
    fn is_own_ingress(&self, _entry: &LoadBalancerIngress) -> bool {
        true
    }

    /// Returns the delay before a Service is ensured again because of a change that concerns no load balancer in general (service-contract
    /// S-11: labels, selector, order of families, a status that another client emptied …). Called once for each such change. `None`, the
    /// default: the change does not concern this provider.
    fn requeue_after(&self, _old: &Service, _new: &Service) -> Option<Duration> {
        None
    }

    /// Returns true, the default, if a load balancer depends on the set of nodes. With false no [`LoadBalancer::update_nodes`] is called:
    /// no change of a node makes the controller check thousands of Services and write an event on each (service-contract S-22).
    fn depends_on_nodes(&self) -> bool {
        true
    }

    /// The load balancer as it is, `None` if there is none made by this provider.
    fn get(
        &self,
        cluster: &str,
        service: &Service,
    ) -> impl Future<Output = Result<Option<LoadBalancerStatus>, ProviderError>> + Send;

    /// Creates or updates the load balancer. Idempotent: with nothing changed it writes nothing.
    /// `nodes` is the stable node set (service-contract S-24).
    fn ensure(
        &self,
        cluster: &str,
        service: &Service,
        nodes: &[Arc<Node>],
    ) -> impl Future<Output = Result<Ensured, ProviderError>> + Send;

    /// The node set changed, the Service did not.
    fn update_nodes(
        &self,
        cluster: &str,
        service: &Service,
        nodes: &[Arc<Node>],
    ) -> impl Future<Output = Result<(), ProviderError>> + Send;

    /// Takes the load balancer away. `Ok` when it is already gone; never `ImplementedElsewhere` (service-contract S-17).
    fn ensure_deleted(
        &self,
        cluster: &str,
        service: &Service,
    ) -> impl Future<Output = Result<(), ProviderError>> + Send;

    /// Services to ensure again although they did not change themselves: their load balancer did, or what they waited
    /// for may now be had. Called once, when the controller starts.
    fn changes(&self) -> BoxStream<'static, ServiceKey> {
        stream::pending().boxed()
    }
}

/// Metadata of a node's machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InstanceMetadata {
    /// `spec.providerID` for a node that has none yet.
    pub provider_id: String,
    /// `status.addresses`, in order; empty keeps what is there.
    pub addresses: Vec<NodeAddress>,
    /// Label `node.kubernetes.io/instance-type`; empty leaves it.
    pub instance_type: String,
    /// Label `topology.kubernetes.io/zone`; empty leaves it.
    pub zone: String,
    /// Label `topology.kubernetes.io/region`; empty leaves it.
    pub region: String,
    /// Further labels for a node that is initialized. Those of Kubernetes' own domains (`kubernetes.io`, `k8s.io`) are
    /// passed over, and a label that the node has stays as it is (service-contract N-07).
    pub additional_labels: BTreeMap<String, String>,
    /// Reason and remedy if the node must not have the addresses that kubelet names by `--node-ip`: `addresses` are then used as they are,
    /// and the Node gets an event `NodeIPRefused`. `None`: the addresses of `--node-ip` must be among `addresses` (service-contract N-05).
    pub node_ip_refused: Option<String>,
}

/// The machines behind the nodes. Nothing here changes a machine; calls are repeated at will, and one that takes too long
/// is dropped.
pub trait Instances: Send + Sync + 'static {
    /// Returns true if the machine exists; called only while its node is not ready. `Ok(false)` deletes the Node, and nothing else does:
    /// when in doubt, return an error. A machine that is stopped or asleep exists (service-contract L-03, L-06).
    fn exists(&self, node: &Node) -> impl Future<Output = Result<bool, ProviderError>> + Send;

    /// Returns true if the machine is shut down; called only if it exists. `Ok(true)` taints the node until it is ready again. A provider
    /// that cannot know returns `Ok(false)` (service-contract L-04).
    fn shutdown(&self, node: &Node) -> impl Future<Output = Result<bool, ProviderError>> + Send;

    /// Returns the metadata of the machine. `None`: the node is not this provider's and is left alone (service-contract N-03).
    fn metadata(
        &self,
        node: &Node,
    ) -> impl Future<Output = Result<Option<InstanceMetadata>, ProviderError>> + Send;

    /// Returns a stream of the names of Nodes to sync again although they did not change themselves: their machine changed, for example its
    /// address. Called once, when the controller starts.
    fn node_changes(&self) -> BoxStream<'static, String> {
        stream::pending().boxed()
    }
}

/// An answer of a provider about a machine, for which it has `limit`.
pub(crate) async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, ProviderError>>,
) -> Result<T, ProviderError> {
    timeout(limit, answer).await.unwrap_or_else(|_| {
        Err(ProviderError::Transient(format!("no answer from the cloud provider within {limit:?}")))
    })
}

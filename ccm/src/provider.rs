//! What a cloud provider implements: small traits, each with its idempotence rules, and an error whose variant decides
//! what happens next.

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

/// Why a provider could not do what was asked. The variant decides retry, event and status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// The instance or load balancer does not exist.
    #[error("{0}")]
    NotFound(String),
    /// Somebody else implements this load balancer: success, no status is written (service-contract S-13, S-17).
    #[error("implemented elsewhere: {0}")]
    ImplementedElsewhere(String),
    /// Ask again after exactly this time, but not before 100 ms nor later than in a day; the back-off does not grow
    /// (service-contract S-16).
    #[error("{reason}")]
    RetryAfter {
        /// When to ask again.
        after: Duration,
        /// What is waited for.
        reason: String,
    },
    /// It cannot be done as asked: the user has to change something. Retried with back-off all the same, and at once
    /// when the Service changes or [`LoadBalancer::changes`] names it. The provider's condition becomes `False`.
    #[error("{message}")]
    Rejected {
        /// `reason` of the condition: one CamelCase word.
        reason: &'static str,
        /// What is wrong and what to change.
        message: String,
    },
    /// It cannot be done as asked until the user changes something, but what the status shows works all the same. As
    /// [`Self::Rejected`], except that the provider's condition becomes `True`.
    #[error("{message}")]
    Blocked {
        /// `reason` of the condition: one CamelCase word.
        reason: &'static str,
        /// What is in the way and what to change.
        message: String,
    },
    /// It failed for now; retried with back-off.
    #[error("{0}")]
    Transient(String),
}

impl ProviderError {
    /// When the provider wants to be asked again, in bounds: no rest would be a spin, and too long a one has no end in any
    /// clock.
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
        /// Whether it works: `status` of the condition.
        works: bool,
        /// `reason` of the condition: one CamelCase word.
        reason: &'static str,
        /// What the Service has.
        message: String,
    },
    /// Everything was done, but it does not work yet. Addresses in the status are left as they are, no failure is
    /// counted and no event written; [`LoadBalancer::changes`] names the Service when there is news. The condition is
    /// written at once where it says `True` of a Service that shows no address, otherwise only if the wait is long: most
    /// are short.
    Pending {
        /// Whether what the status shows meanwhile works: `status` of the condition.
        works: bool,
        /// `reason` of the condition: one CamelCase word.
        reason: &'static str,
        /// What is waited for.
        message: String,
    },
    /// It cannot be done as asked, and the Service loses what its status shows besides `status`. A failure otherwise, as
    /// [`ProviderError::Rejected`]: the condition becomes `False`.
    Refused {
        /// What it keeps: becomes `status.loadBalancer`, as a whole.
        status: LoadBalancerStatus,
        /// `reason` of the condition: one CamelCase word.
        reason: &'static str,
        /// What is wrong and what to change.
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
    /// Whether this provider serves the Service's `spec.loadBalancerClass`; by default only classless Services
    /// (service-contract S-01). The answer for one class is the same as long as the process runs.
    fn serves_class(&self, class: Option<&str>) -> bool {
        class.is_none()
    }

    /// Type of the condition on Services that tells how this provider serves them, as `example.com/Provisioned`. `None`:
    /// it has none. The controller writes the condition together with the addresses, only if it differs from what the
    /// Service shows, and removes it with the load balancer.
    fn condition_type(&self) -> Option<&'static str> {
        None
    }

    /// Whether an entry of a Service's status is this provider's. Those of others stay when the load balancer is taken
    /// away; asked before [`LoadBalancer::ensure_deleted`]. By default all are.
    fn is_own_ingress(&self, _entry: &LoadBalancerIngress) -> bool {
        true
    }

    /// When a Service is to be ensured again because of a change that concerns no load balancer in general
    /// (service-contract S-11: labels, selector, order of families, a status that somebody else emptied …). Told of each such
    /// change once. `None`: it does not concern this provider, as by default.
    fn requeue_after(&self, _old: &Service, _new: &Service) -> Option<Duration> {
        None
    }

    /// Whether what a load balancer is depends on which nodes there are. Where it does not, no change of a node is a reason
    /// to look at thousands of Services and to write an event on each (service-contract S-22): no
    /// [`LoadBalancer::update_nodes`] is called. By default it does.
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

/// What is known of a node's machine.
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
    /// Why the node is not to have the addresses that kubelet names by `--node-ip`, and what to do about it. `None`: it is,
    /// and they must be among `addresses` (service-contract N-05). With a reason `addresses` are taken as they are, and the
    /// Node says it in an event `NodeIPRefused`.
    pub node_ip_refused: Option<String>,
}

/// The machines behind the nodes. Nothing here changes a machine; calls are repeated at will, and one that takes too long
/// is dropped.
pub trait Instances: Send + Sync + 'static {
    /// Whether the machine exists; asked only while its node is not ready. `Ok(false)` deletes the Node, and nothing else
    /// does: when in doubt, an error. A machine that is stopped or asleep exists (service-contract L-03, L-06).
    fn exists(&self, node: &Node) -> impl Future<Output = Result<bool, ProviderError>> + Send;

    /// Whether the machine is shut down; asked only if it exists. `Ok(true)` taints the node until it is ready again. A
    /// provider that cannot know says `Ok(false)` (service-contract L-04).
    fn shutdown(&self, node: &Node) -> impl Future<Output = Result<bool, ProviderError>> + Send;

    /// What is known of the machine. `None`: not this provider's node, leave it alone (service-contract N-03).
    fn metadata(
        &self,
        node: &Node,
    ) -> impl Future<Output = Result<Option<InstanceMetadata>, ProviderError>> + Send;

    /// Names of Nodes to look at again although they did not change themselves: there is news of their machine, as another
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

//! Publisher that keeps this node's `NodeNetwork` up to date.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Error, ResourceExt as _};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_api::{
    Capability, KnownRouter, NodeNetwork, NodeNetworkSpec, RankedNode, VirtualIP, VirtualRouter,
    virtual_ip_name,
};
use windlass_ccm::apiserver::call_within;
use windlass_ccm::lenient::{Lenient, read};
use windlass_ccm::store::Informer;
use windlass_common::{failures, strict};
use windlass_engine::Engine;

use super::backoff::backoff;
use super::changes::{ChangeQueue, Changed};
use super::desired::Desired;
use super::engine_state::EngineState;
use super::health::FailedChecks;
use super::network::Carriers;
use super::service_proxy::ServiceProxy;
use super::sharing::ability::Ability;
use super::sharing::finding::{Obstacle, SharingState};
use super::{addresses, network};
use crate::keys::{Keys, SECRET};

/// Field manager of the agents' server-side apply, and source of their events.
pub(crate) const FIELD_MANAGER: &str = "windlass-agent";
/// Interval at which the interfaces are read: the kernel's list is cheap to read.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Interval after which the object is applied again if the API server shows another one, or has never shown it.
const REPEAT_AFTER: Duration = Duration::from_mins(1);
/// Timeout of a request to the API server.
const LIMIT: Duration = Duration::from_secs(10);

/// Inputs of the publisher.
pub(crate) struct Publisher {
    pub(crate) client: Client,
    pub(crate) node: String,
    pub(crate) engine_state: Arc<EngineState>,
    pub(crate) routers: Informer<VirtualRouter>,
    pub(crate) vips: Informer<VirtualIP>,
    /// Holds this node's object only.
    pub(crate) networks: Informer<NodeNetwork>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) failed: watch::Receiver<FailedChecks>,
    pub(crate) desired: watch::Receiver<Option<Arc<Desired>>>,
    pub(crate) keys: watch::Receiver<Arc<Keys>>,
    /// Program that handles the packets of Services.
    pub(crate) proxy: watch::Receiver<ServiceProxy>,
    /// True if connections are forwarded to the nodes that have them.
    pub(crate) forwards: bool,
    /// Receives a change if this node may have to announce something else.
    pub(crate) changes: Arc<ChangeQueue>,
}

impl Publisher {
    /// Observes and publishes until `token` is cancelled. The engine listens on every interface that is reported.
    pub(crate) async fn run(&self, token: &CancellationToken) {
        let mut published: Option<Published> = None;
        let mut listening: Vec<String> = Vec::new();
        let backoff = backoff(&self.node);
        let (mut failures, mut not_before) = (0, Instant::now());
        let mut left_out = BTreeSet::new();
        let (mut carriers, mut ability) = (Carriers::default(), Ability::default());
        let mut look = crate::every(LOOK_EVERY);
        loop {
            tokio::select! {
                _ = look.tick() => {}
                () = token.cancelled() => return,
            }
            let now = Instant::now();
            let Some(mut spec) = self.observe(&mut carriers, now) else { continue };
            let shown = self.networks.get(&self.node);
            let shown = shown.as_ref().map(|network| &network.spec);
            let was_reported =
                shown.is_some_and(|shown| shown.capabilities.contains(&Capability::LoadSharing));
            let obstacle = self.follow_sharing(&mut ability, now);
            if ability.is_reported(obstacle.as_ref(), was_reported, now) {
                spec.capabilities.push(Capability::LoadSharing);
            }
            let names: Vec<String> = spec.interfaces.iter().map(|interface| interface.name.clone()).collect();
            if names != listening {
                tracing::info!(interfaces = ?names, "listening for VRRP routers");
                self.engine.listen(&names);
                listening = names;
            }
            let is_published = published.as_mut().is_some_and(|last| last.holds(shown, &spec, now));
            if is_published || now < not_before {
                continue;
            }
            let applied = tokio::select! {
                applied = call_within(LIMIT, self.publish(&spec)) => applied,
                () = token.cancelled() => return,
            };
            match applied {
                Ok(unknown) => {
                    if unknown != left_out && !unknown.is_empty() {
                        tracing::warn!(
                            fields = ?unknown,
                            "the definition of NodeNetworks is older than this agent, so the API server \
                             drops these fields of this node's report: this node may not announce addresses \
                             with source ranges until the definition is updated: kubectl apply -f \
                             manifests/crds"
                        );
                    }
                    left_out = unknown;
                    failures = 0;
                    published = Some(Published { spec, at: Instant::now(), was_shown: false });
                }
                Err(error) => {
                    if failures == 0 {
                        let remedy = strict::remedy(&error.to_string());
                        tracing::warn!(node = %self.node, "cannot publish this node's NodeNetwork; trying again: {error}{remedy}");
                    }
                    failures += 1;
                    not_before = Instant::now() + backoff.delay(failures);
                }
            }
        }
    }

    /// Publishes the state of sharing on this node to the other parts, and returns the obstacle.
    fn follow_sharing(&self, ability: &mut Ability, now: Instant) -> Option<Obstacle> {
        let status = self.engine.sharing_status();
        let forwarding = self.engine.forwarding_status();
        let kernel =
            || ability.of_kernel(|| self.engine.try_sharing().map_err(|error| error.to_string()), now);
        let window = || {
            let why =
                "connections whose lot moves would end: the agent runs with --forwarding-window-seconds=0";
            (!self.forwards).then(|| why.to_owned())
        };
        let unsupported = window().or_else(kernel).or(status.error.clone()).or(forwarding.error.clone());
        let unguarded = self.engine_state.unguarded();
        let obstacle = Obstacle::look(unguarded.all.as_deref(), *self.proxy.borrow(), unsupported);
        let desired = self.desired.borrow().clone();
        self.engine_state.set_sharing(SharingState {
            obstacle: obstacle.clone(),
            unshared: desired.map_or_else(Vec::new, |desired| desired.unshared.clone()),
            in_force: status.in_force.services.keys().map(|(address, _)| *address).collect(),
            silent: status.silent.clone(),
            returning: status.returning.clone(),
            unknown: status.unknown_peers.clone(),
            filtered: status.filtered.clone(),
            without_mark: status.without_mark.clone(),
        });
        obstacle
    }

    fn observe(&self, carriers: &mut Carriers, now: Instant) -> Option<NodeNetworkSpec> {
        let machine = match Engine::host_addresses() {
            Ok(machine) => machine,
            Err(error) => {
                tracing::warn!(%error, "cannot list the interfaces; the last list stays in force");
                return None;
            }
        };
        if self.engine_state.set_answered(addresses::answered(&machine)) {
            self.changes.add(Changed::all());
        }
        carriers.note(&machine.interfaces, now);
        let routers = self.routers.list();
        let candidates = routers.iter().flat_map(|router| {
            let addresses = router.spec.nodes.iter().flat_map(RankedNode::addresses);
            addresses.map(|address| (router.spec.vrid, address))
        });
        let foreign_routers = self.engine_state.foreign_routers(|foreign_routers| {
            foreign_routers.rank(candidates, now);
            foreign_routers.foreign(now)
        });
        let is_vip = |address| self.vips.get(&virtual_ip_name(address)).is_some();
        Some(NodeNetworkSpec {
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            capabilities: Capability::ALL.to_vec(),
            interfaces: network::interfaces(&machine.interfaces, carriers),
            primary_addresses: addresses::primary(&machine),
            further_addresses: addresses::further(&machine),
            foreign_routers,
            duplicates: self.engine_state.duplicates(now, is_vip),
            without_multicast: network::without_multicast(
                self.engine_state.without_multicast(),
                routers.iter().flat_map(|router| &router.spec.nodes),
            ),
            failed_checks: self.failed.borrow().sentences().chain(self.missing_keys()).collect(),
            vrrp_keys: self.keys.borrow().ids(),
            known_routers: self.known_routers(),
        })
    }

    /// Returns the routers of the state in force here, not of one that was only read.
    fn known_routers(&self) -> Vec<KnownRouter> {
        self.desired.borrow().as_ref().map(|desired| desired.known_routers.clone()).unwrap_or_default()
    }

    /// Returns a sentence for each missing key that keeps this node out of virtual routers.
    fn missing_keys(&self) -> impl Iterator<Item = String> + use<> {
        let missing = self.desired.borrow().as_ref().map(|desired| desired.missing_keys.clone());
        missing.into_iter().flatten().map(|id| {
            let why = format!(
                "this node does not have it and takes no part in the virtual routers that sign with it; add \
                 an entry {id} to Secret {SECRET}"
            );
            failures::of_key(id, &why)
        })
    }

    /// Creates or updates the object. It is owned by the Node and deleted with it. Returns the fields that an older definition does not
    /// know: a node without a report is no candidate, and a reader of a partial report relies on less of the agent.
    async fn publish(&self, spec: &NodeNetworkSpec) -> Result<BTreeSet<String>, Error> {
        let nodes: Api<Lenient<Node>> = Api::all(self.client.clone());
        let node = read(nodes.get(&self.node)).await?;
        let mut object = NodeNetwork::new(&self.node, spec.clone());
        object.metadata.owner_references = Some(vec![OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.node.clone(),
            uid: node.uid().unwrap_or_default(),
            ..OwnerReference::default()
        }]);
        let mut object = serde_json::to_value(&object).map_err(Error::SerdeError)?;
        let Err(error) = self.apply(&object).await else { return Ok(BTreeSet::new()) };
        let Some(fields) = object["spec"].as_object_mut() else { return Err(error) };
        let unknown = strict::unknown_fields(&error.to_string(), fields.keys());
        if unknown.is_empty() {
            return Err(error);
        }
        fields.retain(|field, _| !unknown.contains(field));
        self.apply(&object).await.map(|()| unknown)
    }

    /// Sends a server-side apply.
    async fn apply(&self, object: &Value) -> Result<(), Error> {
        let api: Api<Lenient<NodeNetwork>> = Api::all(self.client.clone());
        let params = PatchParams::apply(FIELD_MANAGER).force().validation_strict();
        api.patch(&self.node, &params, &Patch::Apply(object)).await.map(drop)
    }
}

/// Last published object.
struct Published {
    spec: NodeNetworkSpec,
    at: Instant,
    /// True if the API server has shown it since.
    was_shown: bool,
}

impl Published {
    /// Returns true if nothing is to be done for `spec` at `now`, where the API server shows `shown`: it shows `spec`, or did not have
    /// [`REPEAT_AFTER`] to do so. An object that it showed and shows no more was deleted, for example with the Node; without it the node is
    /// no candidate, so it is applied again immediately. (If another client writes something else, the publisher does wait, so that the two
    /// do not overwrite each other all the time.)
    fn holds(&mut self, shown: Option<&NodeNetworkSpec>, spec: &NodeNetworkSpec, now: Instant) -> bool {
        self.was_shown |= shown == Some(&self.spec);
        let is_deleted = self.was_shown && shown.is_none();
        let is_waited_for = !is_deleted && now.duration_since(self.at) < REPEAT_AFTER;
        self.spec == *spec && (shown == Some(spec) || is_waited_for)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_is_applied_anew_only_if_the_api_server_shows_something_else() {
        let spec = |version: &str| NodeNetworkSpec {
            agent_version: version.to_owned(),
            ..NodeNetworkSpec::default()
        };
        let (old, new) = (spec("1"), spec("2"));
        let start = Instant::now();
        let rows = [
            ("changed", &old, false, Some(&old), 1, false),
            ("the watch is behind", &new, false, Some(&old), 59, true),
            ("the watch is not there", &new, false, None, 59, true),
            ("the watch is not allowed", &new, false, None, 60, false),
            ("deleted", &new, true, None, 1, false),
            ("changed and deleted", &old, true, None, 1, false),
            ("somebody changes it again and again", &new, true, Some(&old), 59, true),
            ("somebody changed it", &new, true, Some(&old), 60, false),
            ("as it should be", &new, true, Some(&new), 86_400, true),
        ];
        for (what, published, was_shown, shown, seconds, expected) in rows {
            let mut published = Published { spec: published.clone(), at: start, was_shown };
            let now = start + Duration::from_secs(seconds);
            assert_eq!(published.holds(shown, &new, now), expected, "{what}");
        }
    }

    #[test]
    fn what_was_shown_once_and_is_deleted_is_applied_anew_at_once() {
        let spec = NodeNetworkSpec::default();
        let start = Instant::now();
        let mut published = Published { spec: spec.clone(), at: start, was_shown: false };
        let mut holds_after =
            |shown, seconds| published.holds(shown, &spec, start + Duration::from_secs(seconds));
        assert!(holds_after(None, 1), "the watch is behind");
        assert!(holds_after(Some(&spec), 2));
        assert!(!holds_after(None, 3), "deleted");
    }
}

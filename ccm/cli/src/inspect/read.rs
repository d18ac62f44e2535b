//! Reading the cluster: kinds beside each other, each on a thread of its own, as the text of 10,000 objects takes a while to be read.
//! A failure is reported and does not prevent the rest.
//!
//! Questions are answered from the API server's cache (`resourceVersion=0`): that is at most moments old, needs no etcd, and takes one call for a
//! kind, where pages of 10,000 objects take seconds. What is about to be changed is read in its latest version, in pages.

use std::fmt::Debug;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ListParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use windlass_api::ServiceRef;
use windlass_ccm::apiserver::{CallError, call_within};
use windlass_ccm::lenient::{Lenient, read_opt};
use windlass_ccm::slim;
use windlass_common::listing::first_of;

use super::details::{Details, KubeProxy};
use super::snapshot::{Cause, Listing, Missing, Snapshot};

/// Maximum number of objects of the latest version in one answer.
const PAGE: u32 = 500;
/// Calls under way at a time.
const PARALLEL: usize = 4;
/// Label of Windlass' own pods.
const OWN: &str = "app.kubernetes.io/name=windlass";
/// Namespace of other cloud controller managers' leases, and of kube-proxy.
pub(super) const SYSTEM: &str = "kube-system";
/// Windlass' own namespace.
pub(super) const OWN_NAMESPACE: &str = "windlass-system";

/// A kind that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Services,
    Vips,
    Pools,
    Routers,
    Announcements,
    Networks,
    Nodes,
    /// Windlass' own.
    Pods,
    Leases,
}

impl Kind {
    /// All of them.
    pub(super) const ALL: &[Self] = &[
        Self::Services,
        Self::Vips,
        Self::Pools,
        Self::Routers,
        Self::Announcements,
        Self::Networks,
        Self::Nodes,
        Self::Pods,
        Self::Leases,
    ];
}

/// Reads.
pub(super) struct Reader {
    server: String,
    namespace: String,
    lists: Lists,
}

/// Reads lists.
#[derive(Clone)]
struct Lists {
    client: Client,
    limit: Duration,
    calls: Arc<Semaphore>,
}

impl Reader {
    /// No call is made yet. `limit`: how long each may take.
    pub(super) fn new(client: Client, server: String, namespace: String, limit: Duration) -> Self {
        let lists = Lists { client, limit, calls: Arc::new(Semaphore::new(PARALLEL)) };
        Self { server, namespace, lists }
    }

    /// For what is more than reading.
    pub(super) fn client(&self) -> Client {
        self.lists.client.clone()
    }

    /// Returns the time limit of a call.
    pub(super) fn limit(&self) -> Duration {
        self.lists.limit
    }

    /// Returns the namespace of the context.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// These kinds, as the API server has them in its cache, as far as they can be read.
    pub(super) async fn read(&self, now: Timestamp, wanted: &[Kind]) -> Snapshot {
        self.read_as(now, wanted, || ListParams::default().at("0")).await
    }

    /// The same in their latest version.
    pub(super) async fn read_latest(&self, now: Timestamp, wanted: &[Kind]) -> Snapshot {
        self.read_as(now, wanted, ListParams::default).await
    }

    async fn read_as(&self, now: Timestamp, wanted: &[Kind], all: fn() -> ListParams) -> Snapshot {
        let own_pods = all().labels(OWN);
        let (services, vips, pools, routers, announcements, networks, nodes, pods, leases) = tokio::join!(
            if_wanted(wanted, Kind::Services, || self.lists().all(all(), slim::service)),
            if_wanted(wanted, Kind::Vips, || self.lists().all(all(), unmanaged)),
            if_wanted(wanted, Kind::Pools, || self.lists().all(all(), unmanaged)),
            if_wanted(wanted, Kind::Routers, || self.lists().all(all(), unmanaged)),
            if_wanted(wanted, Kind::Announcements, || self.lists().all(all(), unmanaged)),
            if_wanted(wanted, Kind::Networks, || self.lists().all(all(), unmanaged)),
            if_wanted(wanted, Kind::Nodes, || self.lists().all(all(), slim::node)),
            if_wanted(wanted, Kind::Pods, || self.lists().all(own_pods, unmanaged)),
            if_wanted(wanted, Kind::Leases, || self.lists().leases(all())),
        );
        let server = self.server.clone();
        Snapshot {
            server,
            now,
            services,
            vips,
            pools,
            routers,
            announcements,
            networks,
            nodes,
            pods,
            leases,
            own: None,
        }
    }

    fn lists(&self) -> Lists {
        self.lists.clone()
    }

    /// Reads the objects that only an explanation of these Services needs. Objects that cannot be read are left out.
    pub(super) async fn details(&self, services: &[ServiceRef]) -> Details {
        let mut details = Details { kube_proxy: self.kube_proxy().await, ..Details::default() };
        for service in services {
            let ServiceRef { namespace, name, uid } = service;
            let namespaces: Api<Lenient<Namespace>> = Api::all(self.lists.client.clone());
            details.namespaces.extend(self.optional(namespaces.get_opt(namespace)).await);
            let about = format!("involvedObject.kind=Service,involvedObject.name={name}");
            let events = Api::namespaced(self.lists.client.clone(), namespace);
            let events: Listing<Event> =
                self.lists.of(events, ListParams::default().fields(&about), unmanaged).await;
            let of_this = |event: &Event| event.involved_object.uid.as_ref().is_none_or(|its| its == uid);
            details.events.extend(events.objects.into_iter().filter(of_this));
            let slices = Api::namespaced(self.lists.client.clone(), namespace);
            let label = format!("kubernetes.io/service-name={name}");
            let slices: Listing<EndpointSlice> =
                self.lists.of(slices, ListParams::default().labels(&label), unmanaged).await;
            details.endpoint_slices.extend(slices.objects);
        }
        details
    }

    /// Reads kube-proxy's settings.
    pub(super) async fn kube_proxy(&self) -> Option<KubeProxy> {
        let map: Api<Lenient<ConfigMap>> = Api::namespaced(self.client(), SYSTEM);
        KubeProxy::of(&self.optional(map.get_opt("kube-proxy")).await?)
    }

    pub(super) async fn optional<K>(
        &self,
        request: impl Future<Output = Result<Option<Lenient<K>>, kube::Error>>,
    ) -> Option<K> {
        call_within(self.lists.limit, read_opt(request)).await.ok().flatten()
    }
}

impl Lists {
    /// Leases are many, one for each node: only those of two namespaces are asked for.
    async fn leases(self, params: ListParams) -> Listing<Lease> {
        let of = |namespace| Api::namespaced(self.client.clone(), namespace);
        let (mut all, own) = tokio::join!(
            self.of(of(SYSTEM), params.clone(), unmanaged),
            self.of(of(OWN_NAMESPACE), params.clone(), unmanaged),
        );
        all.objects.extend(own.objects);
        all.missing = all.missing.or(own.missing);
        all
    }

    /// Lists all objects of a kind, of which `slimmed` drops the unused parts.
    async fn all<K>(self, params: ListParams, slimmed: fn(&mut K)) -> Listing<K>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        self.of(Api::all(self.client.clone()), params, slimmed).await
    }

    /// All that this has, in pages unless the cache is asked, which knows no pages.
    async fn of<K>(&self, api: Api<Lenient<K>>, params: ListParams, slimmed: fn(&mut K)) -> Listing<K>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let mut listing = Listing::default();
        let mut unreadable = Vec::new();
        let (mut token, mut pages) = (None::<String>, params.resource_version.is_none().then_some(PAGE));
        loop {
            let Ok(_permit) = self.calls.acquire().await else { return listing };
            let page = ListParams { limit: pages, continue_token: token.clone(), ..params.clone() };
            let page = match call_within(self.limit, api.list(&page)).await {
                Ok(page) => page,
                // The pages that were begun are too old by now: all of it at once.
                Err(error) if error.code() == Some(410) && pages.is_some() => {
                    (token, pages) = (None, None);
                    listing.objects.clear();
                    unreadable.clear();
                    continue;
                }
                Err(error) => {
                    listing.missing = Some(missing(&plural::<K>(), &error));
                    return listing;
                }
            };
            for object in page.items {
                match object.read() {
                    Ok(mut object) => {
                        slimmed(&mut object);
                        listing.objects.push(object);
                    }
                    Err(one) => unreadable.push((one.metadata.name.unwrap_or_default(), one.reason)),
                }
            }
            token = page.metadata.continue_.filter(|token| !token.is_empty());
            if token.is_none() {
                break;
            }
        }
        if let Some((_, reason)) = unreadable.first() {
            let kind = plural::<K>();
            let names = first_of(unreadable.iter().map(|(name, _)| name), 3);
            listing.missing = Some(Missing {
                message: format!("{} {kind} cannot be read: {names}: {reason}", unreadable.len()),
                kind,
                cause: Cause::Unreadable,
                remedy: "use a windlass of the version that runs in the cluster, or correct the objects"
                    .to_owned(),
            });
        }
        listing
    }
}

/// Reads a kind if it is wanted, in a task of its own, so that several kinds are read on several threads.
async fn if_wanted<K, F>(wanted: &[Kind], kind: Kind, listing: impl FnOnce() -> F) -> Listing<K>
where
    K: Send + 'static,
    F: Future<Output = Listing<K>> + Send + 'static,
{
    if !wanted.contains(&kind) {
        return Listing::default();
    }
    match tokio::spawn(listing()).await {
        Ok(listing) => listing,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        // Only the end of the process takes a task away.
        Err(_) => Listing::default(),
    }
}

/// Drops what only the API server needs.
fn unmanaged<K: Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
}

fn plural<K: Resource<DynamicType = ()>>() -> String {
    format!("{}s", K::kind(&()))
}

/// Describes a list that cannot be read, with cause and remedy.
pub(super) fn missing(kind: &str, error: &CallError) -> Missing {
    let (cause, remedy) = match error.code() {
        Some(404) => (
            Cause::NotInstalled,
            "install Windlass' definitions (kubectl apply -f manifests/crds), or name another cluster (--context)",
        ),
        Some(401 | 403) => (
            Cause::Forbidden,
            "use credentials that may list them, as those of a cluster admin (--kubeconfig, --context)",
        ),
        None => (
            Cause::Unreachable,
            "check that the API server runs and that this host reaches it, or name another (--kubeconfig, --context); the agents \
             continue to announce addresses without it",
        ),
        Some(_) => (Cause::Failed, "read the log of the API server"),
    };
    Missing {
        kind: kind.to_owned(),
        cause,
        message: format!("{kind} cannot be listed: {error}"),
        remedy: remedy.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn what_kept_a_kind_from_being_read_is_told_with_what_helps() {
        let answered = |code| {
            let status = Status { code, message: "its own words".to_owned(), ..Status::default() };
            CallError::Kube(kube::Error::Api(Box::new(status)))
        };
        let rows = [
            (answered(404), Cause::NotInstalled, "manifests/crds"),
            (answered(403), Cause::Forbidden, "--context"),
            (answered(401), Cause::Forbidden, "--kubeconfig"),
            (answered(500), Cause::Failed, "log"),
            (CallError::Timeout(Duration::from_secs(10)), Cause::Unreachable, "without it"),
        ];
        for (error, cause, remedy) in rows {
            let missing = missing("Services", &error);
            assert_eq!(missing.cause, cause, "{error}");
            assert!(missing.remedy.contains(remedy), "{}", missing.remedy);
            assert!(missing.message.starts_with("Services cannot be listed: "), "{}", missing.message);
        }
    }
}

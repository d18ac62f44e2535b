//! Timeline of the objects in the API server while a client asked. Beside the client's outages it shows which component knew
//! what by then.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::TryStreamExt as _;
use k8s_openapi::{api::discovery::v1::EndpointSlice, jiff::Timestamp};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use windlass_api::{NodeNetwork, VirtualRouter};

use crate::lab::Lab;

/// Until a watch is begun again.
const AGAIN: Duration = Duration::from_millis(50);

/// Endpoints, rankings, owners and failed checks as they change. Dropping it ends it.
#[derive(Debug)]
pub struct Timeline {
    entries: Arc<Mutex<Entries>>,
    _watches: JoinSet<()>,
}

#[derive(Debug)]
struct Entries {
    begin: Instant,
    text: String,
    /// Last content of each object.
    last: BTreeMap<String, String>,
}

impl Entries {
    fn note(&mut self, object: &str, shows: String) {
        if self.last.get(object) != Some(&shows) {
            let at = self.begin.elapsed().as_secs_f64();
            let _ = writeln!(self.text, "{at:8.3} {object}: {shows}");
            self.last.insert(object.to_owned(), shows);
        }
    }
}

impl Lab {
    /// Starts to record. The present state is recorded first.
    pub fn timeline(&self) -> Timeline {
        let text = format!("seconds since {:.3}, object: what it showed\n", Timestamp::now());
        let entries = Entries { begin: Instant::now(), text, last: BTreeMap::new() };
        let entries = Arc::new(Mutex::new(entries));
        let mut watches = JoinSet::new();
        watches.spawn(follow(Api::default_namespaced(self.client()), Arc::clone(&entries), endpoints));
        watches.spawn(follow(Api::all(self.client()), Arc::clone(&entries), ranking));
        watches.spawn(follow(Api::all(self.client()), Arc::clone(&entries), failed_checks));
        Timeline { entries, _watches: watches }
    }
}

impl Timeline {
    /// Returns all records so far, with the seconds since the beginning.
    pub fn text(&self) -> String {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).text.clone()
    }
}

/// Records what `shows` returns of each object, until it is aborted. A watch that breaks is restarted.
async fn follow<K>(api: Api<K>, entries: Arc<Mutex<Entries>>, shows: fn(&K) -> String)
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let note =
        |object: &str, shown| entries.lock().unwrap_or_else(PoisonError::into_inner).note(object, shown);
    let kind = K::kind(&());
    loop {
        let ended = async {
            let list = api.list(&ListParams::default()).await?;
            for object in &list {
                note(&format!("{kind} {}", object.name_any()), shows(object));
            }
            let from = list.metadata.resource_version.unwrap_or_default();
            let mut events = std::pin::pin!(api.watch(&WatchParams::default(), &from).await?);
            while let Some(event) = events.try_next().await? {
                match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        note(&format!("{kind} {}", object.name_any()), shows(&object));
                    }
                    WatchEvent::Deleted(object) => {
                        note(&format!("{kind} {}", object.name_any()), "deleted".into());
                    }
                    WatchEvent::Bookmark(_) => {}
                    WatchEvent::Error(status) => return Err(kube::Error::Api(status.boxed())),
                }
            }
            Ok(())
        };
        if let Err(error) = ended.await {
            note(&kind, format!("cannot be watched: {error}"));
        }
        tokio::time::sleep(AGAIN).await;
    }
}

fn endpoints(slice: &EndpointSlice) -> String {
    let endpoints = slice.endpoints.iter().flatten().map(|endpoint| {
        let node = endpoint.node_name.as_deref().unwrap_or("nowhere");
        let conditions = endpoint.conditions.as_ref();
        let names = [
            (conditions.and_then(|are| are.ready), "ready"),
            (conditions.and_then(|are| are.serving), "serving"),
            (conditions.and_then(|are| are.terminating), "terminating"),
        ];
        let are: Vec<_> =
            names.iter().filter_map(|(is, name)| (*is == Some(true)).then_some(*name)).collect();
        format!("{node} {}", are.join("+"))
    });
    endpoints.collect::<Vec<_>>().join(", ")
}

fn ranking(router: &VirtualRouter) -> String {
    let nodes = router.spec.nodes.iter().map(|node| format!("{} {}", node.name, node.priority));
    let active = router.status.as_ref().and_then(|status| status.active_node.as_deref());
    format!("{}; Active: {}", nodes.collect::<Vec<_>>().join(", "), active.unwrap_or("nobody"))
}

fn failed_checks(node: &NodeNetwork) -> String {
    format!("failed checks: {:?}", node.spec.failed_checks)
}

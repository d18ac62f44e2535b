//! Keeping a copy of the cluster's objects.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use futures::StreamExt as _;
use kube::api::Api;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use super::backoff::Backoff;

/// The server ends a watch after this many seconds and it is taken up again where it ended. A connection that died
/// without a word is found 5 s later.
const WATCH_SECONDS: u32 = 50;

/// Copies all objects of a kind, from now to the end of the process, and calls `changed` after each change that a reader
/// of the copy can see. While the API server is away the copy stays as it was.
pub(crate) fn follow<K>(client: &Client, node: &str, changed: &Arc<Notify>) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Hash + Eq,
{
    follow_some(client, node, watcher::Config::default(), changed)
}

/// As [`follow`], but only the object that has the node's name.
pub(crate) fn follow_own<K>(client: &Client, node: &str) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Hash + Eq,
{
    let own = watcher::Config::default().fields(&format!("metadata.name={node}"));
    follow_some(client, node, own, &Arc::default())
}

fn follow_some<K>(client: &Client, node: &str, which: watcher::Config, changed: &Arc<Notify>) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Hash + Eq,
{
    let (store, writer) = reflector::store();
    let kind = K::plural(&());
    let events = watch(Api::all(client.clone()), which.timeout(WATCH_SECONDS))
        // Most of an object's size, and nobody here reads it.
        .modify(|object: &mut K| object.meta_mut().managed_fields = None)
        .backoff(Backoff::new(node));
    let mut events = Box::pin(reflector::reflector(writer, events));
    let changed = Arc::clone(changed);
    tokio::spawn(async move {
        let mut away = false;
        while let Some(event) = events.next().await {
            match event {
                // Parts of a list: readers see it when it is whole.
                Ok(Event::Init | Event::InitApply(_)) => {}
                Ok(Event::InitDone | Event::Apply(_) | Event::Delete(_)) => {
                    if std::mem::take(&mut away) {
                        tracing::info!(%kind, "the API server answers again");
                    }
                    changed.notify_one();
                }
                Err(error) => {
                    if !std::mem::replace(&mut away, true) {
                        let error = reason(&error);
                        tracing::warn!(%kind, error, "cannot watch; what is known stays in force, trying again");
                    }
                }
            }
        }
    });
    store
}

fn reason(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => windlass_ccm::app::root_cause(error),
        watcher::Error::WatchError(status) => format!("{} ({})", status.message, status.code),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

//! Copies of the cluster's objects, kept up to date.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use windlass_ccm::watch::{self, Error, Event};

use super::backoff::backoff;

#[cfg(test)]
mod tests;

/// Mean time, in seconds, after which the API server ends a watch and the agent opens it again: with three watches of each agent this is
/// the request rate of a cluster's agents at rest. It need not be short: the client's keep-alive detects a dead connection within 15 s, and
/// missing bookmarks reveal an API server that stops sending.
const WATCH_SECONDS: u32 = 900;

/// Change that a copy shows.
pub(crate) enum Shown<'a, K> {
    /// A list: each object may have changed, and others may be gone.
    List,
    /// An object that was created or changed.
    Object(&'a K),
    /// An object that is gone, in its last version.
    Gone(&'a K),
}

/// Returns a copy of all objects of a kind, and the future that maintains it until the end of the process. It calls `tell` for each change
/// once a reader of the copy can see it. While the API server is unavailable the copy stays as it was.
pub(crate) fn follow<K>(
    client: &Client,
    node: &str,
    tell: impl Fn(Shown<'_, K>) + Send + 'static,
) -> (Store<K>, BoxFuture<'static, ()>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Hash + Eq,
{
    follow_some(client, node, None, tell)
}

/// As [`follow`], but only the object that has the node's name.
pub(crate) fn follow_own<K>(client: &Client, node: &str) -> (Store<K>, BoxFuture<'static, ()>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Hash + Eq,
{
    follow_some(client, node, Some(node.to_owned()), |_| ())
}

fn follow_some<K>(
    client: &Client,
    node: &str,
    name: Option<String>,
    tell: impl Fn(Shown<'_, K>) + Send + 'static,
) -> (Store<K>, BoxFuture<'static, ()>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Hash + Eq,
{
    let (store, mut writer) = reflector::store();
    let kind = K::plural(&());
    let backoff = backoff(node);
    // Differs between nodes, so that the agents of a cluster do not all come back in the same instant.
    let seconds = WATCH_SECONDS * backoff.percent / 100;
    let options = watch::WatchOptions { name, seconds, backoff, ..watch::WatchOptions::default() };
    let mut events = watch::watch::<K>(client, options);
    let known = store.clone();
    let keep = async move {
        let mut away = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    // Parts of a list: readers see it when it is whole.
                    let Some(event) = stored(event, &known) else { continue };
                    writer.apply_watcher_event(&event);
                    let shown = match &event {
                        watcher::Event::InitDone => Shown::List,
                        watcher::Event::Apply(object) => Shown::Object(object),
                        watcher::Event::Delete(object) => Shown::Gone(object),
                        watcher::Event::Init | watcher::Event::InitApply(_) => continue,
                    };
                    if std::mem::take(&mut away) {
                        tracing::info!(%kind, "the API server answers again");
                    }
                    tell(shown);
                }
                Err(error @ Error::Unreadable(_)) => tracing::warn!(%kind, "{error}"),
                Err(error) => {
                    if !std::mem::replace(&mut away, true) {
                        tracing::warn!(%kind, %error, "cannot watch; what is known stays in force, trying again");
                    }
                }
            }
        }
    };
    (store, keep.boxed())
}

/// Converts an event for the copy: an object that cannot be read keeps its previous version.
fn stored<K>(event: Event<K>, known: &Store<K>) -> Option<watcher::Event<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    // Managed fields are most of an object's size, and unused here.
    let slim = |mut object: K| {
        object.meta_mut().managed_fields = None;
        object
    };
    Some(match event {
        Event::Init => watcher::Event::Init,
        Event::InitApply(object) => watcher::Event::InitApply(slim(object)),
        Event::InitUnreadable(metadata) => {
            let mut key = ObjectRef::<K>::new(metadata.name.as_deref().unwrap_or_default());
            key.namespace = metadata.namespace;
            let object = known.get(&key).filter(|object| object.meta().uid == metadata.uid)?;
            watcher::Event::InitApply(Arc::unwrap_or_clone(object))
        }
        Event::InitDone => watcher::Event::InitDone,
        Event::Apply(object) => watcher::Event::Apply(slim(object)),
        Event::Delete(object) => watcher::Event::Delete(slim(object)),
    })
}

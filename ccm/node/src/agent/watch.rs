//! Copies of the cluster's objects, kept up to date.

use std::fmt::Debug;
use std::sync::Arc;

use futures::StreamExt as _;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use windlass_ccm::watch::{self, Error, Event, WatchOptions};

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

/// Returns a copy of all objects of a kind, and the watch that maintains it. It calls `tell` for each change once a reader of the copy can
/// see it. While the API server is unavailable the copy stays as it was.
pub(crate) fn follow<K: Followed>(
    client: &Client,
    node: &str,
    tell: impl Fn(Shown<'_, K>) + Send + 'static,
) -> (Store<K>, Follow<K>) {
    Follow::new(client, node, None, Box::new(tell))
}

/// As [`follow`], but only the object that has the node's name.
pub(crate) fn follow_own<K: Followed>(client: &Client, node: &str) -> (Store<K>, Follow<K>) {
    Follow::new(client, node, Some(node.to_owned()), Box::new(|_| ()))
}

/// Kinds that can be followed.
pub(crate) trait Followed:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Followed for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// Function that is called for each change.
type Tell<K> = Box<dyn Fn(Shown<'_, K>) + Send>;

/// Watch that maintains a copy.
pub(crate) struct Follow<K: Followed> {
    client: Client,
    options: WatchOptions,
    writer: Writer<K>,
    known: Store<K>,
    tell: Tell<K>,
}

impl<K: Followed> Follow<K> {
    fn new(client: &Client, node: &str, name: Option<String>, tell: Tell<K>) -> (Store<K>, Self) {
        let (known, writer) = reflector::store();
        let backoff = backoff(node);
        // Differs between nodes, so that the agents of a cluster do not all come back in the same instant.
        let seconds = WATCH_SECONDS * backoff.percent / 100;
        let options = WatchOptions { name, seconds, backoff, ..WatchOptions::default() };
        (known.clone(), Self { client: client.clone(), options, writer, known, tell })
    }

    /// Watches until the end of the process. Begins with a list, after which the copy is whole again.
    pub(crate) async fn run(&mut self) {
        let kind = K::plural(&());
        let mut events = watch::watch::<K>(&self.client, self.options.clone());
        let mut away = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    // Parts of a list: readers see it when it is whole.
                    let Some(event) = stored(event, &self.known) else { continue };
                    self.writer.apply_watcher_event(&event);
                    let shown = match &event {
                        watcher::Event::InitDone => Shown::List,
                        watcher::Event::Apply(object) => Shown::Object(object),
                        watcher::Event::Delete(object) => Shown::Gone(object),
                        watcher::Event::Init | watcher::Event::InitApply(_) => continue,
                    };
                    if std::mem::take(&mut away) {
                        tracing::info!(%kind, "the API server answers again");
                    }
                    (self.tell)(shown);
                }
                Err(error @ Error::Unreadable(_)) => tracing::warn!(%kind, "{error}"),
                Err(error) => {
                    if !std::mem::replace(&mut away, true) {
                        tracing::warn!(%kind, %error, "cannot watch; what is known stays in force, trying again");
                    }
                }
            }
        }
    }
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

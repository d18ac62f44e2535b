//! Copies of the cluster's objects, kept up to date.

use std::fmt::Debug;

use futures::StreamExt as _;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use windlass_ccm::store::Informer;
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
) -> (Informer<K>, Follow<K>) {
    Follow::new(client, node, None, Box::new(tell))
}

/// As [`follow`], but only the object that has the node's name.
pub(crate) fn follow_own<K: Followed>(client: &Client, node: &str) -> (Informer<K>, Follow<K>) {
    Follow::new(client, node, Some(node.to_owned()), Box::new(|_| ()))
}

/// Kinds that can be followed.
pub(crate) trait Followed:
    Resource<DynamicType = ()> + PartialEq + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Followed for K where
    K: Resource<DynamicType = ()> + PartialEq + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// Function that is called for each change.
type Tell<K> = Box<dyn Fn(Shown<'_, K>) + Send>;

/// Watch that maintains a copy.
pub(crate) struct Follow<K: Followed> {
    client: Client,
    options: WatchOptions,
    known: Informer<K>,
    tell: Tell<K>,
}

impl<K: Followed> Follow<K> {
    fn new(client: &Client, node: &str, name: Option<String>, tell: Tell<K>) -> (Informer<K>, Self) {
        let known = Informer::default();
        let backoff = backoff(node);
        // Differs between nodes, so that the agents of a cluster do not all come back in the same instant.
        let seconds = WATCH_SECONDS * backoff.percent / 100;
        let options = WatchOptions { name, seconds, backoff, ..WatchOptions::default() };
        (known.clone(), Self { client: client.clone(), options, known, tell })
    }

    /// Watches until the end of the process. Begins with a list, after which the copy is whole again.
    pub(crate) async fn run(&mut self) {
        let kind = K::plural(&());
        let mut events = watch::watch::<K>(&self.client, self.options.clone());
        let mut away = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let gone = if let Event::Delete(object) = &event { Some(object.clone()) } else { None };
                    let is_list = matches!(event, Event::InitDone);
                    let changes = self.known.handle(event);
                    let new = changes.into_iter().next().and_then(|change| change.new);
                    let shown = match (is_list, &gone, new.as_deref()) {
                        (true, _, _) => Shown::List,
                        (false, Some(object), _) => Shown::Gone(object),
                        (false, None, Some(object)) => Shown::Object(object),
                        // Parts of a list: readers see it when it is whole.
                        (false, None, None) => continue,
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

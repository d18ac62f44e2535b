//! The informers of a process, each with the one watch that feeds it.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::StreamExt as _;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::Informer;
use crate::slim;
use crate::watch::{self, watch};

/// Objects in one answer to a list. Users write these kinds, 256 KiB of annotations if they like: few are in memory as they came.
const PAGE: u32 = 20;

/// One informer per kind, as client-go's `SharedInformerFactory`: all callers that request a kind get the same. The kind is watched from
/// the first request on.
#[derive(Clone)]
pub struct Informers(Arc<Inner>);

struct Inner {
    client: Client,
    started: Mutex<HashMap<TypeId, Box<dyn Any + Send>>>,
    /// Watches that are to run; never more than there are kinds.
    new: Mutex<Vec<BoxFuture<'static, watch::Error>>>,
    added: Notify,
}

/// A watch ended, so that what it feeds would stand still.
#[derive(Debug, thiserror::Error)]
pub enum WatchEnded {
    /// The state that was shown no longer exists ([`watch::Error::Restored`]): a component that acted on it has to restart.
    #[error("a watch ended")]
    Undone(#[source] watch::Error),
    /// It panicked.
    #[error("a watch ended")]
    Panicked(#[source] tokio::task::JoinError),
}

impl Debug for Informers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let started = self.0.started.lock().unwrap_or_else(PoisonError::into_inner).len();
        f.debug_struct("Informers").field("started", &started).finish_non_exhaustive()
    }
}

impl Informers {
    /// The informers, and what runs their watches: it ends only if one of them does, and stops them all when it is dropped.
    pub fn new(client: Client) -> (Self, impl Future<Output = WatchEnded> + Send + 'static) {
        let inner = Inner { client, started: Mutex::default(), new: Mutex::default(), added: Notify::new() };
        let informers = Self(Arc::new(inner));
        let inner = Arc::clone(&informers.0);
        let run = async move {
            let mut running = JoinSet::new();
            loop {
                for watch in std::mem::take(&mut *inner.new.lock().unwrap_or_else(PoisonError::into_inner)) {
                    running.spawn(watch);
                }
                tokio::select! {
                    () = inner.added.notified() => {}
                    Some(ended) = running.join_next() => {
                        return ended.map_or_else(WatchEnded::Panicked, WatchEnded::Undone);
                    }
                }
            }
        };
        (informers, run)
    }

    /// All Services, without what nobody reads ([`slim::service`]).
    pub fn services(&self) -> Informer<Service> {
        self.with(slim::service)
    }

    /// All Nodes, without what nobody reads ([`slim::node`]).
    pub fn nodes(&self) -> Informer<Node> {
        self.with(slim::node)
    }

    /// Returns the informer of all objects of a kind. `slim` drops unused parts of the stored objects; the one of the first request counts.
    pub fn with<K>(&self, slim: fn(&mut K)) -> Informer<K>
    where
        K: Resource<DynamicType = ()> + PartialEq + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let mut started = self.0.started.lock().unwrap_or_else(PoisonError::into_inner);
        let known = started.get(&TypeId::of::<K>()).and_then(|one| one.downcast_ref::<Informer<K>>());
        if let Some(informer) = known {
            return informer.clone();
        }
        let informer = Informer::new(slim);
        started.insert(TypeId::of::<K>(), Box::new(informer.clone()));
        let watch = feed(self.0.client.clone(), informer.clone()).boxed();
        self.0.new.lock().unwrap_or_else(PoisonError::into_inner).push(watch);
        self.0.added.notify_one();
        informer
    }
}

/// Does work that has informers, and runs their watches beside it.
///
/// # Errors
/// A watch ended before the work did.
pub async fn with_informers<T, W: Future<Output = T>>(
    client: Client,
    work: impl FnOnce(Informers) -> W,
) -> Result<T, WatchEnded> {
    let (informers, watches) = Informers::new(client);
    tokio::select! {
        done = work(informers) => Ok(done),
        ended = watches => Err(ended),
    }
}

/// Keeps an informer in step with the API server, until the API server's state has become an older one. A failure is logged once until it
/// is over.
async fn feed<K>(client: Client, informer: Informer<K>) -> watch::Error
where
    K: Resource<DynamicType = ()> + PartialEq + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let kind = K::kind(&());
    let mut events =
        watch::<K>(&client, watch::WatchOptions { page: PAGE, ..watch::WatchOptions::default() });
    let mut reported = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                reported = false;
                drop(informer.handle(event));
                informer.has_room().await;
            }
            Err(error @ watch::Error::Restored { .. }) => return error,
            Err(error) if !std::mem::replace(&mut reported, true) => {
                tracing::warn!(%kind, %error, "watch interrupted, trying again");
            }
            Err(error) => tracing::debug!(%kind, %error, "watch interrupted, trying again"),
        }
    }
    // (A watch has no end.)
    watch::Error::EndedAtOnce
}

//! Watches of one kind in the whole cluster.

use std::fmt::Debug;

use futures::stream::{BoxStream, StreamExt as _};
use kube::api::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

/// A watch that never ends: it comes back with a growing delay after errors.
pub(crate) fn watch<K>(client: &Client) -> BoxStream<'static, Result<watcher::Event<K>, watcher::Error>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watcher(Api::<K>::all(client.clone()), watcher::Config::default()).default_backoff().boxed()
}

//! Watches, one task per kind, that keep the shared state as the API server has it.

use std::fmt::Debug;
use std::sync::Arc;

use futures::{StreamExt as _, pin_mut};
use kube::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::state::{Shared, Watched, slim};

/// Watches one kind until `token` is cancelled. A watch that breaks is taken up again with back-off; what is known
/// stays known meanwhile.
pub(crate) async fn watch<K>(api: Api<K>, shared: Arc<Shared>, token: CancellationToken)
where
    K: Watched + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K: kube::Resource<DynamicType = ()>,
{
    let kind = K::kind(&());
    let events = watcher(api, watcher::Config::default()).default_backoff();
    pin_mut!(events);
    let mut complained = false;
    loop {
        let event = tokio::select! {
            () = token.cancelled() => return,
            event = events.next() => event,
        };
        match event {
            Some(Ok(event)) => {
                complained = false;
                take(&shared, event);
            }
            Some(Err(error)) => {
                if !std::mem::replace(&mut complained, true) {
                    tracing::warn!(%kind, %error, "watch interrupted; trying again");
                }
            }
            None => return,
        }
    }
}

fn take<K: Watched>(shared: &Shared, event: watcher::Event<K>) {
    match event {
        watcher::Event::Apply(object) => shared.learn(object),
        watcher::Event::Delete(object) => shared.forget(&object),
        watcher::Event::Init => shared.take_in::<K>(|world| {
            K::cache(world).list_begins();
            Vec::new()
        }),
        watcher::Event::InitApply(object) => shared.take_in::<K>(|world| {
            K::cache(world).list_item(Arc::new(slim(object)));
            Vec::new()
        }),
        watcher::Event::InitDone => shared.take_in::<K>(|world| K::cache(world).list_ends()),
    }
}

//! Watches, one task per kind, that keep the shared state as the API server has it.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::Client;
use kube::api::{Api, ListParams};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use windlass_ccm::lenient::Lenient;
use windlass_ccm::store::Changes;
use windlass_ccm::watch::{self, Event};

use crate::state::shared::SharedState;
use crate::state::watched_kinds::WatchedKind;

/// Maximum wait for the first list of a kind that the API server may not have.
const LIMIT: Duration = Duration::from_secs(5);

/// Watches one kind until `token` is cancelled. A watch that breaks is taken up again with back-off; what is known
/// stays known meanwhile.
///
/// # Errors
/// [`watch::Error::Restored`]: the state holds what has become undone, and with it what was decided by that.
pub(crate) async fn watch<K>(
    client: Client,
    shared: Arc<SharedState>,
    token: CancellationToken,
) -> Result<(), watch::Error>
where
    K: WatchedKind + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K: kube::Resource<DynamicType = ()>,
{
    let kind = K::kind(&());
    let mut events = watch::watch::<K>(&client, watch::WatchOptions::default());
    let mut complained = false;
    loop {
        let event = tokio::select! {
            () = token.cancelled() => return Ok(()),
            event = events.next() => event,
        };
        match event {
            Some(Ok(event)) => {
                complained = false;
                shared.handle(event);
            }
            Some(Err(error @ watch::Error::Restored { .. })) => return Err(error),
            Some(Err(error)) => {
                if !std::mem::replace(&mut complained, true) {
                    tracing::warn!(%kind, %error, "watch interrupted; trying again");
                }
            }
            None => return Ok(()),
        }
    }
}

/// Updates the state with the changes of a kind that the controllers of `windlass-ccm` watch, too.
pub(crate) async fn follow<K: WatchedKind>(mut changes: Changes<K>, shared: Arc<SharedState>) {
    loop {
        shared.changed(&changes.next().await);
    }
}

/// Watches a kind that an API server may not have. Does nothing more if it has not; else returns when its objects are known,
/// or cannot be had for now.
pub(crate) async fn watch_if_there<K>(
    client: &Client,
    shared: &Arc<SharedState>,
    tasks: &mut JoinSet<Result<(), watch::Error>>,
    token: &CancellationToken,
) where
    K: WatchedKind + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K: kube::Resource<DynamicType = ()>,
{
    let api = Api::<Lenient<K>>::all(client.clone());
    match timeout(LIMIT, api.list(&ListParams::default())).await {
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
            tracing::debug!(kind = %K::kind(&()), "the API server has no such kind");
            return;
        }
        Ok(Ok(list)) => {
            shared.handle(Event::<K>::Init);
            let objects = list.items.into_iter().filter_map(|object| object.read().ok());
            objects.for_each(|object| shared.handle(Event::InitApply(object)));
            shared.handle(Event::<K>::InitDone);
        }
        // The watch goes on trying, and says why.
        Ok(Err(_)) | Err(_) => {}
    }
    tasks.spawn(watch::<K>(client.clone(), Arc::clone(shared), token.clone()));
}

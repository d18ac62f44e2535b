//! Token and access reviews by the API server: few at a time, and never for long.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::AuthError;
use crate::apiserver::describe;

/// Reviews under way at most: a caller that floods this endpoint with tokens must not flood the API server.
const AT_A_TIME: usize = 8;
/// Waiting for a turn and for the answer together.
const LIMIT: Duration = Duration::from_secs(10);
/// A failure is logged at most once in this time, however many callers it concerns.
const QUIET: Duration = Duration::from_mins(1);

/// Asks the API server for reviews; clones share the limit.
#[derive(Clone)]
pub(crate) struct ReviewClient {
    client: Client,
    turns: Arc<Semaphore>,
    logged: Arc<Mutex<Option<Instant>>>,
}

impl Debug for ReviewClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReviewClient").finish_non_exhaustive()
    }
}

impl ReviewClient {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, turns: Arc::new(Semaphore::new(AT_A_TIME)), logged: Arc::default() }
    }

    /// The API server's answer to a review; `what` is what could not be found out otherwise.
    pub(crate) async fn ask<K>(&self, review: &K, what: &'static str) -> Result<K, AuthError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let api = Api::<K>::all(self.client.clone());
        let asked = tokio::time::timeout(LIMIT, async {
            let _turn = self.turns.acquire().await;
            api.create(&PostParams::default(), review).await
        });
        let reason = match asked.await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => format!(
                "{}; bind this process's account to ClusterRole system:auth-delegator",
                status.message
            ),
            Ok(Err(error)) => describe(&error),
            Err(_) => format!("no answer within {LIMIT:?}"),
        };
        if self.is_to_be_logged(Instant::now()) {
            let kind = K::kind(&());
            tracing::warn!(review = %kind, error = %reason, "cannot find out {what}: requests are refused");
        }
        Err(AuthError::Unavailable(format!(
            "the API server could not be asked {what}; the log says why, try again later"
        )))
    }

    fn is_to_be_logged(&self, now: Instant) -> bool {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let due = logged.is_none_or(|last| now.saturating_duration_since(last) >= QUIET);
        if due {
            *logged = Some(now);
        }
        due
    }
}

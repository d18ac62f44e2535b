//! Token and access reviews by the API server: few at a time, and never for long.
//!
//! | caller | named by | reviews under way |
//! |---|---|---|
//! | known: its token was good lately, or it is a user whose token is | the token, the user | of one 2, of all 4 |
//! | unknown | its address | of one 2, of all 4 |
//!
//! So a caller that sends one token after another, known or not, delays itself, and unknown callers delay no known one.

use std::collections::HashMap;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::AuthError;
use super::cache::Key;
use crate::apiserver::describe;

/// Reviews under way at most, of known callers and of all others: a caller that floods this endpoint with tokens must not flood the API
/// server.
const AT_A_TIME: usize = 4;
/// Reviews of one caller under way at most.
const OF_ONE: usize = 2;
/// Callers up to which those that are gone stay in the list.
const CALLERS: usize = 256;
/// Waiting for a turn and for the answer together.
const LIMIT: Duration = Duration::from_secs(10);
/// A failure is logged at most once in this time, however many callers it concerns.
const QUIET: Duration = Duration::from_mins(1);

/// The caller on whose behalf the API server is asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    /// The bearer of a token that was good lately.
    Token(Key),
    /// A user whose token is good.
    User(String),
    /// An unknown one at this address; `None`: on this process's own socket.
    Address(Option<IpAddr>),
}

/// Asks the API server for reviews; clones share the limits.
#[derive(Clone)]
pub(crate) struct ReviewClient {
    client: Client,
    of_known: Arc<Semaphore>,
    of_others: Arc<Semaphore>,
    /// Semaphores of the callers with reviews in progress or waiting.
    of_one: Arc<Mutex<HashMap<Caller, Weak<Semaphore>>>>,
    logged: Arc<Mutex<Option<Instant>>>,
}

impl Debug for ReviewClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReviewClient").finish_non_exhaustive()
    }
}

impl ReviewClient {
    pub(crate) fn new(client: Client) -> Self {
        let turns = || Arc::new(Semaphore::new(AT_A_TIME));
        Self { client, of_known: turns(), of_others: turns(), of_one: Arc::default(), logged: Arc::default() }
    }

    /// The turns of all callers of the same kind.
    fn turns(&self, caller: &Caller) -> &Semaphore {
        match caller {
            Caller::Token(_) | Caller::User(_) => &self.of_known,
            Caller::Address(_) => &self.of_others,
        }
    }

    /// The turns of this caller.
    fn own_turns(&self, caller: Caller) -> Arc<Semaphore> {
        let mut all = self.of_one.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= CALLERS {
            all.retain(|_, turns| turns.strong_count() > 0);
        }
        if let Some(turns) = all.get(&caller).and_then(Weak::upgrade) {
            return turns;
        }
        let turns = Arc::new(Semaphore::new(OF_ONE));
        all.insert(caller, Arc::downgrade(&turns));
        turns
    }

    /// The API server's answer to a review; `what` is what could not be found out otherwise.
    pub(crate) async fn ask<K>(&self, review: &K, caller: Caller, what: &'static str) -> Result<K, AuthError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let api = Api::<K>::all(self.client.clone());
        let asked = tokio::time::timeout(LIMIT, async {
            let turns = self.turns(&caller);
            let own_turns = self.own_turns(caller);
            let _own_turn = own_turns.acquire().await;
            let _turn = turns.acquire().await;
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
            "the API server could not be asked {what}; the log has the reason, try again later"
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

//! Bearer tokens: whose they are is the API server's word (TokenReview).

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use tokio::time::Instant;

use super::cache::{self, Cache};
use super::review::{Caller, ReviewClient};
use super::{AuthError, User};

/// No token of Kubernetes comes near this length, in bytes.
const LONGEST: usize = 16 * 1024;

/// Time for which the bearer of an accepted token stays a known caller.
const KNOWN: Duration = Duration::from_hours(24);

/// Finds the users of bearer tokens.
#[derive(Debug)]
pub(crate) struct TokenAuthenticator {
    review_client: ReviewClient,
    cached: Mutex<Cache<Option<User>>>,
    /// Tokens that were good when they were last asked about.
    good: Mutex<Cache<()>>,
    ttl: Duration,
}

impl TokenAuthenticator {
    pub(crate) fn new(review_client: ReviewClient, ttl: Duration) -> Self {
        Self { review_client, cached: Mutex::default(), good: Mutex::default(), ttl }
    }

    /// The user of a token, which a caller at this address sent.
    pub(crate) async fn user(&self, token: &str, address: Option<IpAddr>) -> Result<User, AuthError> {
        if token.len() > LONGEST {
            return Err(invalid_token());
        }
        let key = cache::key(token.as_bytes());
        // The time of an answer counts from the request: a token revoked while the answer is under way is not accepted longer.
        let now = Instant::now();
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner).get(&key, now);
        let user = if let Some(cached) = cached {
            cached
        } else {
            let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
            let review = TokenReview { spec, ..TokenReview::default() };
            let is_known = self.good.lock().unwrap_or_else(PoisonError::into_inner).get(&key, now).is_some();
            let caller = if is_known { Caller::Token(key) } else { Caller::Address(address) };
            let answer = self.review_client.ask(&review, caller, "whose the token is").await?;
            let user = answer.status.and_then(read);
            let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
            if user.is_some() {
                good.put(key, (), now, KNOWN);
            } else {
                good.remove(&key);
            }
            drop(good);
            let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
            cached.put(key, user.clone(), now, self.ttl);
            user
        };
        user.ok_or_else(invalid_token)
    }
}

fn invalid_token() -> AuthError {
    AuthError::Unauthenticated("the bearer token is none of this cluster, or it ran out".to_owned())
}

/// The user of an answer; nobody unless the token is good and the user has a name.
fn read(status: TokenReviewStatus) -> Option<User> {
    let user = status.user.filter(|_| status.authenticated == Some(true))?;
    let name = user.username.filter(|name| !name.is_empty())?;
    let (groups, extra) = (user.groups.unwrap_or_default(), user.extra.unwrap_or_default());
    Some(User { name, uid: user.uid, groups, extra })
}

#[cfg(test)]
mod tests;

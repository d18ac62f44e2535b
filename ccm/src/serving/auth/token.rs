//! Bearer tokens: whose they are is the API server's word (TokenReview).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use tokio::time::Instant;

use super::cache::{self, Cache};
use super::review::Reviews;
use super::{Refusal, User};

/// No token of Kubernetes comes near this length, in bytes.
const LONGEST: usize = 16 * 1024;

/// Whose tokens are.
#[derive(Debug)]
pub(crate) struct Tokens {
    reviews: Reviews,
    known: Mutex<Cache<Option<User>>>,
    ttl: Duration,
}

impl Tokens {
    pub(crate) fn new(reviews: Reviews, ttl: Duration) -> Self {
        Self { reviews, known: Mutex::default(), ttl }
    }

    /// Whose token it is.
    pub(crate) async fn user(&self, token: &str) -> Result<User, Refusal> {
        if token.len() > LONGEST {
            return Err(refused());
        }
        let key = cache::key(token.as_bytes());
        // An answer is believed from when it was asked for: what is revoked while it is on its way is not believed longer.
        let now = Instant::now();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key, now);
        let user = if let Some(known) = known {
            known
        } else {
            let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
            let review = TokenReview { spec, ..TokenReview::default() };
            let answer = self.reviews.ask(&review, "whose the token is").await?;
            let user = answer.status.and_then(read);
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.put(key, user.clone(), now, self.ttl);
            user
        };
        user.ok_or_else(refused)
    }
}

fn refused() -> Refusal {
    Refusal::Unauthenticated("the bearer token is none of this cluster, or it ran out".to_owned())
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

//! Authorization of a user for a path by the API server (SubjectAccessReview on a nonResourceURL).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use tokio::time::Instant;

use super::cache::{self, Cache};
use super::review::{Caller, ReviewClient};
use super::{AuthError, User};

const WHAT: &str = "whether this user may ask this";

/// Decides what users may do.
#[derive(Debug)]
pub(crate) struct Authorizer {
    review_client: ReviewClient,
    cached: Mutex<Cache<bool>>,
    authorized_ttl: Duration,
    unauthorized_ttl: Duration,
}

impl Authorizer {
    pub(crate) fn new(
        review_client: ReviewClient,
        authorized_ttl: Duration,
        unauthorized_ttl: Duration,
    ) -> Self {
        Self { review_client, cached: Mutex::default(), authorized_ttl, unauthorized_ttl }
    }

    /// Returns true if `user` may do `verb` on `path`.
    pub(crate) async fn may(&self, user: &User, verb: &str, path: &str) -> Result<bool, AuthError> {
        let spec = review_spec(user, verb, path);
        let key = serde_json::to_vec(&spec).map(|bytes| cache::key(&bytes)).map_err(|error| {
            tracing::warn!(user = %user.name, %error, "cannot write a SubjectAccessReview");
            AuthError::Unavailable(format!("the API server could not be asked {WHAT}"))
        })?;
        // Believed from when it was asked for, as tokens are.
        let now = Instant::now();
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner).get(&key, now);
        if let Some(cached) = cached {
            return Ok(cached);
        }
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let caller = Caller::User(user.name.clone());
        let answer = self.review_client.ask(&review, caller, WHAT).await?;
        let may = answer.status.as_ref().is_some_and(allowed);
        let ttl = if may { self.authorized_ttl } else { self.unauthorized_ttl };
        self.cached.lock().unwrap_or_else(PoisonError::into_inner).put(key, may, now, ttl);
        Ok(may)
    }
}

/// A denial wins over a permission.
fn allowed(status: &SubjectAccessReviewStatus) -> bool {
    status.allowed && status.denied != Some(true)
}

fn review_spec(user: &User, verb: &str, path: &str) -> SubjectAccessReviewSpec {
    SubjectAccessReviewSpec {
        user: Some(user.name.clone()),
        uid: user.uid.clone(),
        groups: Some(user.groups.clone()),
        extra: Some(user.extra.clone()),
        non_resource_attributes: Some(NonResourceAttributes {
            path: Some(path.to_owned()),
            verb: Some(verb.to_owned()),
        }),
        ..SubjectAccessReviewSpec::default()
    }
}

#[cfg(test)]
mod tests;

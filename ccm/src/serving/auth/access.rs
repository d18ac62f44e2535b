//! Whether a user may read a path: the API server's word (SubjectAccessReview on a nonResourceURL).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use tokio::time::Instant;

use super::cache::{self, Cache};
use super::review::Reviews;
use super::{Refusal, User};

const WHAT: &str = "whether this user may ask this";

/// What users may do.
#[derive(Debug)]
pub(crate) struct Authorizer {
    reviews: Reviews,
    known: Mutex<Cache<bool>>,
    authorized_ttl: Duration,
    unauthorized_ttl: Duration,
}

impl Authorizer {
    pub(crate) fn new(reviews: Reviews, authorized_ttl: Duration, unauthorized_ttl: Duration) -> Self {
        Self { reviews, known: Mutex::default(), authorized_ttl, unauthorized_ttl }
    }

    /// Whether `user` may do `verb` on `path`.
    pub(crate) async fn may(&self, user: &User, verb: &str, path: &str) -> Result<bool, Refusal> {
        let spec = question(user, verb, path);
        let key = serde_json::to_vec(&spec).map(|bytes| cache::key(&bytes)).map_err(|error| {
            tracing::warn!(user = %user.name, %error, "cannot write a SubjectAccessReview");
            Refusal::Unavailable(format!("the API server could not be asked {WHAT}"))
        })?;
        // Believed from when it was asked for, as tokens are.
        let now = Instant::now();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key, now);
        if let Some(known) = known {
            return Ok(known);
        }
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answer = self.reviews.ask(&review, WHAT).await?;
        let may = answer.status.as_ref().is_some_and(allowed);
        let ttl = if may { self.authorized_ttl } else { self.unauthorized_ttl };
        self.known.lock().unwrap_or_else(PoisonError::into_inner).put(key, may, now, ttl);
        Ok(may)
    }
}

/// A denial wins over a permission.
fn allowed(status: &SubjectAccessReviewStatus) -> bool {
    status.allowed && status.denied != Some(true)
}

fn question(user: &User, verb: &str, path: &str) -> SubjectAccessReviewSpec {
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

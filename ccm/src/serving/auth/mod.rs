//! Who asks, and whether they may: delegated to the API server, as every part of Kubernetes does it (service-contract
//! §5.2).
//!
//! A bearer token says who asks ([`token`]); a SubjectAccessReview says whether that user may read the path ([`access`]).
//! Answers are believed for a while ([`cache`]).

mod access;
mod cache;
mod paths;
mod review;
mod token;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use kube::Client;

use self::access::Authorizer;
pub use self::paths::AllowedPaths;
use self::review::Reviews;
use self::token::Tokens;
use super::options::AuthOptions;

/// Members may do everything, in every cluster: nobody is asked about them.
const MASTERS: &str = "system:masters";

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: Option<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

/// A request, as far as it matters here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'a> {
    /// The HTTP method in lower case.
    pub(crate) verb: &'a str,
    /// The path without its query.
    pub(crate) path: &'a str,
    /// The header `Authorization`.
    pub(crate) authorization: Option<&'a [u8]>,
}

/// Why a request is not answered. The sentences are for the caller: they give away nothing of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// 401: nobody known.
    #[error("{0}")]
    Unauthenticated(String),
    /// 403: known, and may not.
    #[error("{0}")]
    Forbidden(String),
    /// 503: the API server did not say.
    #[error("{0}")]
    Unavailable(String),
}

/// How a request was let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// By its path: anybody may ask this.
    Anybody,
    /// By who asks.
    Authorized,
}

/// Decides about requests.
#[derive(Debug)]
pub(crate) struct Gate {
    paths: AllowedPaths,
    tokens: Tokens,
    authorizer: Authorizer,
}

impl Gate {
    pub(crate) fn new(options: &AuthOptions, client: Client) -> Self {
        let reviews = Reviews::new(client);
        Self {
            paths: options.always_allow_paths.clone(),
            tokens: Tokens::new(reviews.clone(), options.token_ttl),
            authorizer: Authorizer::new(reviews, options.authorized_ttl, options.unauthorized_ttl),
        }
    }

    /// Whether this request is to be answered.
    ///
    /// # Errors
    /// The refusal to answer with.
    pub(crate) async fn admit(&self, question: Question<'_>) -> Result<Admission, Refusal> {
        if self.paths.allow(question.path) {
            return Ok(Admission::Anybody);
        }
        let user = self.authenticate(question).await?;
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(Admission::Authorized);
        }
        if self.authorizer.may(&user, question.verb, question.path).await? {
            return Ok(Admission::Authorized);
        }
        Err(Refusal::Forbidden(format!(
            "user {:?} may not {} {}; give it a ClusterRole with this verb and nonResourceURL",
            user.name, question.verb, question.path
        )))
    }

    async fn authenticate(&self, question: Question<'_>) -> Result<User, Refusal> {
        let unknown = "who asks is not known; send a bearer token of this cluster";
        let token =
            bearer(question.authorization).ok_or_else(|| Refusal::Unauthenticated(unknown.to_owned()))?;
        self.tokens.user(token).await
    }
}

/// The token of `Authorization: Bearer <token>` (RFC 6750 §2.1).
fn bearer(header: Option<&[u8]>) -> Option<&str> {
    let (scheme, token) = std::str::from_utf8(header?).ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

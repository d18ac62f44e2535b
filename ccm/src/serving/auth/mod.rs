//! Authentication and authorization of callers: delegated to the API server, as every part of Kubernetes does it (service-contract §5.2).
//!
//! A bearer token identifies the user ([`token`]); a SubjectAccessReview decides whether that user may read the path ([`access`]). Answers
//! are cached for a limited time ([`cache`]).

mod access;
mod cache;
mod review;
mod token;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Client;

use self::access::Authorizer;
use self::review::ReviewClient;
use self::token::TokenAuthenticator;
use super::allowed_paths::AllowedPaths;
use super::options::AuthOptions;

/// Members may do everything, in every cluster: no access review is made for them.
const MASTERS: &str = "system:masters";

/// The user that a request comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: Option<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

/// A request, as far as it matters here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AuthRequest<'a> {
    /// The HTTP method in lower case.
    pub(crate) verb: &'a str,
    /// The path without its query.
    pub(crate) path: &'a str,
    /// The header `Authorization`.
    pub(crate) authorization: Option<&'a [u8]>,
    /// True if the token may be the password of Basic authentication: browsers cannot send bearer tokens.
    pub(crate) by_password: bool,
    /// Address of the caller; `None`: it uses this process's own socket.
    pub(crate) address: Option<IpAddr>,
}

/// Reason that a request is rejected. The messages go to the caller and reveal nothing of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AuthError {
    /// 401: the user is not known.
    #[error("{0}")]
    Unauthenticated(String),
    /// 403: known, and may not.
    #[error("{0}")]
    Forbidden(String),
    /// 503: the API server did not decide.
    #[error("{0}")]
    Unavailable(String),
}

/// Reason that a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Its path is one of [`AuthOptions::always_allow_paths`].
    AlwaysAllowed,
    /// Its user may read the path.
    Authorized,
}

/// Authenticates and authorizes requests.
#[derive(Debug)]
pub(crate) struct AuthFilter {
    paths: AllowedPaths,
    token_authenticator: TokenAuthenticator,
    authorizer: Authorizer,
}

impl AuthFilter {
    pub(crate) fn new(options: &AuthOptions, client: Client) -> Self {
        let review_client = ReviewClient::new(client);
        Self {
            paths: options.always_allow_paths.clone(),
            token_authenticator: TokenAuthenticator::new(review_client.clone(), options.token_ttl),
            authorizer: Authorizer::new(review_client, options.authorized_ttl, options.unauthorized_ttl),
        }
    }

    /// Authenticates and authorizes a request.
    ///
    /// # Errors
    /// The error to answer with.
    pub(crate) async fn authorize(&self, request: AuthRequest<'_>) -> Result<Access, AuthError> {
        if self.paths.allow(request.path) {
            return Ok(Access::AlwaysAllowed);
        }
        let user = self.authenticate(request).await?;
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(Access::Authorized);
        }
        if self.authorizer.may(&user, request.verb, request.path).await? {
            return Ok(Access::Authorized);
        }
        Err(AuthError::Forbidden(format!(
            "user {:?} may not {} {}; give it a ClusterRole with this verb and nonResourceURL",
            user.name, request.verb, request.path
        )))
    }

    async fn authenticate(&self, request: AuthRequest<'_>) -> Result<User, AuthError> {
        let unknown = "the caller is unknown; send a bearer token of this cluster";
        let bearer = bearer(request.authorization).map(Cow::Borrowed);
        let password =
            || request.by_password.then(|| password(request.authorization)).flatten().map(Cow::Owned);
        let token = bearer.or_else(password).ok_or_else(|| AuthError::Unauthenticated(unknown.to_owned()))?;
        self.token_authenticator.user(&token, request.address).await
    }
}

/// The token of `Authorization: Bearer <token>` (RFC 6750 §2.1).
fn bearer(header: Option<&[u8]>) -> Option<&str> {
    credentials(header, "bearer")
}

/// The password of `Authorization: Basic <credentials>` (RFC 7617 §2), whatever the user name.
fn password(header: Option<&[u8]>) -> Option<String> {
    let decoded = STANDARD.decode(credentials(header, "basic")?).ok()?;
    let (_, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    (!password.is_empty()).then(|| password.to_owned())
}

/// Returns the credentials after the name of this scheme.
fn credentials<'a>(header: Option<&'a [u8]>, wanted: &str) -> Option<&'a str> {
    let (scheme, credentials) = std::str::from_utf8(header?).ok()?.trim().split_once(' ')?;
    let credentials = credentials.trim();
    (scheme.eq_ignore_ascii_case(wanted) && !credentials.is_empty()).then_some(credentials)
}

//! Pages of a provider's own, beside those of every cloud-controller-manager: for whom the API server lets, as `/metrics`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use hyper::body::Bytes;

/// An answer to a GET.
#[derive(Debug, Clone)]
pub struct Page {
    pub(super) code: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Page {
    /// This text, of this content type.
    pub fn new(code: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let headers = [(header::CONTENT_TYPE, HeaderValue::from_static(content_type))].into_iter().collect();
        Self { code, headers, body: body.into() }
    }

    /// The same with this header.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
}

type MakePage = Arc<dyn Fn() -> Page + Send + Sync>;

/// Pages by their paths. Callers need the right to `get` the path as a nonResourceURL. People may ask with a browser: it sends the token
/// as the password of Basic authentication (RFC 7617), with any user name.
#[derive(Clone, Default)]
pub struct Pages(BTreeMap<&'static str, MakePage>);

impl Pages {
    /// With a page at `path`, as `/status`, made anew for each request, on a thread where it may take its time.
    #[must_use]
    pub fn with(mut self, path: &'static str, page: impl Fn() -> Page + Send + Sync + 'static) -> Self {
        self.0.insert(path, Arc::new(page));
        self
    }

    /// Returns true if there is a page at this path.
    pub(super) fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// The page at this path; `None`: there is none, or to make it failed.
    pub(super) async fn make(&self, path: &str) -> Option<Page> {
        let make = Arc::clone(self.0.get(path)?);
        tokio::task::spawn_blocking(move || make()).await.ok()
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

//! HTTP requests and their responses.

use std::net::IpAddr;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Bytes;
use prometheus::{Registry, TEXT_FORMAT, TextEncoder};

use super::auth::{Access, AuthError, AuthFilter, AuthRequest};
use super::health::{HealthChecks, HealthQuery, Probe};
use super::pages::{Page, Pages};

const PLAIN: &str = "text/plain; charset=utf-8";
/// Challenge that makes browsers ask the user for a password (RFC 7617).
const BASIC: &str = r#"Basic realm="the password is a token of this cluster", charset="UTF-8""#;

/// Resource that a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route<'a> {
    /// A probe, and the path behind its name.
    Health(Probe, &'a str),
    Metrics,
    Slis,
    /// Page of the provider.
    Page,
}

fn route<'a>(path: &'a str, pages: &Pages) -> Option<Route<'a>> {
    match path {
        "/metrics" => return Some(Route::Metrics),
        "/metrics/slis" => return Some(Route::Slis),
        path if pages.has(path) => return Some(Route::Page),
        _ => {}
    }
    [Probe::Healthz, Probe::Livez, Probe::Readyz].into_iter().find_map(|probe| {
        let rest = path.strip_prefix('/')?.strip_prefix(probe.name())?;
        (rest.is_empty() || rest.starts_with('/')).then_some(Route::Health(probe, rest))
    })
}

/// Answers HTTP requests.
#[derive(Debug)]
pub(crate) struct RequestHandler {
    /// `None`: any client that can connect may read everything.
    pub(crate) auth_filter: Option<AuthFilter>,
    pub(crate) health: HealthChecks,
    pub(crate) registry: Registry,
    pub(crate) pages: Pages,
}

impl RequestHandler {
    /// Answers a request of a caller at this address, whose body is not read.
    pub(crate) async fn handle<B>(
        &self,
        request: &Request<B>,
        address: Option<IpAddr>,
    ) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        let route = route(path, &self.pages);
        // People ask for pages, by browsers, which have no other way to give a token.
        let by_password = route == Some(Route::Page);
        let access = match &self.auth_filter {
            None => Ok(Access::Authorized),
            Some(auth_filter) => {
                let verb = request.method().as_str().to_ascii_lowercase();
                let authorization = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
                let request = AuthRequest { verb: &verb, path, authorization, by_password, address };
                auth_filter.authorize(request).await
            }
        };
        let access = match access {
            Ok(access) => access,
            Err(error) => return reject(path, &error, by_password),
        };
        let Some(route) = route else {
            return respond(StatusCode::NOT_FOUND, PLAIN, format!("there is nothing at {path}\n"));
        };
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let text = format!("{} cannot be done here; use GET\n", request.method());
            let mut response = respond(StatusCode::METHOD_NOT_ALLOWED, PLAIN, text);
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match route {
            Route::Health(probe, rest) => {
                let health_query = HealthQuery::new(probe, rest, request.uri().query().unwrap_or_default());
                let reasons = access == Access::Authorized;
                let (code, text) = self.health.report(&health_query).answer(&health_query, reasons);
                let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                respond(code, PLAIN, text)
            }
            Route::Metrics => metrics(&self.registry),
            Route::Slis => metrics(self.health.slis()),
            Route::Page => self.pages.make(path).await.map_or_else(not_made, own),
        }
    }
}

/// Returns the response to a rejected request. `by_password`: the browser asks the user to give the token as a password.
fn reject(path: &str, error: &AuthError, by_password: bool) -> Response<Full<Bytes>> {
    tracing::debug!(path, refusal = %error, "request refused");
    let code = match error {
        AuthError::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
        AuthError::Forbidden(_) => StatusCode::FORBIDDEN,
        AuthError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut response = respond(code, PLAIN, format!("{error}\n"));
    if code == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        if by_password {
            response.headers_mut().append(header::WWW_AUTHENTICATE, HeaderValue::from_static(BASIC));
        }
    }
    response
}

fn own(page: Page) -> Response<Full<Bytes>> {
    let Page { code, headers, body } = page;
    let mut response = respond(code, PLAIN, body);
    response.headers_mut().extend(headers);
    response
}

fn not_made() -> Response<Full<Bytes>> {
    let text = "cannot make the page; the log has the reason\n";
    respond(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, text)
}

fn metrics(registry: &Registry) -> Response<Full<Bytes>> {
    match TextEncoder::new().encode_to_string(&registry.gather()) {
        Ok(body) => respond(StatusCode::OK, TEXT_FORMAT, body),
        Err(_) => respond(
            StatusCode::INTERNAL_SERVER_ERROR,
            PLAIN,
            "the metrics could not be written as text\n".to_owned(),
        ),
    }
}

fn respond(code: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_exact_paths() {
        let pages = Pages::default().with("/status", || Page::new(StatusCode::OK, PLAIN, String::new()));
        let table = [
            ("/status", Some(Route::Page)),
            ("/status/", None),
            ("/healthz", Some(Route::Health(Probe::Healthz, ""))),
            ("/livez/ping", Some(Route::Health(Probe::Livez, "/ping"))),
            ("/readyz/", Some(Route::Health(Probe::Readyz, "/"))),
            ("/healthzz", None),
            ("healthz", None),
            ("/metrics", Some(Route::Metrics)),
            ("/metrics/slis", Some(Route::Slis)),
            ("/metrics/", None),
            ("/configz", None),
            ("/", None),
            ("*", None),
        ];
        for (path, expected) in table {
            assert_eq!(route(path, &pages), expected, "{path}");
        }
    }
}

//! Requests and their answers.

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Bytes;
use prometheus::{Registry, TEXT_FORMAT, TextEncoder};

use super::auth::{Admission, Gate, Question, Refusal};
use super::health::{Asked, HealthChecks, Probe};

const PLAIN: &str = "text/plain; charset=utf-8";

/// What there is to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page<'a> {
    /// A probe, and the path behind its name.
    Health(Probe, &'a str),
    Metrics,
    Slis,
}

fn page(path: &str) -> Option<Page<'_>> {
    match path {
        "/metrics" => return Some(Page::Metrics),
        "/metrics/slis" => return Some(Page::Slis),
        _ => {}
    }
    [Probe::Healthz, Probe::Livez, Probe::Readyz].into_iter().find_map(|probe| {
        let rest = path.strip_prefix('/')?.strip_prefix(probe.name())?;
        (rest.is_empty() || rest.starts_with('/')).then_some(Page::Health(probe, rest))
    })
}

/// What the endpoint knows.
#[derive(Debug)]
pub(crate) struct Answers {
    /// `None`: whoever can connect may ask everything.
    pub(crate) gate: Option<Gate>,
    pub(crate) health: HealthChecks,
    pub(crate) registry: Registry,
}

impl Answers {
    /// Answers a request, whose body is not read.
    pub(crate) async fn to<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        let admission = match &self.gate {
            None => Ok(Admission::Authorized),
            Some(gate) => {
                let verb = request.method().as_str().to_ascii_lowercase();
                let authorization = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
                gate.admit(Question { verb: &verb, path, authorization }).await
            }
        };
        let admission = match admission {
            Ok(admission) => admission,
            Err(refusal) => return refuse(path, &refusal),
        };
        let Some(page) = page(path) else {
            return respond(StatusCode::NOT_FOUND, PLAIN, format!("there is nothing at {path}\n"));
        };
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let text = format!("{} cannot be done here; use GET\n", request.method());
            let mut response = respond(StatusCode::METHOD_NOT_ALLOWED, PLAIN, text);
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match page {
            Page::Health(probe, rest) => {
                let asked = Asked::new(probe, rest, request.uri().query().unwrap_or_default());
                let reasons = admission == Admission::Authorized;
                let (code, text) = self.health.report(&asked).answer(&asked, reasons);
                let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                respond(code, PLAIN, text)
            }
            Page::Metrics => metrics(&self.registry),
            Page::Slis => metrics(self.health.slis()),
        }
    }
}

fn refuse(path: &str, refusal: &Refusal) -> Response<Full<Bytes>> {
    tracing::debug!(path, %refusal, "request refused");
    let code = match refusal {
        Refusal::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
        Refusal::Forbidden(_) => StatusCode::FORBIDDEN,
        Refusal::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut response = respond(code, PLAIN, format!("{refusal}\n"));
    if code == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
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

fn respond(code: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
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
        let table = [
            ("/healthz", Some(Page::Health(Probe::Healthz, ""))),
            ("/livez/ping", Some(Page::Health(Probe::Livez, "/ping"))),
            ("/readyz/", Some(Page::Health(Probe::Readyz, "/"))),
            ("/healthzz", None),
            ("healthz", None),
            ("/metrics", Some(Page::Metrics)),
            ("/metrics/slis", Some(Page::Slis)),
            ("/metrics/", None),
            ("/configz", None),
            ("/", None),
            ("*", None),
        ];
        for (path, expected) in table {
            assert_eq!(page(path), expected, "{path}");
        }
    }
}

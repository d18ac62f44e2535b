//! The status page of the controller: one file of HTML that asks for its data and shows it. Pure.
//!
//! Names and messages come from untrusted authors. The page sets them as text, never as HTML, and its content security policy lets nothing
//! run or be loaded but the script and the style that are part of it.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{self, InvalidHeaderValue};
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use windlass_ccm::serving::Page;

use super::snapshot::Snapshot;
use super::status::Overview;
use super::views::{NodeRow, Selection, VipRow, nodes, vips};

#[cfg(test)]
mod tests;

/// Path of the page.
pub(crate) const PATH: &str = "/status";
/// Path of its data: the output of `windlass status -o json`, with `vips` and `nodes` as the lists of that name print them.
pub(crate) const DATA_PATH: &str = "/status.json";

const SCRIPT: &str = include_str!("status.js");
const STYLE: &str = include_str!("status.css");

static HTML: LazyLock<String> = LazyLock::new(|| {
    include_str!("status.html").replacen("/* style */", STYLE, 1).replacen("/* script */", SCRIPT, 1)
});

/// Rights of the page in browsers (Content Security Policy Level 3).
static POLICY: LazyLock<Result<HeaderValue, InvalidHeaderValue>> = LazyLock::new(|| {
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
        source(SCRIPT),
        source(STYLE)
    );
    HeaderValue::try_from(policy)
});

/// Returns the source expression that lets this text, and no other, run in the page.
fn source(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

/// The page, without any data; never without its policy.
pub(crate) fn html() -> Page {
    let policy = match &*POLICY {
        Ok(policy) => policy.clone(),
        Err(error) => {
            tracing::error!(%error, "the content security policy of the status page is no header, a defect of this program");
            return Page::new(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", "the log says why\n");
        }
    };
    let same_origin = HeaderName::from_static("cross-origin-resource-policy");
    Page::new(StatusCode::OK, "text/html; charset=utf-8", HTML.as_str())
        .with_header(header::CONTENT_SECURITY_POLICY, policy)
        .with_header(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"))
        .with_header(same_origin, HeaderValue::from_static("same-origin"))
}

#[derive(Serialize)]
struct Data {
    #[serde(flatten)]
    overview: Overview,
    vips: Vec<VipRow>,
    nodes: Vec<NodeRow>,
}

/// Its data, as JSON.
///
/// # Errors
/// It cannot be written, which would be a defect of this program.
pub(crate) fn data(snapshot: &Snapshot) -> serde_json::Result<Vec<u8>> {
    let all = Selection::default();
    let data =
        Data { overview: Overview::of(snapshot), vips: vips(snapshot, &all), nodes: nodes(snapshot, &all) };
    serde_json::to_vec(&data)
}

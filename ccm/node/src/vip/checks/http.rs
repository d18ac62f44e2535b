//! Asking for a page by HTTP/1.1. Its status counts; redirects are not followed.

use std::time::Duration;

use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::{Answer, words};
use crate::vip::settings::{HttpQuestion, Target};

/// Maximum number of bytes that are read of a head, and of a body that may give the reason for a failure.
const MOST: usize = 64 << 10;

/// Time limit for the reason.
const REASON: Duration = Duration::from_millis(50);

/// Asks for the page; succeeds if the status is an expected one, without waiting for the body.
pub(super) async fn ask<S>(stream: S, target: &Target, question: &HttpQuestion) -> Answer
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let handshake = http1::Builder::new().max_buf_size(MOST).handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| no_answer(&error))?;
    let host = question.host.clone().unwrap_or_else(|| target.to_string());
    let request = Request::get(&question.path)
        .header(header::HOST, host)
        .header(header::USER_AGENT, concat!("windlass/", env!("CARGO_PKG_VERSION")))
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| format!("cannot request {}: {error}", question.path))?;
    let judged = async {
        let answer = sender.send_request(request).await.map_err(|error| no_answer(&error))?;
        judge(answer, question).await
    };
    // The connection has to be driven for the answer to come.
    tokio::pin!(judged);
    tokio::select! {
        judged = &mut judged => judged,
        ended = connection => {
            ended.map_err(|error| no_answer(&error))?;
            judged.await
        }
    }
}

async fn judge(answer: Response<Incoming>, question: &HttpQuestion) -> Answer {
    let status = answer.status();
    if question.expect.contains(&status.as_u16()) {
        return Ok(());
    }
    // All is not well whatever it says, and it may never say it.
    let body = timeout(REASON, Limited::new(answer.into_body(), MOST).collect()).await;
    let body = body.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes).unwrap_or_default();
    Err(match reason(&body) {
        Some(reason) => format!("it answers {status}: {reason}"),
        None => format!("it answers {status}"),
    })
}

/// Returns the reason for a failure in a body: Kubernetes' components list their own checks, and mark failed ones with `[-]`.
fn reason(body: &[u8]) -> Option<String> {
    let failed = body.split(|byte| *byte == b'\n').find(|line| line.starts_with(b"[-]"));
    words::first_line(failed.unwrap_or(body))
}

fn no_answer(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("no answer: {error}: {source}"),
        None => format!("no answer: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_the_check_that_fails_or_else_the_first_line() {
        for (body, expected) in [
            (
                &b"[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n"[..],
                Some("[-]etcd failed: reason withheld"),
            ),
            (b"\nnot yet\nlater", Some("not yet")),
            (b"", None),
        ] {
            assert_eq!(reason(body).as_deref(), expected);
        }
    }
}

//! Asking for a page by HTTP/1.1. Its status counts; redirects are not followed.

use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{timeout, timeout_at};

use super::failure::driven;
use super::{Answer, Failure, HttpQuestion, Target, Within, words};

/// Maximum number of bytes that are read of a head, and of a body that may give the reason for a failure.
const MOST: usize = 64 << 10;

/// Time limit for the reason.
const REASON: Duration = Duration::from_millis(50);

/// Asks for the page; succeeds if the status is an expected one, without waiting for the body.
pub(super) async fn ask(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    target: &Target,
    question: &HttpQuestion,
) -> Answer {
    let host = question.host.clone().unwrap_or_else(|| target.to_string());
    get(stream, host, &question.path, async |answer| judge(answer, question).await).await
}

/// Returns the text at this path, if the server answers with success and at most this length.
pub(crate) async fn text(address: SocketAddr, path: &str, longest: usize, within: Within) -> Option<String> {
    let read = async |answer: Response<Incoming>| {
        let is_well = answer.status().is_success();
        let body = Limited::new(answer.into_body(), longest).collect().await;
        let text = body.ok().and_then(|body| String::from_utf8(body.to_bytes().to_vec()).ok());
        Ok(text.filter(|_| is_well).map(|text| text.trim().to_owned()))
    };
    let answer = async {
        let stream = TcpStream::connect(address).await.ok()?;
        get(stream, address.to_string(), path, read).await.ok()?
    };
    timeout_at(within.end(), answer).await.ok()?
}

/// Sends a request and applies `read` to the answer.
async fn get<T>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    host: String,
    path: &str,
    read: impl AsyncFnOnce(Response<Incoming>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let handshake = http1::Builder::new().max_buf_size(MOST).handshake(TokioIo::new(stream));
    let (mut sender, mut connection) = handshake.await?;
    let request = Request::get(path)
        .header(header::HOST, host)
        .header(header::USER_AGENT, concat!("windlass/", env!("CARGO_PKG_VERSION")))
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| Failure::unwell(format!("cannot request {path}: {error}")))?;
    driven(pin!(async { read(sender.send_request(request).await?).await }), &mut connection).await
}

async fn judge(answer: Response<Incoming>, question: &HttpQuestion) -> Answer {
    let status = answer.status();
    if question.expect.iter().any(|well| well.contains(&status.as_u16())) {
        return Ok(());
    }
    let mut cause = String::new();
    if question.reads_reason {
        // All is not well whatever it says, and it may never say it.
        let body = timeout(REASON, Limited::new(answer.into_body(), MOST).collect()).await;
        let body = body.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes);
        cause = reason(&body.unwrap_or_default()).map(|reason| format!(": {reason}")).unwrap_or_default();
    }
    Err(Failure::Unwell { what: format!("it answers {status}"), cause })
}

/// Returns the reason for a failure in a body: Kubernetes' components list their own checks, and mark failed ones with `[-]`.
fn reason(body: &[u8]) -> Option<String> {
    let failed = body.split(|byte| *byte == b'\n').find(|line| line.starts_with(b"[-]"));
    words::first_line(failed.unwrap_or(body))
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

//! Asking for health by `grpc.health.v1.Health/Check`
//! (<https://github.com/grpc/grpc/blob/master/doc/health-checking.md>), by HTTP/2 without TLS.

use std::pin::pin;

use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::failure::driven;
use super::{Answer, Failure, Target, words};

#[cfg(test)]
mod tests;

/// Maximum number of bytes that are read of an answer. An answer has seven.
const MOST: usize = 64 << 10;

/// `google.rpc.Code`: the server does not know the service.
const NOT_FOUND: &str = "5";
/// `google.rpc.Code`: the server has no health service.
const UNIMPLEMENTED: &str = "12";

/// Asks the server for its health, or for that of `service`; succeeds if it is serving.
pub(super) async fn ask(stream: TcpStream, target: &Target, service: &str) -> Answer {
    let handshake = http2::Builder::new(TokioExecutor::new()).handshake(TokioIo::new(stream));
    let (mut sender, mut connection) = handshake.await?;
    let request = Request::post(format!("http://{target}/grpc.health.v1.Health/Check"))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .header(header::USER_AGENT, concat!("windlass/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(Bytes::from(request(service))))
        .map_err(|error| Failure::unwell(format!("cannot ask for service {service:?}: {error}")))?;
    let judged = async {
        let answer = sender.send_request(request).await?;
        let (head, body) = answer.into_parts();
        if head.status != StatusCode::OK {
            return Err(Failure::unwell(format!("it answers {}, which is not gRPC", head.status)));
        }
        // An answer without a message has its trailers for a head.
        if head.headers.contains_key(GRPC_STATUS) {
            return judge(&head.headers, &[], service);
        }
        let body = Limited::new(body, MOST).collect().await;
        let body = body.map_err(|error| Failure::no_answer(&*error))?;
        let trailers = body.trailers().cloned().unwrap_or_default();
        judge(&trailers, &body.to_bytes(), service)
    };
    driven(pin!(judged), &mut connection).await
}

const GRPC_STATUS: &str = "grpc-status";

/// Judges the trailers and the message of an answer.
fn judge(trailers: &HeaderMap, message: &[u8], service: &str) -> Answer {
    let text = |name| trailers.get(name).map(|value| words::first_line(value.as_bytes()).unwrap_or_default());
    let what = match (text(GRPC_STATUS).as_deref(), serving_status(message)) {
        (None, _) => {
            let what = "its answer has no grpc-status".to_owned();
            return Err(Failure::Unwell { what, cause: ": does it speak gRPC?".to_owned() });
        }
        (Some("0"), Some(1)) => return Ok(()),
        (Some("0"), Some(0)) => "it answers UNKNOWN".to_owned(),
        (Some("0"), Some(2)) => "it answers NOT_SERVING".to_owned(),
        (Some("0"), Some(3)) | (Some(NOT_FOUND), _) => format!("it does not know service {service:?}"),
        (Some("0"), Some(other)) => format!("it answers with the unknown status {other}"),
        (Some("0"), None) => "its answer is not a HealthCheckResponse".to_owned(),
        (Some(UNIMPLEMENTED), _) => "it does not implement grpc.health.v1.Health".to_owned(),
        (Some(code), _) => {
            let said = text("grpc-message").map(|said| format!(" ({said})")).unwrap_or_default();
            format!("it answers grpc-status {code}{said}")
        }
    };
    Err(Failure::unwell(what))
}

/// A `HealthCheckRequest`, whose field 1 is the service, as a message of gRPC: not compressed, and with its length ahead.
fn request(service: &str) -> Vec<u8> {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(0x0a);
        put_varint(service.len(), &mut message);
        message.extend_from_slice(service.as_bytes());
    }
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0][..], &length.to_be_bytes(), &message].concat()
}

fn put_varint(mut value: usize, to: &mut Vec<u8>) {
    loop {
        let low = u8::try_from(value & 0x7f).unwrap_or(0);
        value >>= 7;
        if value == 0 {
            to.push(low);
            return;
        }
        to.push(low | 0x80);
    }
}

/// Field 1 of a `HealthCheckResponse`; 0 where it is left out. `None`: it is none.
fn serving_status(message: &[u8]) -> Option<u64> {
    let (head, fields) = message.split_first_chunk::<5>()?;
    let [compressed, length @ ..] = *head;
    if compressed != 0 || usize::try_from(u32::from_be_bytes(length)).ok()? != fields.len() {
        return None;
    }
    let (mut rest, mut status) = (fields, 0);
    while !rest.is_empty() {
        let key = take_varint(&mut rest)?;
        // The wire type is in the lowest three bits (https://protobuf.dev/programming-guides/encoding/#structure).
        match (key >> 3, key & 7) {
            (1, 0) => status = take_varint(&mut rest)?,
            (_, 0) => drop(take_varint(&mut rest)?),
            (_, 1) => rest = rest.get(8..)?,
            (_, 2) => {
                let length = usize::try_from(take_varint(&mut rest)?).ok()?;
                rest = rest.get(length..)?;
            }
            (_, 5) => rest = rest.get(4..)?,
            _ => return None,
        }
    }
    Some(status)
}

fn take_varint(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        let bits = u64::from(byte & 0x7f);
        value |= bits.checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

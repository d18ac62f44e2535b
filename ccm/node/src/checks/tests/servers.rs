//! Servers of this machine that checks ask, with all that tests need to ask them.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::checks::{HttpQuestion, Probe, Question, Target, Tls, Within};

/// Far more than any attempt needs on a busy machine.
pub(crate) const AMPLE: Duration = Duration::from_mins(1);
/// For attempts that are to run out of time.
pub(crate) const SHORT: Duration = Duration::from_millis(100);

/// A port that nobody listens on: that of a listener that is gone.
pub(crate) async fn closed() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// A server that does `serve` with each connection.
pub(crate) async fn server<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

/// What a server of pages does once it has read a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reply {
    /// Says this and ends.
    Say(&'static str),
    /// Says this and then nothing, without an end.
    Stay(&'static str),
    /// Says the first once and the second for ever, as fast as it is taken.
    Flood(&'static str, &'static str),
    /// Says the first once and the second again and again, now and then.
    Drip(&'static str, &'static str),
}

pub(crate) const OK: Reply = Reply::Say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
pub(crate) const UNAVAILABLE: Reply =
    Reply::Say("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 7\r\n\r\nnot yet");

/// Reads the head of a request and answers. The head; `None`: there was none.
pub(crate) async fn reply<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, reply: Reply) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let (first, again) = match reply {
        Reply::Say(first) | Reply::Stay(first) => (first, ""),
        Reply::Flood(first, again) | Reply::Drip(first, again) => (first, again),
    };
    stream.write_all(first.as_bytes()).await.ok()?;
    stream.flush().await.ok()?;
    match reply {
        Reply::Say(_) => drop(stream.shutdown().await),
        // Until the other side goes.
        Reply::Stay(_) => drop(stream.read_u8().await),
        Reply::Flood(..) => while stream.write_all(again.as_bytes()).await.is_ok() {},
        Reply::Drip(..) => {
            let mut beat = tokio::time::interval(Duration::from_millis(5));
            while stream.write_all(again.as_bytes()).await.is_ok() && stream.flush().await.is_ok() {
                beat.tick().await;
            }
        }
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

/// A server of pages without TLS, and the heads of the requests that it answered.
pub(crate) async fn pages(answer: Reply) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let address = server(move |stream| {
        let seen = Arc::clone(&seen);
        async move {
            if let Some(head) = reply(stream, answer).await {
                seen.lock().unwrap().push(head);
            }
        }
    });
    (address.await, heads)
}

/// For `/readyz`, with this answer.
pub(crate) fn page(expect: &[u16], tls: Option<Tls>) -> Question {
    let expect = expect.iter().map(|code| *code..=*code).collect();
    Question::Http(HttpQuestion { path: "/readyz".to_owned(), expect, host: None, tls, reads_reason: true })
}

/// One attempt; its failure as people read it.
pub(crate) async fn ask(
    question: Question,
    target: impl Into<Target>,
    limit: Duration,
) -> Result<(), String> {
    let answer = Probe::new(question).ask(&target.into(), Within::from_now(limit)).await;
    answer.map_err(|failure| failure.to_string())
}

/// A folder that goes with its owner.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("windlass-checks-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) type Authority = CertifiedIssuer<'static, KeyPair>;

pub(crate) fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A server with a certificate of this authority, and that certificate.
pub(crate) async fn tls_pages(
    authority: &Authority,
    names: &[&str],
    expired: bool,
    answer: Reply,
) -> (SocketAddr, CertificateDer<'static>) {
    let mut params =
        CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
    if expired {
        (params.not_before, params.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(2001, 1, 1));
    }
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap().der().clone();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certificate.clone()], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let address = server(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                reply(stream, answer).await;
            }
        }
    });
    (address.await, certificate)
}

/// A server of health that answers with this message and this grpc-status, and what it was asked.
pub(crate) async fn health(
    message: &'static [u8],
    status: &'static str,
) -> (SocketAddr, Arc<Mutex<Vec<(String, Bytes)>>>) {
    let questions = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&questions);
    let address = server(move |stream| {
        let seen = Arc::clone(&seen);
        let answer = service_fn(move |request: Request<Incoming>| {
            let seen = Arc::clone(&seen);
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                seen.lock().unwrap().push((path, body));
                let trailers = HeaderMap::from_iter([(
                    http::HeaderName::from_static("grpc-status"),
                    HeaderValue::from_static(status),
                )]);
                let body = Full::new(Bytes::from_static(message)).with_trailers(async { Some(Ok(trailers)) });
                let answer =
                    Response::builder().header("content-type", "application/grpc").body(body).unwrap();
                Ok::<_, Infallible>(answer)
            }
        });
        async move {
            let server = http2::Builder::new(TokioExecutor::new());
            drop(server.serve_connection(TokioIo::new(stream), answer).await);
        }
    });
    (address.await, questions)
}

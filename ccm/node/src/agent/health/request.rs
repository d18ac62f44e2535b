//! Asking: an HTTP request, of which the status counts, or a TCP connection.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::ensure;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use windlass_api::{CheckAction, HttpGet, NodeCheck, Scheme, TcpSocket};

use super::check::Finding;
use super::links;

/// Where this node itself is asked first.
pub(super) const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// How long an answer of kube-proxy may take.
const LIMIT: Duration = Duration::from_secs(1);
/// A longer answer names no mode of kube-proxy.
const LONGEST_MODE: usize = 64;
/// A longer answer is no configuration of kube-proxy: one takes some 3 KiB.
const LONGEST_CONFIG: usize = 1 << 16;

/// What is asked.
#[derive(Clone, Copy)]
enum Question<'a> {
    /// For this path, with an answer that this is true of.
    Http { path: &'a str, is_well: fn(&StatusCode) -> bool },
    /// Whether a connection is accepted.
    Tcp,
}

/// Of kube-proxy.
const HEALTH: Question<'_> = Question::Http { path: "/healthz", is_well: StatusCode::is_success };

/// Whether kube-proxy is well.
pub(super) async fn health(address: SocketAddr) -> Finding {
    ask(HEALTH, address, Within::from_now(LIMIT)).await
}

/// Whether it says so of a Service at the first of these addresses that somebody answers at, and that one.
pub(super) async fn first_health(addresses: &[IpAddr], port: u16) -> (Finding, Option<IpAddr>) {
    first_answer(HEALTH, addresses, port, || Within::from_now(LIMIT)).await
}

/// In which mode kube-proxy says that it is, if it answers.
pub async fn proxy_mode(address: SocketAddr) -> Option<String> {
    text(address, "/proxyMode", LONGEST_MODE).await
}

/// The configuration of kube-proxy, as JSON, if it answers.
pub(crate) async fn proxy_config(address: SocketAddr) -> Option<String> {
    text(address, "/configz", LONGEST_CONFIG).await
}

/// What kube-proxy answers for this path, if that is a text of at most this length.
async fn text(address: SocketAddr, path: &str, longest: usize) -> Option<String> {
    let read = async |answer: Response<Incoming>| {
        ensure!(answer.status().is_success(), "it answers {}", answer.status());
        let body = Limited::new(answer.into_body(), longest).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!(error))?.to_bytes();
        Ok(String::from_utf8(body.to_vec())?.trim().to_owned())
    };
    timeout_at(Within::from_now(LIMIT).end, get(address, path, read)).await.ok()?.ok()
}

/// What a check finds. This node itself is asked where somebody answers: on the loopback interface or at one of its `own` addresses.
pub(super) async fn node_check(check: &NodeCheck, own: &BTreeSet<IpAddr>) -> Finding {
    let within = Within::from_now(Duration::from_secs(check.timeout_seconds.into()));
    let (question, host, port) = match &check.action {
        // As Kubernetes' probes have it.
        CheckAction::HttpGet(HttpGet { host, port, path, scheme: Scheme::Http }) => {
            let is_well = |status: &StatusCode| status.is_success() || status.is_redirection();
            (Question::Http { path, is_well }, host, *port)
        }
        CheckAction::TcpSocket(TcpSocket { host, port }) => (Question::Tcp, host, *port),
        CheckAction::Link(check) => return links::look(check.clone()).await,
    };
    let addresses: Vec<IpAddr> = match host {
        Some(host) => vec![*host],
        None => LOOPBACK.into_iter().chain(own.iter().copied()).collect(),
    };
    first_answer(question, &addresses, port, || within).await.0
}

async fn first_answer(
    question: Question<'_>,
    addresses: &[IpAddr],
    port: u16,
    within: impl Fn() -> Within,
) -> (Finding, Option<IpAddr>) {
    let mut first = None;
    for address in addresses {
        match ask(question, SocketAddr::new(*address, port), within()).await {
            answer @ (Finding::Passed | Finding::Failed(_)) => return (answer, Some(*address)),
            silence @ Finding::Silent(_) => drop(first.get_or_insert(silence)),
        }
    }
    let nowhere = || Finding::Silent(format!("no address to ask for port {port} at"));
    (first.unwrap_or_else(nowhere), None)
}

/// How long an answer may take, and until when.
#[derive(Clone, Copy)]
struct Within {
    limit: Duration,
    end: Instant,
}

impl Within {
    fn from_now(limit: Duration) -> Self {
        Self { limit, end: Instant::now() + limit }
    }
}

async fn ask(question: Question<'_>, address: SocketAddr, within: Within) -> Finding {
    match question {
        Question::Http { path, is_well } => http_get(address, path, is_well, within).await,
        Question::Tcp => tcp_socket(address, within).await,
    }
}

async fn http_get(
    address: SocketAddr,
    path: &str,
    is_well: fn(&StatusCode) -> bool,
    within: Within,
) -> Finding {
    let url = format!("http://{address}{path}");
    let status = async |answer: Response<Incoming>| Ok(answer.status());
    match timeout_at(within.end, get(address, path, status)).await {
        Ok(Ok(status)) if is_well(&status) => Finding::Passed,
        Ok(Ok(status)) => Finding::Failed(format!("it answers {status} at {url}")),
        Ok(Err(error)) => Finding::Silent(format!("no answer at {url}: {error}")),
        Err(_) => Finding::Silent(format!("no answer at {url} within {:?}", within.limit)),
    }
}

async fn tcp_socket(address: SocketAddr, within: Within) -> Finding {
    match timeout_at(within.end, TcpStream::connect(address)).await {
        Ok(Ok(_)) => Finding::Passed,
        Ok(Err(error)) => Finding::Silent(format!("no connection to {address}: {error}")),
        Err(_) => Finding::Silent(format!("no connection to {address} within {:?}", within.limit)),
    }
}

/// What `read` makes of the answer.
async fn get<T>(
    address: SocketAddr,
    path: &str,
    read: impl AsyncFnOnce(Response<Incoming>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(path).header(header::HOST, address.to_string());
    let request = request.header(header::CONNECTION, "close").body(String::new())?;
    let answer = async move { read(sender.send_request(request).await?).await };
    // The connection has to be driven for the answer to come.
    tokio::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        ended = connection => {
            ended?;
            answer.await
        }
    }
}

//! Requests of checks: HTTP, judged by the status, or a TCP connection.

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

/// First addresses to query for servers on this node itself.
pub(super) const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Timeout of a request to kube-proxy.
const LIMIT: Duration = Duration::from_secs(1);
/// Length limit: a longer answer names no mode of kube-proxy.
const LONGEST_MODE: usize = 64;
/// Length limit: a longer answer is no configuration of kube-proxy, which takes some 3 KiB.
const LONGEST_CONFIG: usize = 1 << 16;

/// Kind of request.
#[derive(Clone, Copy)]
enum Question<'a> {
    /// GET of this path; `is_well` accepts the status.
    Http { path: &'a str, is_well: fn(&StatusCode) -> bool },
    /// TCP connection, which has to be accepted.
    Tcp,
}

/// Health request to kube-proxy.
const HEALTH: Question<'_> = Question::Http { path: "/healthz", is_well: StatusCode::is_success };

/// Queries the health of kube-proxy.
pub(super) async fn health(address: SocketAddr) -> Finding {
    ask(HEALTH, address, Within::from_now(LIMIT)).await
}

/// Queries the health of a Service at these addresses in turn. Returns the first answer, and the address that gave it.
pub(super) async fn first_health(addresses: &[IpAddr], port: u16) -> (Finding, Option<IpAddr>) {
    first_answer(HEALTH, addresses, port, || Within::from_now(LIMIT)).await
}

/// Returns the mode that kube-proxy reports, if it answers.
pub async fn proxy_mode(address: SocketAddr) -> Option<String> {
    text(address, "/proxyMode", LONGEST_MODE).await
}

/// Returns the configuration of kube-proxy as JSON, if it answers.
pub(crate) async fn proxy_config(address: SocketAddr) -> Option<String> {
    text(address, "/configz", LONGEST_CONFIG).await
}

/// Returns kube-proxy's answer for this path, if it is text of at most this length.
async fn text(address: SocketAddr, path: &str, longest: usize) -> Option<String> {
    let read = async |answer: Response<Incoming>| {
        ensure!(answer.status().is_success(), "it answers {}", answer.status());
        let body = Limited::new(answer.into_body(), longest).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!(error))?.to_bytes();
        Ok(String::from_utf8(body.to_vec())?.trim().to_owned())
    };
    timeout_at(Within::from_now(LIMIT).end, get(address, path, read)).await.ok()?.ok()
}

/// Runs a check. A check without a host goes to this node itself: the loopback addresses, then its `own` addresses, until one answers.
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

/// Timeout of a request, and its deadline.
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

/// Sends a GET request and applies `read` to the response.
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

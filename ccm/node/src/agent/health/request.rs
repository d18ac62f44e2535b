//! Requests of checks, and what their answers mean to the agent.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use windlass_api::{CheckAction, GrpcCheck, HttpGet, LinkCheck, NodeCheck, Scheme, TcpSocket};

use super::check::Finding;
use super::links;
use crate::checks::{self, Failure, HttpQuestion, LOOPBACK, Probe, Question, Tls, Trust, Within};

/// Timeout of a request to kube-proxy.
const LIMIT: Duration = Duration::from_secs(1);
/// Length limit: a longer answer names no mode of kube-proxy.
const LONGEST_MODE: usize = 64;
/// Length limit: a longer answer is no configuration of kube-proxy, which takes some 3 KiB.
const LONGEST_CONFIG: usize = 1 << 16;

/// Queries the health of kube-proxy.
pub(super) async fn health(address: SocketAddr) -> Finding {
    first_health(&[address.ip()], address.port()).await.0
}

/// Queries the health of a Service at these addresses in turn. Returns the first answer, and the address that gave it.
pub(super) async fn first_health(addresses: &[IpAddr], port: u16) -> (Finding, Option<IpAddr>) {
    let mut probe = Probe::new(page("/healthz", 200..=299, None));
    first_answer(&mut probe, addresses, port, || Within::from_now(LIMIT)).await
}

/// Returns the mode that kube-proxy reports, if it answers.
pub async fn proxy_mode(address: SocketAddr) -> Option<String> {
    checks::text(address, "/proxyMode", LONGEST_MODE, Within::from_now(LIMIT)).await
}

/// Returns the configuration of kube-proxy as JSON, if it answers.
pub(crate) async fn proxy_config(address: SocketAddr) -> Option<String> {
    checks::text(address, "/configz", LONGEST_CONFIG, Within::from_now(LIMIT)).await
}

/// Request of an Announcement's check: made once, for all runs of the check.
#[derive(Debug)]
pub(super) enum CheckRequest {
    /// To a server of `host`, or of this node if there is none.
    Server { probe: Box<Probe>, host: Option<IpAddr>, port: u16, timeout: Duration },
    /// To the kernel, for the node's links.
    Links(LinkCheck),
}

impl CheckRequest {
    pub(super) fn new(check: &NodeCheck) -> Self {
        let (question, host, port) = match &check.action {
            // As Kubernetes' probes have it.
            CheckAction::HttpGet(HttpGet { host, port, path, scheme }) => {
                let tls = match scheme {
                    Scheme::Http => None,
                    Scheme::Https => Some(Tls { server_name: None, trust: Trust::Any }),
                };
                (page(path, 200..=399, tls), *host, *port)
            }
            CheckAction::TcpSocket(TcpSocket { host, port }) => (Question::Tcp, *host, *port),
            CheckAction::Grpc(GrpcCheck { host, port, service }) => {
                (Question::Grpc { service: service.clone() }, *host, *port)
            }
            CheckAction::Link(check) => return Self::Links(check.clone()),
        };
        let timeout = Duration::from_secs(check.timeout_seconds.into());
        Self::Server { probe: Box::new(Probe::new(question)), host, port, timeout }
    }

    /// Runs the check. A check without a host goes to this node itself: the loopback addresses, then its `own` addresses, until one
    /// answers.
    pub(super) async fn run(&mut self, own: &BTreeSet<IpAddr>) -> Finding {
        match self {
            Self::Server { probe, host, port, timeout } => {
                let within = Within::from_now(*timeout);
                let addresses: Vec<IpAddr> = match *host {
                    Some(host) => vec![host],
                    None => LOOPBACK.into_iter().chain(own.iter().copied()).collect(),
                };
                first_answer(probe, &addresses, *port, || within).await.0
            }
            Self::Links(check) => links::look(check.clone()).await,
        }
    }
}

/// Returns the question for a page. The body of an answer stays unread: it may be long in coming.
fn page(path: &str, expect: RangeInclusive<u16>, tls: Option<Tls>) -> Question {
    let (path, expect) = (path.to_owned(), vec![expect]);
    Question::Http(HttpQuestion { path, expect, host: None, tls, reads_reason: false })
}

/// Asks at these addresses in turn. Returns the first answer, and the address that gave it.
async fn first_answer(
    probe: &mut Probe,
    addresses: &[IpAddr],
    port: u16,
    within: impl Fn() -> Within,
) -> (Finding, Option<IpAddr>) {
    let servers: Vec<_> = addresses.iter().map(|address| SocketAddr::new(*address, port).into()).collect();
    let Some((address, answer)) = probe.first_answer(&servers, within).await else {
        return (Finding::Silent(format!("no address to ask for port {port} at")), None);
    };
    let question = probe.question();
    let url = question.url(&address);
    let finding = match answer {
        Ok(()) => Finding::Passed,
        Err(Failure::Unwell { what, cause }) => Finding::Failed(format!("{what} at {url}{cause}")),
        Err(Failure::Silent { missing: _, cause }) => Finding::Silent(match question {
            Question::Tcp => format!("no connection to {address}{cause}"),
            Question::Http(_) | Question::Grpc { .. } => format!("no answer at {url}{cause}"),
        }),
    };
    let answered_at = Some(address.ip()).filter(|_| !matches!(finding, Finding::Silent(_)));
    (finding, answered_at)
}

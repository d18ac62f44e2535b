//! Asking kube-proxy: one HTTP request, of which the status counts.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http::{Request, StatusCode, header};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::check::Finding;

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(1);

/// Whether who listens at `address` is well.
pub(super) async fn health(address: SocketAddr) -> Finding {
    match timeout(LIMIT, status(address)).await {
        Ok(Ok(status)) if status.is_success() => Finding::Passed,
        Ok(Ok(status)) => Finding::Failed(format!("it answers {status} at http://{address}/healthz")),
        Ok(Err(error)) => Finding::Silent(format!("no answer at http://{address}/healthz: {error}")),
        Err(_) => Finding::Silent(format!("no answer at http://{address}/healthz within {LIMIT:?}")),
    }
}

/// The same at the first of these addresses that somebody answers at, and that one.
pub(super) async fn first_answer(addresses: &[IpAddr], port: u16) -> (Finding, Option<IpAddr>) {
    let mut first = None;
    for address in addresses {
        match health(SocketAddr::new(*address, port)).await {
            answer @ (Finding::Passed | Finding::Failed(_)) => return (answer, Some(*address)),
            silence @ Finding::Silent(_) => drop(first.get_or_insert(silence)),
        }
    }
    let nowhere = || Finding::Silent(format!("no address to ask for port {port} at"));
    (first.unwrap_or_else(nowhere), None)
}

async fn status(address: SocketAddr) -> anyhow::Result<StatusCode> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get("/healthz").header(header::HOST, address.to_string());
    let request = request.header(header::CONNECTION, "close").body(String::new())?;
    let answer = async move { sender.send_request(request).await };
    // The connection has to be driven for the answer to come.
    tokio::pin!(answer);
    tokio::select! {
        answer = &mut answer => Ok(answer?.status()),
        ended = connection => {
            ended?;
            Ok(answer.await?.status())
        }
    }
}

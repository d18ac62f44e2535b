//! Connections: each ends at some time, and no client uses up those of the kubelet's probes or of other clients.

use std::collections::HashMap;
use std::fmt::Display;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::handler::RequestHandler;

/// For the TLS handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
/// For the head of a request, and between two requests.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// For a whole connection. Then its request may end, for as long as a request may take.
const CONNECTION_LIMIT: Duration = Duration::from_mins(5);
/// Bytes of a request's head.
const HEAD_LIMIT: usize = 32 * 1024;
/// Connections at a time of this host, and of all others together. Further ones are closed.
const OF_THIS_HOST: usize = 64;
const OF_OTHERS: usize = 128;
/// Connections at a time of one other client (an IPv4 address, or an IPv6 /64, which a single host may have to itself), out of `OF_OTHERS`.
const OF_ONE_CLIENT: usize = 16;

/// Connections at a time on a Unix socket. Further ones wait.
const OF_A_SOCKET: usize = 64;
/// Time to the next attempt where the system lacks something: the others have to end first.
const PAUSE: Duration = Duration::from_secs(1);

/// Answers connections with TLS, by the configuration of the moment, until `token` is cancelled; those that are open then are closed.
pub(crate) async fn accept(
    listener: TcpListener,
    tls: watch::Receiver<Arc<ServerConfig>>,
    handler: Arc<RequestHandler>,
    token: CancellationToken,
) {
    let slots = ConnectionSlots::default();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = connections.join_next(), if !connections.is_empty() => continue,
            () = token.cancelled() => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                let here = stream.local_addr().ok().map(|here| here.ip());
                if let Some(slot) = slots.acquire(peer.ip(), here) {
                    let acceptor = TlsAcceptor::from(Arc::clone(&tls.borrow()));
                    connections.spawn(one(stream, peer, acceptor, Arc::clone(&handler), slot));
                } else {
                    tracing::debug!(%peer, "connection closed: there are too many");
                }
            }
            Err(error) => pause_after(&error).await,
        }
    }
}

/// The same on a Unix socket, without TLS.
pub(crate) async fn accept_local(
    listener: UnixListener,
    handler: Arc<RequestHandler>,
    token: CancellationToken,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept(), if connections.len() < OF_A_SOCKET => accepted,
            _ = connections.join_next(), if !connections.is_empty() => continue,
            () = token.cancelled() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let handler = Arc::clone(&handler);
                connections.spawn(async move { note_end("socket", requests(stream, &handler, None).await) });
            }
            Err(error) => pause_after(&error).await,
        }
    }
}

/// Logs that no connection can be accepted, and pauses; an error of one connection needs neither.
async fn pause_after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::warn!(%error, "cannot accept connections, trying again");
        sleep(PAUSE).await;
    }
}

/// Slots for connections. Probes come from this host, and no other host can take their slots: a probe without `host` goes to the pod's
/// address, which is the node's own, and comes from there.
#[derive(Debug)]
struct ConnectionSlots {
    this_host: Arc<Semaphore>,
    others: Arc<Semaphore>,
    /// Connections of each other client that has any: as many entries as `others` has slots at most.
    by_client: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// A slot that a connection has until it is dropped.
#[derive(Debug)]
struct ConnectionSlot {
    _permit: OwnedSemaphorePermit,
    _share: Option<ClientShare>,
}

/// One connection of a client, counted until it is dropped.
#[derive(Debug)]
struct ClientShare {
    client: IpAddr,
    by_client: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Default for ConnectionSlots {
    fn default() -> Self {
        let [this_host, others] = [OF_THIS_HOST, OF_OTHERS].map(|places| Arc::new(Semaphore::new(places)));
        Self { this_host, others, by_client: Arc::default() }
    }
}

impl ConnectionSlots {
    /// A slot for a connection from `peer` to the address `here` of this host. `None`: all are taken, or all of this client.
    fn acquire(&self, peer: IpAddr, here: Option<IpAddr>) -> Option<ConnectionSlot> {
        let is_ours = peer.to_canonical().is_loopback() || here == Some(peer);
        let slots = if is_ours { &self.this_host } else { &self.others };
        let permit = Arc::clone(slots).try_acquire_owned().ok()?;
        let share = if is_ours { None } else { Some(ClientShare::acquire(&self.by_client, peer)?) };
        Some(ConnectionSlot { _permit: permit, _share: share })
    }
}

impl ClientShare {
    /// Counts a connection from `peer`. `None`: its client has as many as it may have.
    fn acquire(by_client: &Arc<Mutex<HashMap<IpAddr, usize>>>, peer: IpAddr) -> Option<Self> {
        let client = client_of(peer);
        let mut counts = by_client.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.get(&client).copied().unwrap_or_default();
        if count >= OF_ONE_CLIENT {
            return None;
        }
        counts.insert(client, count + 1);
        Some(Self { client, by_client: Arc::clone(by_client) })
    }
}

impl Drop for ClientShare {
    fn drop(&mut self) {
        let mut counts = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        let left = counts.get(&self.client).map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            counts.remove(&self.client);
        } else {
            counts.insert(self.client, left);
        }
    }
}

/// Returns what one client's addresses have in common: the IPv4 address, or the first 64 bits of the IPv6 address.
fn client_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        address @ IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

async fn one(
    stream: TcpStream,
    peer: SocketAddr,
    acceptor: TlsAcceptor,
    handler: Arc<RequestHandler>,
    _slot: ConnectionSlot,
) {
    let ended = match timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => requests(stream, &handler, Some(peer.ip().to_canonical())).await,
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no TLS handshake within {HANDSHAKE_LIMIT:?}")),
    };
    note_end(peer, ended);
}

fn note_end(peer: impl Display, ended: Result<(), String>) {
    if let Err(reason) = ended {
        tracing::debug!(%peer, %reason, "connection ended");
    }
}

async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    handler: &RequestHandler,
    address: Option<IpAddr>,
) -> Result<(), String> {
    let service = service_fn(async |request| {
        Ok::<_, std::convert::Infallible>(handler.handle(&request, address).await)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_LIMIT)
        .max_buf_size(HEAD_LIMIT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    if let Ok(ended) = timeout(CONNECTION_LIMIT, connection.as_mut()).await {
        return ended.map_err(|error| error.to_string());
    }
    connection.as_mut().graceful_shutdown();
    match timeout(REQUEST_LIMIT, connection).await {
        Ok(ended) => ended.map_err(|error| error.to_string()),
        Err(_) => Err("it did not take the answer".to_owned()),
    }
}

#[cfg(test)]
mod tests;

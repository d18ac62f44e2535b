//! A client that sends requests to an API server all the time, over TLS, and measures how long it gets no answer.

mod tally;

use std::{
    cell::RefCell,
    io,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use rustls::{
    ClientConfig, RootCertStore,
    client::Resumption,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

pub use self::tally::{ApiOutcome, Silence};
use crate::{
    lab::Lab,
    load::is_whole,
    running::{Running, Stop, await_more},
};

/// Time from one request to the next, whatever the result of the first.
const PAUSE: Duration = Duration::from_millis(10);
/// Limit of a request, including its connection. Other requests are sent meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);
/// Port of the API server.
const PORT: u16 = 6443;

/// Use of connections by a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiConnections {
    /// Each request has one of its own.
    New,
    /// Requests use those that are left of others, and new ones where there is none.
    Kept,
}

/// A running client. Dropping it ends it.
#[derive(Debug)]
pub struct ApiProbe {
    answered: Arc<AtomicU64>,
    running: Running<ApiOutcome>,
}

impl Lab {
    /// Asks `/readyz` at `address` from host `client` each 10 ms until [`ApiProbe::stop`]. A request fails that has no answer 200 within
    /// a second.
    pub fn api_probe(
        &self,
        client: &str,
        address: IpAddr,
        connections: ApiConnections,
    ) -> anyhow::Result<ApiProbe> {
        self.api_probe_of("/readyz", client, address, connections)
    }

    /// The same with another page, as `/livez`.
    pub fn api_probe_of(
        &self,
        page: &str,
        client: &str,
        address: IpAddr,
        connections: ApiConnections,
    ) -> anyhow::Result<ApiProbe> {
        let request = format!("GET {page} HTTP/1.1\r\nHost: lab\r\n\r\n");
        let settings = settings(&self.pki.path("ca.crt"))?;
        let answered = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&answered);
        let running = Running::start_tasks(self, client, "api-probe", move |stop| {
            let asker = Asker {
                target: SocketAddr::new(address, PORT),
                request,
                tls: TlsConnector::from(settings),
                kept: (connections == ApiConnections::Kept).then(RefCell::default),
                outcome: RefCell::default(),
                answered: counted,
                begin: Instant::now(),
            };
            run(Rc::new(asker), stop)
        })?;
        Ok(ApiProbe { answered, running })
    }
}

impl ApiProbe {
    /// Waits until so many further requests have been answered.
    pub async fn await_answers(&self, count: u64) -> anyhow::Result<()> {
        await_more(&self.answered, count, "requests are answered").await
    }

    /// Stops the client, once the requests under way have ended, and returns its results.
    pub fn stop(self) -> anyhow::Result<ApiOutcome> {
        self.running.stop()
    }
}

type Connection = TlsStream<TcpStream>;

struct Asker {
    target: SocketAddr,
    request: String,
    tls: TlsConnector,
    /// Connections that no request uses now; `None`: none is kept.
    kept: Option<RefCell<Vec<Connection>>>,
    outcome: RefCell<ApiOutcome>,
    /// For others to see.
    answered: Arc<AtomicU64>,
    begin: Instant,
}

async fn run(asker: Rc<Asker>, stop: Stop) -> anyhow::Result<ApiOutcome> {
    let mut requests = JoinSet::new();
    let mut ticks = interval(PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while !stop.is_requested() {
        ticks.tick().await;
        let asker = Rc::clone(&asker);
        let began = asker.begin.elapsed();
        requests.spawn_local(async move {
            let answered = timeout(PATIENCE, asker.ask()).await;
            let answered = answered.unwrap_or_else(|_| Err(io::Error::other("no answer within 1 s")));
            asker.answered.fetch_add(answered.is_ok().into(), Ordering::Relaxed);
            asker.outcome.borrow_mut().note(
                began,
                asker.begin.elapsed(),
                answered.map_err(|error| error.to_string()),
            );
        });
        while requests.try_join_next().is_some() {}
    }
    asker.outcome.borrow_mut().end(asker.begin.elapsed());
    while requests.join_next().await.is_some() {}
    let outcome = asker.outcome.borrow().clone();
    Ok(outcome)
}

impl Asker {
    async fn ask(&self) -> io::Result<()> {
        let told = |step: &str, error: io::Error| io::Error::new(error.kind(), format!("{step}: {error}"));
        let kept = self.kept.as_ref().and_then(|kept| kept.borrow_mut().pop());
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.connect().await.map_err(|error| told("connecting", error))?,
        };
        exchange(&mut connection, &self.request).await.map_err(|error| told("asking", error))?;
        if let Some(kept) = &self.kept {
            kept.borrow_mut().push(connection);
            return Ok(());
        }
        // Closed by a reset, a connection leaves no TIME_WAIT; with those, a client would run out of ports.
        connection.get_ref().0.set_zero_linger()
    }

    async fn connect(&self) -> io::Result<Connection> {
        let stream = TcpStream::connect(self.target).await?;
        stream.set_nodelay(true)?;
        self.tls.connect(ServerName::from(self.target.ip()), stream).await
    }
}

/// Asks the API server, and reads the whole answer.
async fn exchange(connection: &mut Connection, request: &str) -> io::Result<()> {
    connection.write_all(request.as_bytes()).await?;
    connection.flush().await?;
    let mut answer = Vec::new();
    while !is_whole(&answer) {
        if connection.read_buf(&mut answer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    if answer.starts_with(b"HTTP/1.1 200 ") {
        return Ok(());
    }
    let status: Vec<u8> = answer.into_iter().take_while(|byte| *byte != b'\r').collect();
    Err(io::Error::other(String::from_utf8_lossy(&status).into_owned()))
}

/// TLS that trusts the lab's CA, each handshake a full one.
fn settings(ca: &str) -> anyhow::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).with_context(|| format!("reading {ca}"))?)?;
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut settings = builder.with_root_certificates(roots).with_no_client_auth();
    settings.resumption = Resumption::disabled();
    Ok(Arc::new(settings))
}

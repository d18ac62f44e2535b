//! A client that sends requests to a VIP all the time and measures how long it gets no answer.

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket},
    ops::Range,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use socket2::{Domain, Socket, Type};

use crate::{
    lab::Lab,
    load::PATIENCE,
    running::{Running, Stop},
};

/// Time after which a TCP request counts as unanswered. Shorter than the first retransmission of a SYN (1 s), so that an
/// outage is not measured longer than it was.
const TCP_PATIENCE: Duration = Duration::from_millis(50);

/// Protocol of a probe's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// One datagram `hostname` per request, all of one flow; answers are counted when they come.
    Udp,
    /// One new connection per request, one at a time.
    Tcp,
}

/// A running probe. Dropping it ends it.
#[derive(Debug)]
pub struct Probe(Running<Outcome>);

/// Results of a probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Requests sent.
    pub sent: u64,
    /// Requests answered.
    pub answered: u64,
    /// The longest time from one answer to the next, or from the last answer to the end. Zero if there was no answer at all.
    pub longest_gap: Duration,
    /// Start of `longest_gap`, from the start of the probe.
    pub gap_began: Duration,
    /// Duration of the probe.
    pub length: Duration,
    /// Number of answers of each server, by the name it calls itself.
    pub by_server: BTreeMap<String, u64>,
    /// Server that answered last.
    pub last_server: Option<String>,
    last_answer: Option<Duration>,
}

impl Outcome {
    fn answer(&mut self, at: Duration, server: &[u8]) {
        let server = server_name(server);
        self.answered += 1;
        self.close_gap(at);
        self.last_answer = Some(at);
        *self.by_server.entry(server.clone()).or_default() += 1;
        self.last_server = Some(server);
    }

    fn end(&mut self, at: Duration) {
        self.close_gap(at);
        self.length = at;
    }

    /// Measures the time since the last answer, if there was one.
    fn close_gap(&mut self, at: Duration) {
        let Some(last) = self.last_answer else { return };
        let gap = at.saturating_sub(last);
        if gap > self.longest_gap {
            (self.longest_gap, self.gap_began) = (gap, last);
        }
    }
}

impl Lab {
    /// Asks `address`:`port` from host `client`, every `interval`, until [`Probe::stop`].
    pub fn probe(
        &self,
        client: &str,
        protocol: Protocol,
        address: impl Into<IpAddr>,
        port: u16,
        interval: Duration,
    ) -> anyhow::Result<Probe> {
        let target = SocketAddr::new(address.into(), port);
        let running = Running::start(self, client, "probe", move |stop| {
            match protocol {
                Protocol::Udp => udp(target, interval, stop),
                Protocol::Tcp => Ok(tcp(target, &[], [interval, TCP_PATIENCE], stop)),
            }
            .with_context(|| format!("asking {target}"))
        })?;
        Ok(Probe(running))
    }

    /// Asks over TCP from these ports of host `client` in turn, every `interval`, which is also the longest wait for an answer. For an
    /// address whose servers share connections by the client's port.
    pub fn probe_from(
        &self,
        client: &str,
        ports: Vec<u16>,
        target: SocketAddr,
        interval: Duration,
    ) -> anyhow::Result<Probe> {
        let ask = move |stop: &Stop| Ok(tcp(target, &ports, [interval; 2], stop));
        Ok(Probe(Running::start(self, client, "probe", ask)?))
    }

    /// Returns the name of the server that answers a new connection from each of these ports of host `client`.
    pub fn servers_of(
        &self,
        client: &str,
        ports: Range<u16>,
        target: SocketAddr,
    ) -> anyhow::Result<BTreeMap<u16, String>> {
        let server = |port| {
            let server =
                ask_from(Some(port), target, PATIENCE).with_context(|| format!("from port {port}"))?;
            Ok((port, server_name(&server)))
        };
        self.within(client, || ports.map(server).collect())?
    }
}

impl Probe {
    /// Stops the probe and returns its results.
    pub fn stop(self) -> anyhow::Result<Outcome> {
        self.0.stop()
    }
}

fn udp(target: SocketAddr, interval: Duration, stop: &Stop) -> anyhow::Result<Outcome> {
    let socket = UdpSocket::bind((unspecified(target), 0))?;
    // Connecting looks up the route, nothing is sent.
    socket.connect(target)?;
    let begin = Instant::now();
    let mut outcome = Outcome::default();
    let mut next = begin;
    let mut buffer = [0; 512];
    while !stop.is_requested() {
        let now = Instant::now();
        if now >= next {
            // No route, no neighbour, refused: an outage like silence.
            let _ = socket.send(b"hostname");
            outcome.sent += 1;
            next = (next + interval).max(now);
            continue;
        }
        socket.set_read_timeout(Some((next - now).max(Duration::from_micros(100))))?;
        match socket.recv(&mut buffer) {
            Ok(length) => outcome.answer(begin.elapsed(), &buffer[..length]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            // An ICMP error about an earlier request: the read returned at once, the next request keeps its time.
            Err(_) => std::thread::sleep(Duration::from_micros(100)),
        }
    }
    outcome.end(begin.elapsed());
    Ok(outcome)
}

fn tcp(target: SocketAddr, ports: &[u16], [interval, patience]: [Duration; 2], stop: &Stop) -> Outcome {
    let mut ports = ports.iter().copied().cycle();
    let begin = Instant::now();
    let mut outcome = Outcome::default();
    let mut next = begin;
    while !stop.is_requested() {
        outcome.sent += 1;
        if let Ok(server) = ask_from(ports.next(), target, patience) {
            outcome.answer(begin.elapsed(), &server);
        }
        let now = Instant::now();
        next = (next + interval).max(now);
        std::thread::sleep(next - now);
    }
    outcome.end(begin.elapsed());
    outcome
}

/// Returns the unspecified address of a target's family.
fn unspecified(target: SocketAddr) -> IpAddr {
    if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

fn server_name(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer).trim().to_owned()
}

/// One HTTP request for the server's name.
pub(crate) fn ask(target: SocketAddr) -> anyhow::Result<Vec<u8>> {
    ask_from(None, target, TCP_PATIENCE)
}

/// The same from a port of this host.
fn ask_from(port: Option<u16>, target: SocketAddr, patience: Duration) -> anyhow::Result<Vec<u8>> {
    let socket = Socket::new(Domain::for_address(target), Type::STREAM, None)?;
    // Closed by a reset, a connection leaves no TIME_WAIT; with those, a client would run out of ports.
    socket.set_linger(Some(Duration::ZERO))?;
    if let Some(port) = port {
        socket.bind(&SocketAddr::new(unspecified(target), port).into())?;
    }
    socket.connect_timeout(&target.into(), patience)?;
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(b"GET /hostname HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").context("no HTTP answer")?;
    Ok(answer.split_off(end + 4))
}

#[cfg(test)]
mod tests;

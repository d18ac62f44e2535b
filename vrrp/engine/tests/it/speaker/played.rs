//! A router that the test plays: it accepts a BGP session, and has BFD.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use windlass_engine::bgp::bfd::{Config, Event, Packet, Session};
use windlass_engine::bgp::units::Random;
use windlass_engine::bgp::wire::{Capabilities, Open, keepalive};
use windlass_engine::bgp::{Asn, Family, HoldTime, RouterId, Time};
use windlass_kernel::{clock, sys};

use crate::lab::{Host, LIMIT, await_some};

/// Time after which the router looks at its timers again.
const LOOK: Duration = Duration::from_millis(2);

pub(crate) fn listen_at(host: &Host, port: u16) -> TcpListener {
    let listener = host.run(move || TcpListener::bind(("0.0.0.0", port)).unwrap());
    listener.set_nonblocking(true).unwrap();
    listener
}

pub(crate) fn listen(host: &Host) -> TcpListener {
    listen_at(host, 179)
}

pub(crate) fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = await_some("connection", || listener.accept().ok());
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

/// OPEN of a router with this AS, in its fixed field and in its capability.
pub(crate) fn open(fixed: u32, capability: u32) -> Vec<u8> {
    let open = Open {
        asn: Asn::new(fixed).unwrap(),
        hold_time: HoldTime::new(90).unwrap(),
        router_id: RouterId::new([192, 0, 2, 99].into()).unwrap(),
        capabilities: Capabilities {
            families: Family::ALL.into(),
            route_refresh: true,
            extended_next_hop: false,
            four_octet_as: Some(capability),
        },
    };
    let mut bytes = Vec::new();
    open.encode(&mut bytes);
    bytes
}

/// OPEN and KEEPALIVE of a router with the largest AS.
pub(crate) fn greeting() -> Vec<u8> {
    let mut bytes = open(u32::MAX, u32::MAX);
    keepalive(&mut bytes);
    bytes
}

/// A BGP session with a router that behaves, to see that nothing disturbs it.
pub(crate) struct Witness(pub(crate) TcpListener, pub(crate) TcpStream);

#[allow(dead_code, reason = "tests of panics use a part of it")]
impl Witness {
    /// Accepts the speaker's connection and answers it.
    pub(crate) fn meet(listener: TcpListener) -> Self {
        let mut stream = accept(&listener);
        stream.write_all(&greeting()).unwrap();
        Self(listener, stream)
    }

    /// Keeps the session, which ends after its hold time otherwise.
    pub(crate) fn keep_alive(&mut self) {
        let mut bytes = Vec::new();
        keepalive(&mut bytes);
        self.1.write_all(&bytes).unwrap();
    }
}

/// BFD of a router, on time wherever real-time scheduling is allowed.
#[allow(dead_code, reason = "tests of panics use a part of it")]
pub(crate) struct BfdPeer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    is_down: AtomicBool,
    received: AtomicU64,
    /// Nanoseconds of the clock at which it last sent.
    sent: AtomicU64,
    changes: Mutex<Vec<Event>>,
}

#[allow(dead_code, reason = "tests of panics use a part of it")]
impl BfdPeer {
    /// Starts it on a host with this address, for the speaker at the other one.
    pub(crate) fn start(host: &Host, own: Ipv4Addr, peer: Ipv4Addr, timers: Config) -> Self {
        let (inbound, out) = host.run(move || {
            let inbound = UdpSocket::bind((own, 3784)).unwrap();
            inbound.set_read_timeout(Some(LOOK)).unwrap();
            let out = UdpSocket::bind((own, 50_000)).unwrap();
            out.set_ttl(255).unwrap();
            out.connect((peer, 3784)).unwrap();
            (inbound, out)
        });
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || theirs.run(&inbound, &out, timers));
        Self { shared, thread: Some(thread) }
    }

    /// Has its administrator take it down.
    pub(crate) fn take_down(&self) {
        self.shared.is_down.store(true, Ordering::Relaxed);
    }

    /// Number of packets received.
    pub(crate) fn received(&self) -> u64 {
        self.shared.received.load(Ordering::Relaxed)
    }

    /// Has it fall silent; returns the time since its last packet, at any time after.
    pub(crate) fn silence(self) -> impl Fn() -> Duration {
        let shared = Arc::clone(&self.shared);
        drop(self);
        move || Duration::from_nanos(clock::now().nanos() - shared.sent.load(Ordering::Relaxed))
    }

    /// Changes of its state so far.
    pub(crate) fn changes(&self) -> Vec<Event> {
        self.shared.changes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for BfdPeer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

impl Shared {
    fn run(&self, inbound: &UdpSocket, out: &UdpSocket, timers: Config) {
        let _ = sys::schedule_fifo(9);
        let now = || Time::from_nanos(clock::now().nanos());
        let mut session = Session::new(timers, 77.try_into().unwrap(), Random::new(7), now());
        let mut buffer = [0; 64];
        while !self.is_over.load(Ordering::Relaxed) {
            let received = inbound.recv(&mut buffer);
            let now = now();
            if let Ok(length) = received {
                self.received.fetch_add(1, Ordering::Relaxed);
                let _ = session.handle_packet(&Packet::decode(&buffer[..length]).unwrap(), now);
            } else {
                session.handle_timeout(now);
            }
            if self.is_down.load(Ordering::Relaxed) {
                session.take_down(now);
            }
            while let Some(packet) = session.poll_transmit(now) {
                let _ = out.send(&packet.encode());
                self.sent.store(now.nanos(), Ordering::Relaxed);
            }
            let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
            changes.extend(session.poll_event());
        }
    }
}

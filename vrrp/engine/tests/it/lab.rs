//! A LAN of network namespaces: a bridge, and hosts with `eth0` = 192.0.2.(n+1)/24 on it. Each namespace belongs to a
//! thread of this process and goes with it: nothing is left behind, however a test ends.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use windlass_engine::{
    Engine, Event, Interval, Options, Priority, RouterConfig, RouterStatus, State, TransitionReason, Vrid,
};

#[path = "../../../kernel/tests/lab/mod.rs"]
#[allow(dead_code, reason = "made for unit tests too")]
pub(crate) mod hosts;

pub(crate) use hosts::{Host, require_root};

/// Limit of every wait: generous, since the machine may be busy. Only that it is less than the engine's minute matters, after
/// which it looks at, asks for and announces everything again without cause.
pub(crate) const LIMIT: Duration = Duration::from_secs(45);
/// The VIP of the tests.
pub(crate) const VIP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 50);

/// Turns of a test that needs a processor at times: two for each processor at once, so that others can run beside them.
pub(crate) struct Turns(usize);

static TAKEN: Mutex<usize> = Mutex::new(0);
static GIVEN_BACK: Condvar = Condvar::new();

/// Waits for a turn, which ends when it is dropped.
pub(crate) fn take_turn() -> Turns {
    Turns::take(1, most_turns())
}

/// Waits for all turns: for a test that keeps a processor busy, or the kernel's connection tracking.
pub(crate) fn take_all_turns() -> Turns {
    Turns::take(most_turns(), most_turns())
}

fn most_turns() -> usize {
    2 * std::thread::available_parallelism().map_or(1, usize::from)
}

impl Turns {
    fn take(count: usize, most: usize) -> Self {
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = GIVEN_BACK.wait_while(taken, |taken| *taken + count > most);
        *wait.unwrap_or_else(PoisonError::into_inner) += count;
        Self(count)
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) -= self.0;
        GIVEN_BACK.notify_all();
    }
}

impl Host {
    /// Starts an engine in the namespace.
    pub(crate) fn engine(&self) -> Node {
        self.engine_with(|_| ())
    }

    /// Starts an engine in the namespace that runs this router, and waits until it is Active.
    pub(crate) fn active(&self, router: RouterConfig) -> Node {
        let node = self.engine();
        node.engine.apply(vec![router]);
        node.await_state(State::Active);
        node
    }

    /// Starts an engine in the namespace, with other options than the defaults.
    pub(crate) fn engine_with(&self, change: impl FnOnce(&mut Options)) -> Node {
        let (tell, events) = channel();
        let foreign_adverts = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&foreign_adverts);
        let mut options = Options::new(move |event| {
            count.fetch_add(usize::from(matches!(event, Event::ForeignRouter { .. })), Ordering::Relaxed);
            drop(tell.send(event));
        });
        change(&mut options);
        let engine = self.run(move || Engine::start(options).expect("start the engine"));
        Node { engine, events, foreign_adverts }
    }
}

/// A bridge and hosts.
pub(crate) struct Lan {
    pub(crate) bridge: Host,
    pub(crate) hosts: Vec<Host>,
}

impl Lan {
    pub(crate) fn new(hosts: usize) -> Self {
        let bridge = Host::new();
        bridge.ip("link add br0 type bridge");
        bridge.ip("link set br0 up");
        let hosts = (0..hosts)
            .map(|n| {
                let host = Host::new();
                bridge.ip(&format!("link add port{n} type veth peer name eth0 netns {}", host.tid()));
                bridge.ip(&format!("link set port{n} master br0 up"));
                host.ip("link set eth0 up");
                host.ip(&format!("addr add {}/24 dev eth0", address(n)));
                host
            })
            .collect();
        Self { bridge, hosts }
    }

    /// Gives each host the link-local address [`address_v6`], usable at once.
    pub(crate) fn with_link_local(self) -> Self {
        for (n, host) in self.hosts.iter().enumerate() {
            host.ip(&format!("addr add {}/64 dev eth0 nodad", address_v6(n)));
        }
        self
    }

    pub(crate) fn pull_cable(&self, host: usize) {
        self.bridge.ip(&format!("link set port{host} down"));
    }

    /// Parts hosts that are parted from each other, which their carrier does not tell; all others still hear them.
    pub(crate) fn part(&self, host: usize, parted: bool) {
        let isolated = if parted { "on" } else { "off" };
        self.bridge.ip(&format!("link set port{host} type bridge_slave isolated {isolated}"));
    }

    pub(crate) fn plug_cable(&self, host: usize) {
        self.bridge.ip(&format!("link set port{host} up"));
    }
}

/// Address of the host with this index.
pub(crate) fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, u8::try_from(host + 1).unwrap())
}

/// Interval of the tests' routers: a process that waits for its turn for half a second has missed nothing.
pub(crate) fn interval() -> Interval {
    Interval::from_millis(300).unwrap()
}

/// VRID 7 of `candidates` hosts, on the host with this index. Priorities fall with the index.
pub(crate) fn router(host: usize, candidates: usize) -> RouterConfig {
    RouterConfig {
        priority: Priority::new(240 - 60 * u8::try_from(host).unwrap()).unwrap(),
        interval: interval(),
        peers: (0..candidates).filter(|n| *n != host).map(|n| address(n).into()).collect(),
        addresses: BTreeSet::from([VIP.into()]),
        ..RouterConfig::new("eth0", Vrid::new(7).unwrap(), address(host).into())
    }
}

/// Link-local address of the host with this index, see [`Lan::with_link_local`].
pub(crate) fn address_v6(host: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, u16::try_from(host + 1).unwrap())
}

/// [`router`] for IPv6.
pub(crate) fn router_v6(host: usize, candidates: usize) -> RouterConfig {
    let v4 = router(host, candidates);
    RouterConfig {
        source: address_v6(host).into(),
        peers: (0..candidates).filter(|n| *n != host).map(|n| address_v6(n).into()).collect(),
        addresses: BTreeSet::from(["fe80::50".parse().unwrap(), "2001:db8::50".parse().unwrap()]),
        ..v4
    }
}

/// `address(host)`, as a router names it.
pub(crate) fn source(host: usize) -> IpAddr {
    address(host).into()
}

/// An engine and its events.
pub(crate) struct Node {
    pub(crate) engine: Engine,
    events: Receiver<Event>,
    foreign_adverts: Arc<AtomicUsize>,
}

impl Node {
    /// Waits for an event that `accept` turns into something.
    pub(crate) fn await_event<T>(&self, what: &str, accept: impl Fn(&Event) -> Option<T>) -> T {
        let deadline = Instant::now() + LIMIT;
        let mut seen = Vec::new();
        loop {
            match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(event) => match accept(&event) {
                    Some(found) => return found,
                    None => seen.push(event),
                },
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!(
                        "no {what} within {LIMIT:?}; events: {seen:#?}; routers: {:#?}",
                        self.engine.snapshot()
                    )
                }
            }
        }
    }

    /// What `accept` turns an event into that was reported by now; those before it are passed over.
    pub(crate) fn reported<T>(&self, accept: impl Fn(&Event) -> Option<T>) -> Option<T> {
        self.events.try_iter().find_map(|event| accept(&event))
    }

    /// How many reports of strangers there were.
    pub(crate) fn strangers_reported(&self) -> usize {
        self.foreign_adverts.load(Ordering::Relaxed)
    }

    /// Passes over what was reported so far.
    pub(crate) fn forget_events(&self) {
        while self.events.try_recv().is_ok() {}
    }

    /// Waits until the engine reports this state and returns why.
    pub(crate) fn await_state(&self, wanted: State) -> TransitionReason {
        self.await_event(&format!("change to {wanted}"), |event| match event {
            Event::StateChanged { state, reason, .. } if *state == wanted => Some(*reason),
            _ => None,
        })
    }

    /// Waits until a router has failed and returns its error.
    pub(crate) fn await_failure(&self) -> String {
        self.await_event("failure", |event| match event {
            Event::Failed { error, .. } => Some(error.clone()),
            _ => None,
        })
    }

    /// The only router's status.
    pub(crate) fn status(&self) -> RouterStatus {
        let mut all = self.engine.snapshot();
        assert_eq!(all.len(), 1, "{all:#?}");
        all.remove(0)
    }

    /// Waits until the only router's status is as wanted.
    pub(crate) fn await_status(&self, what: &str, accept: impl Fn(&RouterStatus) -> bool) -> RouterStatus {
        await_some(what, || Some(self.status()).filter(&accept))
    }
}

/// Asks again until there is an answer.
pub(crate) fn await_some<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "no {what} within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Frames that a host receives.
pub(crate) struct Capture(Socket);

impl Capture {
    pub(crate) fn on(host: &Host) -> Self {
        Self(host.run(|| {
            let every = i32::from(u16::try_from(libc::ETH_P_ALL).unwrap().to_be());
            let socket =
                Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(every))).expect("packet socket");
            socket.set_read_timeout(Some(LIMIT)).unwrap();
            socket
        }))
    }

    /// Waits for a frame that `accept` turns into something.
    pub(crate) fn await_frame<T>(&self, what: &str, accept: impl Fn(&[u8]) -> Option<T>) -> T {
        let deadline = Instant::now() + LIMIT;
        let mut buffer = [0; 2048];
        while Instant::now() < deadline {
            let length = match (&self.0).read(&mut buffer) {
                Ok(length) => length,
                // A process that was stopped meanwhile: a wait with a limit is not resumed by the kernel.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => panic!("no {what}: {error}"),
            };
            if let Some(found) = accept(&buffer[..length]) {
                return found;
            }
        }
        panic!("no {what} within {LIMIT:?}");
    }
}

/// ARP packets of this operation (1 request, 2 reply) that say where `address` is: destination and sender's MAC.
pub(crate) fn arp_about(address: Ipv4Addr, operation: u8) -> impl Fn(&[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    move |frame| {
        let arp = frame.len() >= 42 && frame[12..14] == [8, 6] && frame[20..22] == [0, operation];
        (arp && frame[28..32] == address.octets()).then(|| (frame[..6].to_vec(), frame[22..28].to_vec()))
    }
}

/// Link-layer address of the host's `eth0`.
pub(crate) fn mac(host: &Host) -> Vec<u8> {
    let all = host.run(|| Engine::interfaces().expect("list interfaces"));
    all.into_iter().find(|info| info.name == "eth0").expect("eth0").mac.to_vec()
}

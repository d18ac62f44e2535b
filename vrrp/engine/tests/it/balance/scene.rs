//! Three nodes with a server each, and a client, on one LAN.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use windlass_engine::{
    AddressTag, Backends, Balancer, Balancing, ClientSource, ConnectionForwarding, MarkMask, Options,
    Protocol, ProtocolPort, Restrictions, Returns, State,
};

use crate::guard::scene::{connect, listen};
use crate::lab::{Host, LIMIT, Lan, Node, VIP, await_some, router};
use crate::lab6::{VIP6, number, router6};

pub(super) const TABLE: &str = "windlass-vip-nat";
pub(super) const API: ProtocolPort = ProtocolPort { protocol: Protocol::Tcp, port: 6443 };
pub(super) const VIPS: [IpAddr; 2] = [IpAddr::V4(VIP), IpAddr::V6(VIP6)];
/// Index of the client; those below are nodes.
pub(super) const CLIENT: usize = 3;

pub(super) struct Scene {
    pub(super) lan: Lan,
}

impl Scene {
    pub(super) fn new() -> Self {
        let lan = Lan::new(CLIENT + 1);
        for (n, host) in lan.hosts.iter().enumerate() {
            number(host, number_of(n).into());
            host.ip("link set lo up");
        }
        for (n, node) in lan.hosts[..CLIENT].iter().enumerate() {
            set_forwarding(node, true);
            // What a VIP's other ports would reach if they were not refused: sshd.
            for port in [API.port, 22] {
                let listener = listen(node, port);
                std::thread::spawn(move || {
                    for stream in listener.incoming().flatten() {
                        std::thread::spawn(move || serve(stream, number_of(n)));
                    }
                });
            }
        }
        Self { lan }
    }

    pub(super) fn node(&self, n: usize) -> &Host {
        &self.lan.hosts[n]
    }

    pub(super) fn client(&self) -> &Host {
        &self.lan.hosts[CLIENT]
    }

    /// Has a node run an engine as `windlass vip` does, one of so many candidates.
    pub(super) fn engine(&self, n: usize, candidates: usize) -> Node {
        let node = self.node(n).engine_with(as_vip);
        let mut restrictions = Restrictions::default();
        for vip in VIPS {
            restrictions.only_ports(vip, [API]);
        }
        node.engine.restrict(Arc::new(restrictions));
        let mut routers = vec![router(n, candidates), router6(&self.lan, n, candidates)];
        for router in &mut routers {
            router.unicast_fallback = true;
        }
        node.engine.apply(routers);
        node
    }

    /// Has a node run the only engine, which is Active.
    pub(super) fn active(&self, n: usize) -> Node {
        let node = self.engine(n, n + 1);
        await_active(&node, State::Active);
        node
    }

    /// Gives what comes for the VIPs to the servers of these nodes.
    pub(super) fn balance(&self, n: usize, to: &[usize]) -> Kept {
        let mut balancer = self.node(n).run(|| Balancer::open(TABLE)).unwrap();
        balancer.apply(&balancing(n, to, ClientSource::Masquerade)).unwrap();
        Kept::new(balancer)
    }

    pub(super) fn connect(&self, vip: IpAddr) -> Connection {
        Connection::open(self.client(), vip).unwrap_or_else(|error| panic!("{vip}: {error}"))
    }

    pub(super) fn connections(&self, count: usize) -> Vec<Connection> {
        VIPS.iter().flat_map(|vip| (0..count).map(|_| self.connect(*vip))).collect()
    }
}

pub(super) fn as_vip(options: &mut Options) {
    options.guard = true;
    "windlass-vip".clone_into(&mut options.table);
    options.tag = AddressTag::new(0x58).unwrap();
    options.guard_timeout = Duration::from_secs(3);
    options.connection_forwarding =
        Some(ConnectionForwarding { marks: MarkMask::new(0xf).unwrap(), ..ConnectionForwarding::default() });
}

pub(super) fn set_forwarding(node: &Host, forwards: bool) {
    for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        let value = if forwards { "1" } else { "0" };
        node.run(move || std::fs::write(format!("/proc/sys/net/{setting}"), value).unwrap());
    }
}

/// The last byte of a host's addresses.
pub(super) fn number_of(host: usize) -> u8 {
    u8::try_from(host + 1).unwrap()
}

pub(super) fn addresses(host: usize) -> [IpAddr; 2] {
    let n = number_of(host);
    [[192, 0, 2, n].into(), [0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(n)].into()]
}

/// On node `n`: both VIPs, to the servers of these nodes.
pub(super) fn balancing(n: usize, to: &[usize], source: ClientSource) -> Balancing {
    let services = VIPS.iter().enumerate().map(|(family, vip)| {
        let targets = to.iter().map(|node| SocketAddr::new(addresses(*node)[family], API.port)).collect();
        ((*vip, API), Backends { targets, source })
    });
    let own = addresses(n);
    let returns = match source {
        ClientSource::Masquerade => Returns::default(),
        ClientSource::Keep => Returns {
            servers: own.map(|address| (address, API)).into(),
            peers: (0..CLIENT).filter(|peer| *peer != n).flat_map(addresses).collect(),
        },
    };
    Balancing { services: services.collect(), own: own.into(), returns }
}

/// Both routers of the node are in this state.
pub(super) fn await_active(node: &Node, wanted: State) {
    await_some(&format!("{wanted} of both routers"), || {
        let routers = node.engine.snapshot();
        let held = routers
            .iter()
            .all(|router| router.state == wanted && (wanted != State::Active || !router.claimed.is_empty()));
        (routers.len() == 2 && held).then_some(())
    });
}

/// Answers each byte with the number of its node and that of the client as it sees it.
fn serve(mut stream: TcpStream, node: u8) {
    let from = match stream.peer_addr().unwrap().ip().to_canonical() {
        IpAddr::V4(from) => from.octets()[3],
        IpAddr::V6(from) => from.octets()[15],
    };
    while stream.read_exact(&mut [0]).is_ok() && stream.write_all(&[node, from]).is_ok() {}
}

/// A connection to a VIP.
pub(super) struct Connection {
    stream: TcpStream,
    pub(super) vip: IpAddr,
}

impl Connection {
    pub(super) fn open(host: &Host, vip: IpAddr) -> io::Result<Self> {
        let stream = connect(host, vip, API.port)?;
        stream.set_read_timeout(Some(LIMIT))?;
        Ok(Self { stream, vip })
    }

    /// The number of the node that serves it, and that of whom it takes for the client.
    pub(super) fn try_ask(&mut self) -> io::Result<[u8; 2]> {
        let mut answer = [0; 2];
        self.stream.write_all(b"?").and_then(|()| self.stream.read_exact(&mut answer))?;
        Ok(answer)
    }

    pub(super) fn ask(&mut self) -> [u8; 2] {
        let vip = self.vip;
        self.try_ask().unwrap_or_else(|error| panic!("{vip}: {error}"))
    }
}

/// What each of the connections is answered, without those that say the same.
pub(super) fn ask_all(connections: &mut [Connection]) -> BTreeSet<[u8; 2]> {
    connections.iter_mut().map(Connection::ask).collect()
}

/// A balancer that is looked after, as `windlass vip` does, but more often.
pub(super) struct Kept {
    balancer: Arc<Mutex<Balancer>>,
    active: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
    keeper: Option<JoinHandle<()>>,
}

impl Kept {
    pub(super) fn new(balancer: Balancer) -> Self {
        let balancer = Arc::new(Mutex::new(balancer));
        let [active, ended] = [false, false].map(|value| Arc::new(AtomicBool::new(value)));
        let keeper = {
            let (balancer, active, ended) = (Arc::clone(&balancer), Arc::clone(&active), Arc::clone(&ended));
            std::thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let mut balancer = balancer.lock().unwrap();
                    balancer.check().unwrap();
                    balancer.local(&local(&active)).unwrap();
                    drop(balancer);
                    std::thread::park_timeout(Duration::from_millis(500));
                }
            })
        };
        Self { balancer, active, ended, keeper: Some(keeper) }
    }

    /// Removes the table, as at a clean exit.
    pub(super) fn close(mut self) {
        self.end();
        let balancer = std::mem::replace(&mut *self.balancer(), Balancer::open(TABLE).unwrap());
        balancer.close().unwrap();
    }

    pub(super) fn balancer(&self) -> MutexGuard<'_, Balancer> {
        self.balancer.lock().unwrap()
    }

    /// Whether the node is Active.
    pub(super) fn set_active(&self, active: bool) {
        self.active.store(active, Ordering::Relaxed);
        self.balancer().local(&local(&self.active)).unwrap();
    }
}

/// As if the process were killed: the table stays, and nobody looks after it.
impl Drop for Kept {
    fn drop(&mut self) {
        self.end();
    }
}

impl Kept {
    fn end(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(keeper) = self.keeper.take() {
            keeper.thread().unpark();
            // Its failure is a test's failure, unless that has failed already.
            assert!(keeper.join().is_ok() || std::thread::panicking(), "the balancer's keeper panicked");
        }
    }
}

fn local(active: &AtomicBool) -> BTreeSet<IpAddr> {
    if active.load(Ordering::Relaxed) { VIPS.into() } else { BTreeSet::new() }
}

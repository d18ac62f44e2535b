//! Nodes with a guard of ports and sources, kube-proxy's rules and a pod each, and a client; three of them, where a test does not say more. The first node is Active for the VIPs of both families.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use windlass_engine::{
    ConnectionForwarding, LOTS, Priority, Protocol, ProtocolPort, Restrictions, RouterConfig, RouterStatus,
    Share, SharedBy, Shares, State, lot,
};

use crate::guard::proxy::Mode;
use crate::guard::scene::{POD_PORT, listen, try_run};
use crate::lab::{Host, LIMIT, Lan, Node, VIP, address, await_some, router};
use crate::lab6::{VIP6, number, router6};

pub(super) const NODES: usize = 3;
pub(super) const VIPS: [IpAddr; 2] = [IpAddr::V4(VIP), IpAddr::V6(VIP6)];

pub(super) struct Scene {
    pub(super) lan: Lan,
    pub(super) pods: Vec<Host>,
    pub(super) nodes: Vec<Node>,
}

impl Scene {
    /// The nodes share the addresses evenly.
    pub(super) fn new() -> Self {
        Self::beside(Mode::Nftables)
    }

    /// The same, beside kube-proxy in this mode.
    pub(super) fn beside(mode: Mode) -> Self {
        Self::with(NODES, mode, None)
    }

    /// Starts so many nodes, the first three of which share the addresses, with these settings for connections that they do not know.
    pub(super) fn with(nodes: usize, mode: Mode, forwarding: Option<ConnectionForwarding>) -> Self {
        let lan = Lan::new(nodes + 1);
        for (n, host) in lan.hosts.iter().enumerate() {
            number(host, u16::try_from(n + 1).unwrap());
        }
        let pods = (0..nodes).map(|n| pod(n, &lan.hosts[n], mode)).collect();
        let mut scene = Self { lan, pods, nodes: Vec::new() };
        for n in 0..nodes {
            scene.nodes.push(scene.engine(n, forwarding));
            scene.elect(n);
            if n == 0 {
                scene.await_director();
            }
        }
        scene.share_all(&shares(|lot| lot % NODES, SharedBy::Connection));
        scene
    }

    fn engine(&self, n: usize, forwarding: Option<ConnectionForwarding>) -> Node {
        let node = self.lan.hosts[n].engine_with(|options| {
            options.guard = true;
            options.connection_forwarding = forwarding;
        });
        Self::guard_ports_and_sources(&node);
        node
    }

    /// Ends the node's engine, and starts another.
    pub(super) fn restart(&mut self, n: usize, forwarding: Option<ConnectionForwarding>) {
        // The former one releases its sockets first.
        drop(self.nodes.remove(n));
        self.nodes.insert(n, self.engine(n, forwarding));
    }

    /// Has the guard of a node keep out all but this LAN's hosts, and what is for other ports.
    fn guard_ports_and_sources(node: &Node) {
        let ports = [(Protocol::Tcp, 80), (Protocol::Udp, 53)];
        let ports = ports.map(|(protocol, port)| ProtocolPort { protocol, port });
        let clients = ["192.0.2.0/24", "2001:db8::/64"].map(|range| range.parse().unwrap());
        let mut restrictions = Restrictions::default();
        for vip in VIPS {
            restrictions.only_ports(vip, ports);
            restrictions.restrict(vip, ports, clients);
        }
        node.engine.restrict(Arc::new(restrictions));
    }

    /// Has the node take part in the election for the VIPs.
    pub(super) fn elect(&self, n: usize) {
        self.elect_with(n, |_| ());
    }

    fn elect_with(&self, n: usize, change: impl Fn(&mut RouterConfig)) {
        let nodes = self.pods.len();
        let mut routers = vec![router(n, nodes), router6(&self.lan, n, nodes)];
        routers.iter_mut().for_each(change);
        self.nodes[n].engine.apply(routers);
    }

    /// Makes the node the director.
    pub(super) fn make_director(&self, n: usize) {
        let best = Priority::new(254).unwrap();
        (0..self.nodes.len()).filter(|other| *other != n).for_each(|other| self.elect(other));
        self.elect_with(n, |router| router.priority = best);
        self.await_director_is(n);
    }

    /// Waits until the first node is Active for both VIPs.
    pub(super) fn await_director(&self) {
        self.await_director_is(0);
    }

    fn await_director_is(&self, n: usize) {
        await_some("the director", || {
            let routers = self.nodes[n].engine.snapshot();
            let is_active =
                |router: &RouterStatus| router.state == State::Active && !router.claimed.is_empty();
            (routers.len() == 2 && routers.iter().all(is_active)).then_some(())
        });
    }

    pub(super) fn client(&self) -> &Host {
        &self.lan.hosts[self.pods.len()]
    }

    /// All nodes share like this.
    pub(super) fn share_all(&self, shares: &Shares) {
        (0..self.nodes.len()).for_each(|n| self.share(n, shares));
    }

    /// The node shares like this, and knows all peers that there are.
    pub(super) fn share(&self, n: usize, shares: &Shares) {
        let shares = Arc::new(shares.clone());
        self.nodes[n].engine.share(Arc::clone(&shares));
        self.await_shares(n, &shares);
    }

    /// Waits until the node shares like this and knows all peers that there are.
    pub(super) fn await_shares(&self, n: usize, shares: &Arc<Shares>) {
        await_some("the shares", || {
            let status = self.nodes[n].engine.sharing_status();
            let is_in_force = Arc::ptr_eq(&status.in_force, shares) && status.unknown_peers.is_empty();
            is_in_force.then_some(())
        });
    }

    /// A TCP connection to port 80 of the VIP, once its server has answered.
    pub(super) fn connect(&self, vip: IpAddr) -> io::Result<TcpClient> {
        let to = SocketAddr::new(vip, 80);
        Self::greeted(self.client().run(move || TcpStream::connect_timeout(&to, LIMIT))?)
    }

    /// The same from a port whose lot is this node's, if it is there before the time is over.
    pub(super) fn connect_to(&self, node: usize, vip: IpAddr, limit: Duration) -> io::Result<TcpClient> {
        Self::connect_at(self.client(), node, vip, limit)
    }

    /// The same of another host.
    pub(super) fn connect_at(
        client: &Host,
        node: usize,
        vip: IpAddr,
        limit: Duration,
    ) -> io::Result<TcpClient> {
        let stream = client.run(move || {
            let socket = bound(node, SocketAddr::new(vip, 80), Type::STREAM);
            socket.connect_timeout(&SocketAddr::new(vip, 80).into(), limit).map(|()| TcpStream::from(socket))
        })?;
        Self::greeted(stream)
    }

    /// The same from this end, which an earlier one may have had that was made so as well and has been closed for a second.
    pub(super) fn connect_from(&self, own: SocketAddr, vip: IpAddr) -> io::Result<TcpClient> {
        let stream = self.client().run(move || {
            std::fs::write("/proc/sys/net/ipv4/tcp_tw_reuse", "1")?;
            let socket = Socket::new(Domain::for_address(own), Type::STREAM, None)?;
            socket.set_reuse_address(true)?;
            socket.bind(&own.into())?;
            socket.connect_timeout(&SocketAddr::new(vip, 80).into(), LIMIT).map(|()| TcpStream::from(socket))
        })?;
        Self::greeted(stream)
    }

    fn greeted(stream: TcpStream) -> io::Result<TcpClient> {
        stream.set_read_timeout(Some(LIMIT))?;
        let own = stream.local_addr()?;
        let mut client = TcpClient { own, answer: String::new(), stream: BufReader::new(stream) };
        client.answer = client.read()?;
        Ok(client)
    }

    /// A UDP socket of the client that is connected to port 53 of the VIP, from a port whose lot is this node's.
    pub(super) fn socket_to(&self, node: usize, vip: IpAddr) -> UdpSocket {
        self.client().run(move || {
            let socket = bound(node, SocketAddr::new(vip, 53), Type::DGRAM);
            socket.connect(&SocketAddr::new(vip, 53).into()).expect("connect");
            let socket = UdpSocket::from(socket);
            socket.set_read_timeout(Some(LIMIT)).unwrap();
            socket
        })
    }
}

/// A socket that is bound to the address from which packets to `to` leave, and to a port whose lot is this node's.
fn bound(node: usize, to: SocketAddr, kind: Type) -> Socket {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let any: SocketAddr = any.parse().unwrap();
    let probe = UdpSocket::bind(any).expect("bind");
    probe.connect(to).expect("connect");
    let own = SocketAddr::new(probe.local_addr().unwrap().ip(), 0);
    loop {
        let socket = Socket::new(Domain::for_address(to), kind, None).expect("socket");
        socket.bind(&own.into()).expect("bind");
        let bound = socket.local_addr().unwrap().as_socket().unwrap();
        if expected(bound, SharedBy::Connection) == node {
            return socket;
        }
    }
}

/// A connection, and what its server said of it.
pub(super) struct TcpClient {
    pub(super) own: SocketAddr,
    pub(super) answer: String,
    stream: BufReader<TcpStream>,
}

impl TcpClient {
    /// Asks its server again.
    pub(super) fn ask(&mut self) -> io::Result<String> {
        self.stream.get_mut().write_all(b"?")?;
        self.read()
    }

    /// Sends so many questions at once; returns the answers.
    pub(super) fn ask_often(&mut self, times: usize) -> io::Result<Vec<String>> {
        self.stream.get_mut().write_all(&vec![b'?'; times])?;
        (0..times).map(|_| self.read()).collect()
    }

    fn read(&mut self) -> io::Result<String> {
        let mut answer = String::new();
        match self.stream.read_line(&mut answer)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(answer.trim_end().to_owned()),
        }
    }

    /// Closes the connection; returns when the server has closed it as well.
    pub(super) fn close(mut self) -> io::Result<()> {
        self.stream.get_ref().shutdown(Shutdown::Write)?;
        self.stream.read_to_end(&mut Vec::new()).map(drop)
    }

    /// The node of its lot, where these are shared evenly.
    pub(super) fn expected(&self) -> usize {
        expected(self.own, SharedBy::Connection)
    }
}

pub(super) fn expected(client: SocketAddr, by: SharedBy) -> usize {
    usize::from(lot(client.ip(), client.port(), by)) % NODES
}

/// Answer of this node's server to a client.
pub(super) fn answer_of(node: usize, client: SocketAddr) -> String {
    format!("{node} {client}")
}

/// Asks by UDP; what the server says.
pub(super) fn ask(socket: &UdpSocket, bytes: usize) -> io::Result<String> {
    socket.send(&vec![b'?'; bytes])?;
    let mut buffer = [0; 128];
    let length = socket.recv(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

/// Both VIPs with 80/TCP and 53/UDP, each lot served by the node that this says.
pub(super) fn shares(node_of: impl Fn(usize) -> usize, by: SharedBy) -> Shares {
    let mut lots = [0; LOTS];
    lots.iter_mut().enumerate().for_each(|(lot, node)| *node = u8::try_from(node_of(lot)).unwrap());
    shares_after(NODES, lots, &[], by)
}

/// The same among so many nodes, with former servers of the lots.
pub(super) fn shares_after(nodes: usize, lots: [u8; LOTS], former: &[[u8; LOTS]], by: SharedBy) -> Shares {
    let v4 = |n| IpAddr::from(address(n));
    let v6 = |n| IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::try_from(n + 1).unwrap()));
    let share = |servers: &[IpAddr], port| Share {
        interface: "eth0".to_owned(),
        ports: [port].into(),
        by,
        servers: servers.to_vec(),
        lots,
        former: former.to_vec(),
    };
    let servers: [Vec<IpAddr>; 2] = [(0..nodes).map(v4).collect(), (0..nodes).map(v6).collect()];
    let services = VIPS.iter().zip(&servers).flat_map(|(vip, servers)| {
        [(Protocol::Tcp, 80), (Protocol::Udp, 53)]
            .map(|(protocol, port)| ((*vip, protocol), Arc::new(share(servers, port))))
    });
    let peers: BTreeSet<IpAddr> = servers.iter().flatten().copied().collect();
    Shares { peers: [("eth0".to_owned(), peers)].into(), services: services.collect() }
}

/// The table in the kernel of this host; `None` if there is none.
pub(super) fn table(host: &Host) -> Option<String> {
    try_run(host, "nft list table netdev windlass-sharing", "")
}

/// Number of packets that the host has sent to others.
pub(super) fn directed(host: &Host) -> u64 {
    let table = table(host).expect("the table");
    let counts = table.split("counter packets ").skip(1);
    counts.map(|rest| rest.split(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// A pod behind the node, whose server says which node it is on and who its client is.
fn pod(n: usize, node: &Host, mode: Mode) -> Host {
    for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        node.run(move || std::fs::write(format!("/proc/sys/net/{setting}"), "1").unwrap());
    }
    node.ip("link set lo up");
    let pod = Host::new();
    node.ip(&format!("link add pod0 type veth peer name eth0 netns {}", pod.tid()));
    for (host, device, id) in [(node, "pod0", 1), (&pod, "eth0", 2)] {
        host.ip(&format!("link set {device} up"));
        host.ip(&format!("addr add 198.51.100.{id}/24 dev {device}"));
        host.ip(&format!("addr add 2001:db8:1::{id}/64 dev {device} nodad"));
    }
    pod.ip("route add default via 198.51.100.1");
    pod.ip("route add default via 2001:db8:1::1");
    mode.serve(node);
    let canonical = |client: SocketAddr| SocketAddr::new(client.ip().to_canonical(), client.port());
    let listener = listen(&pod, POD_PORT);
    std::thread::spawn(move || {
        while let Ok((mut stream, client)) = listener.accept() {
            std::thread::spawn(move || {
                while writeln!(stream, "{}", answer_of(n, canonical(client))).is_ok()
                    && stream.read_exact(&mut [0]).is_ok()
                {}
            });
        }
    });
    let socket = pod.run(|| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, POD_PORT))).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok((_, client)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(answer_of(n, canonical(client)).as_bytes(), client);
        }
    });
    pod
}

//! Two nodes that translate connections to VIPs as kube-proxy in nftables mode does, a client, and a backend on a host of its own or
//! behind the second node. Who has the VIPs the others are told by hand: what an Active's ARP replies do, without VRRP.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use windlass_engine::Family;
use windlass_kernel::connections::{Connection, ConnectionKey, Inserted, Tracking, TrackingError, Transport};

use crate::guard::scene::{connect, listen, run};
use crate::lab::{Host, LIMIT, Lan, VIP, address, await_some, mac};
use crate::lab6::{VIP6, number};

pub(crate) const A: usize = 0;
pub(crate) const B: usize = 1;
pub(crate) const CLIENT: usize = 2;
const THIRD: usize = 3;
pub(crate) const VIPS: [IpAddr; 2] = [IpAddr::V4(VIP), IpAddr::V6(VIP6)];
/// The VIPs' port.
pub(crate) const PORT: u16 = 80;
pub(crate) const BACKEND_PORT: u16 = 8080;
const POD: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const POD6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2);
/// Long enough for any test.
pub(crate) const LIFETIME: Duration = Duration::from_mins(10);

/// Where the backend lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Backend {
    OnThirdHost,
    /// Behind the second node.
    OnSecondNode,
    /// In the second node's own network, as pods with `hostNetwork`.
    OfSecondNode,
}

pub(crate) struct Scene {
    pub(crate) lan: Lan,
    pod: Host,
    backend: Backend,
}

impl Scene {
    pub(crate) fn new(backend: Backend) -> Self {
        let scene = Self::made(backend, true);
        scene.move_to(A);
        scene
    }

    /// Without what the guard does, and nobody is told who has the VIPs.
    pub(crate) fn for_engines(backend: Backend) -> Self {
        Self::made(backend, false)
    }

    fn made(backend: Backend, from_the_vip: bool) -> Self {
        let scene = Self { lan: Lan::new(4), pod: Host::new(), backend };
        for (n, host) in scene.lan.hosts.iter().enumerate() {
            number(host, u16::try_from(n + 1).unwrap());
            set(host, "ipv4/conf/all/accept_redirects", "0");
            set(host, "ipv6/conf/eth0/accept_redirects", "0");
        }
        scene.make_pod();
        for node in &scene.lan.hosts[..CLIENT] {
            for (setting, value) in [
                ("ipv4/ip_forward", "1"),
                ("ipv6/conf/all/forwarding", "1"),
                ("ipv4/conf/all/send_redirects", "0"),
                ("ipv4/conf/eth0/send_redirects", "0"),
            ] {
                set(node, setting, value);
            }
            run(node, "nft -f -", &scene.rules(from_the_vip));
        }
        serve(scene.server());
        scene
    }

    /// Behind the second node, reached by way of it.
    fn make_pod(&self) {
        let node = &self.lan.hosts[B];
        node.ip(&format!("link add pod0 type veth peer name eth0 netns {}", self.pod.tid()));
        for (host, device, id) in [(node, "pod0", 1), (&self.pod, "eth0", 2)] {
            host.ip(&format!("link set {device} up"));
            host.ip(&format!("addr add 198.51.100.{id}/24 dev {device}"));
            host.ip(&format!("addr add 2001:db8:1::{id}/64 dev {device} nodad"));
        }
        self.pod.ip("route add default via 198.51.100.1");
        self.pod.ip("route add default via 2001:db8:1::1");
        for host in [A, CLIENT, THIRD] {
            self.lan.hosts[host].ip(&format!("route add 198.51.100.0/24 via {}", address(B)));
            self.lan.hosts[host].ip("route add 2001:db8:1::/64 via 2001:db8::2");
        }
    }

    fn server(&self) -> &Host {
        match self.backend {
            Backend::OnThirdHost => &self.lan.hosts[THIRD],
            Backend::OnSecondNode => &self.pod,
            Backend::OfSecondNode => &self.lan.hosts[B],
        }
    }

    /// Where connections to a VIP are sent.
    pub(crate) fn backend(&self, vip: IpAddr) -> SocketAddr {
        let address: IpAddr = match (self.backend, vip) {
            (Backend::OnThirdHost, IpAddr::V4(_)) => address(THIRD).into(),
            (Backend::OnThirdHost, IpAddr::V6(_)) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 4).into(),
            (Backend::OfSecondNode, IpAddr::V4(_)) => address(B).into(),
            (Backend::OfSecondNode, IpAddr::V6(_)) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2).into(),
            (Backend::OnSecondNode, IpAddr::V4(_)) => POD.into(),
            (Backend::OnSecondNode, IpAddr::V6(_)) => POD6.into(),
        };
        SocketAddr::new(address, BACKEND_PORT)
    }

    /// As kube-proxy's nftables mode and the guard make them, for one Service of TCP and UDP and of both families.
    fn rules(&self, from_the_vip: bool) -> String {
        let of_family = |family: &str, vip: IpAddr| kube_proxy(family, vip, self.backend(vip));
        let sources = |family: &str, vip: IpAddr| {
            format!(
                "table {family} sources {{
                   chain sources {{
                     type nat hook postrouting priority 90;
                     ct original {family} daddr {vip} meta mark & 0x4000 != 0 snat to {vip} fully-random
                   }}
                 }}\n"
            )
        };
        let all = |rules: &dyn Fn(&str, IpAddr) -> String| rules("ip", VIPS[0]) + &rules("ip6", VIPS[1]);
        if from_the_vip { all(&of_family) + &all(&sources) } else { all(&of_family) }
    }

    pub(crate) fn client(&self) -> &Host {
        &self.lan.hosts[CLIENT]
    }

    pub(crate) fn node(&self, node: usize) -> &Host {
        &self.lan.hosts[node]
    }

    /// From now on this node gets what is for the VIPs.
    pub(crate) fn move_to(&self, node: usize) {
        let mac: Vec<_> = mac(&self.lan.hosts[node]).iter().map(|byte| format!("{byte:02x}")).collect();
        for host in self.lan.hosts.iter().enumerate().filter(|(n, _)| *n != node).map(|(_, host)| host) {
            for vip in VIPS {
                host.ip(&format!("neigh replace {vip} lladdr {} dev eth0 nud permanent", mac.join(":")));
            }
        }
    }

    /// The first node dies, and the second has the VIPs.
    pub(crate) fn first_node_dies(&self) {
        self.lan.pull_cable(A);
        self.move_to(B);
    }

    pub(crate) fn tracking(&self, node: usize) -> Tracking {
        self.node(node).run(|| Tracking::open().expect("open connection tracking"))
    }

    pub(crate) fn connect(&self, vip: IpAddr) -> TcpStream {
        connect(self.client(), vip, PORT).expect("connect")
    }

    /// Connections of each family.
    pub(crate) fn connections(&self, of_each: usize) -> Vec<TcpStream> {
        VIPS.iter().flat_map(|vip| (0..of_each).map(|_| self.connect(*vip))).collect()
    }

    /// Sockets of each family that have spoken with the backend.
    pub(crate) fn flows(&self, of_each: usize) -> Vec<UdpSocket> {
        VIPS.iter().flat_map(|vip| (0..of_each).map(|_| flow(self.client(), *vip))).collect()
    }
}

/// A socket of the client that speaks with the VIP.
pub(crate) fn flow(client: &Host, vip: IpAddr) -> UdpSocket {
    let socket = client.run(move || {
        let any: IpAddr =
            if vip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0)).unwrap();
        socket.connect((vip, PORT)).unwrap();
        socket
    });
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket
}

/// As kube-proxy's nftables mode makes them, for one Service of TCP and UDP.
pub(crate) fn kube_proxy(family: &str, vip: IpAddr, backend: SocketAddr) -> String {
    format!(
        "table {family} kube-proxy {{
           chain nat-prerouting {{
             type nat hook prerouting priority dstnat;
             {family} daddr {vip} meta l4proto {{ tcp, udp }} th dport {PORT} meta mark set meta mark | 0x4000 dnat to {backend}
           }}
           chain nat-postrouting {{
             type nat hook postrouting priority srcnat;
             meta mark & 0x4000 != 0 meta mark set meta mark ^ 0x4000 masquerade fully-random
           }}
         }}\n"
    )
}

/// Sets a sysctl below `net`.
pub(crate) fn set(host: &Host, setting: &'static str, value: &'static str) {
    host.run(move || std::fs::write(format!("/proc/sys/net/{setting}"), value).unwrap());
}

/// Echoes what comes by TCP; by UDP, with the source address before it.
pub(crate) fn serve(host: &Host) {
    let listener = listen(host, BACKEND_PORT);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || io::copy(&mut &stream, &mut &stream));
        }
    });
    let socket = host.run(|| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, BACKEND_PORT))).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((_, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(from.to_string().as_bytes(), from);
        }
    });
}

/// Whether what is said comes back, of this length.
pub(crate) fn echoes(stream: &TcpStream, length: usize) -> bool {
    echo(stream, length).is_ok()
}

fn echo(stream: &TcpStream, length: usize) -> io::Result<()> {
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let said: Vec<u8> = (0..length).map(|n| u8::try_from(n % 251).unwrap()).collect();
    let (mut writer, to_say) = (stream.try_clone().unwrap(), said.clone());
    let speaker = std::thread::spawn(move || writer.write_all(&to_say));
    let mut heard = vec![0; length];
    let came = (&mut &*stream).read_exact(&mut heard);
    if came.is_err() {
        // The other end may be gone without a word.
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
    let spoke = speaker.join().unwrap();
    came.and(spoke)?;
    if heard == said { Ok(()) } else { Err(io::Error::other("something else came")) }
}

/// The number of these connections that go on. The others are shown.
pub(crate) fn kept(streams: &[TcpStream]) -> usize {
    // All at the same time: what is lost shows only after a while.
    std::thread::scope(|scope| {
        let asked: Vec<_> = streams.iter().map(|stream| scope.spawn(|| echo(stream, 5))).collect();
        let told = asked.into_iter().zip(streams).map(|(one, stream)| match one.join().unwrap() {
            Ok(()) => 1,
            Err(error) => {
                println!("lost: {:?} to {:?}: {error}", stream.local_addr(), stream.peer_addr());
                0
            }
        });
        told.sum()
    })
}

/// By which source address the backend knows the flow.
pub(crate) fn asked(socket: &UdpSocket) -> String {
    let mut buffer = [0; 64];
    await_some("an answer by UDP", || {
        socket.send(b"?").ok()?;
        let length = socket.recv(&mut buffer).ok()?;
        Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
    })
}

/// What is listed there, of both families, in order.
pub(crate) fn listed(tracking: &mut Tracking) -> Vec<Connection> {
    let vips = VIPS.into();
    let mut found = Vec::new();
    for family in [Family::V4, Family::V6] {
        tracking.list(family, &vips, |connection, _| found.push(connection)).expect("list");
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Lists until there are so many.
pub(crate) fn await_listed(tracking: &mut Tracking, many: usize) -> Vec<Connection> {
    await_some("tracked connections", || Some(listed(tracking)).filter(|found| found.len() == many))
}

/// The connection as the client's socket knows it.
pub(crate) fn key_of(stream: &TcpStream) -> ConnectionKey {
    ConnectionKey {
        transport: Transport::Tcp,
        client: stream.local_addr().unwrap(),
        vip: stream.peer_addr().unwrap(),
    }
}

pub(crate) fn all_new(outcomes: &Result<Vec<Inserted>, TrackingError>) -> bool {
    outcomes.as_ref().is_ok_and(|outcomes| outcomes.iter().all(|outcome| *outcome == Inserted::New))
}

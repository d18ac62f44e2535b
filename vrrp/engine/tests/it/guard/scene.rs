//! A client, a node with a guard, and a pod behind the node. The client takes the node to have the VIPs: what an
//! Active's ARP replies do, without VRRP.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use windlass_dataplane::guard::{Guard, Guarded};

use crate::lab::{Host, LIMIT, Lan, VIP, mac};

pub(super) const VIP6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x50);
pub(super) const NODE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
pub(super) const NODE6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
pub(crate) const POD: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
pub(crate) const POD6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2);
/// Where the pod echoes.
pub(crate) const POD_PORT: u16 = 8080;
pub(super) const TABLE: &str = "windlass";

pub(super) struct Scene {
    lan: Lan,
    pub(super) pod: Host,
}

impl Scene {
    pub(super) fn new() -> Self {
        let scene = Self { lan: Lan::new(2), pod: Host::new() };
        let (client, node) = (scene.client(), scene.node());
        for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            node.run(move || std::fs::write(format!("/proc/sys/net/{setting}"), "1").unwrap());
        }
        node.ip("link set lo up");
        client.ip("addr add 2001:db8::1/64 dev eth0 nodad");
        node.ip("addr add 2001:db8::2/64 dev eth0 nodad");
        let node_mac = mac(node).iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":");
        for vip in [IpAddr::from(VIP), VIP6.into()] {
            client.ip(&format!("neigh replace {vip} lladdr {node_mac} dev eth0 nud permanent"));
        }
        let pod = scene.pod.run(nix::unistd::gettid);
        node.ip(&format!("link add pod0 type veth peer name eth0 netns {pod}"));
        for (host, device, id) in [(node, "pod0", 1), (&scene.pod, "eth0", 2)] {
            host.ip(&format!("link set {device} up"));
            host.ip(&format!("addr add 198.51.100.{id}/24 dev {device}"));
            host.ip(&format!("addr add 2001:db8:1::{id}/64 dev {device} nodad"));
        }
        scene.pod.ip("route add default via 198.51.100.1");
        scene.pod.ip("route add default via 2001:db8:1::1");
        let listener = listen(&scene.pod, POD_PORT);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || io::copy(&mut &stream, &mut &stream));
            }
        });
        let socket = scene.pod.run(|| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, POD_PORT))).unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 16];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let _ = socket.send_to(&buffer[..length], from);
            }
        });
        scene
    }

    pub(super) fn client(&self) -> &Host {
        &self.lan.hosts[0]
    }

    pub(super) fn node(&self) -> &Host {
        &self.lan.hosts[1]
    }

    /// Installs a guard on the node that knows no VIP.
    pub(super) fn install(&self) -> Guard {
        self.node().run(|| Guard::install(TABLE, &Guarded::default())).expect("install the guard")
    }

    /// Installs a guard on the node that guards the VIPs.
    pub(super) fn guard(&self) -> Guard {
        let mut guard = self.install();
        guard.update(&both_held()).expect("update the guard");
        guard
    }
}

/// Both VIPs on the Active.
pub(super) fn both_held() -> Guarded {
    let vips = [IpAddr::from(VIP), VIP6.into()];
    Guarded { vips: vips.into(), held: vips.into(), ..Guarded::default() }
}

/// A server of both families on all addresses of the host.
pub(crate) fn listen(host: &Host, port: u16) -> TcpListener {
    host.run(move || TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).expect("listen"))
}

/// Opens a connection.
pub(crate) fn connect(host: &Host, to: impl Into<IpAddr>, port: u16) -> io::Result<TcpStream> {
    connect_within(host, to, port, LIMIT)
}

/// Opens so many connections of the host, to one place after the other, while this is done again and again. What became of each.
pub(crate) fn connect_while(
    host: &Host,
    count: usize,
    places: Vec<SocketAddr>,
    mut step: impl FnMut(),
) -> Vec<io::Result<()>> {
    let hammer = host.run(move || {
        std::thread::spawn(move || {
            places.iter().cycle().take(count).map(|place| TcpStream::connect(place).map(drop)).collect()
        })
    });
    while !hammer.is_finished() {
        step();
    }
    hammer.join().unwrap()
}

pub(super) fn connect_within(
    host: &Host,
    to: impl Into<IpAddr>,
    port: u16,
    limit: Duration,
) -> io::Result<TcpStream> {
    let to = SocketAddr::new(to.into(), port);
    let stream = host.run(move || TcpStream::connect_timeout(&to, limit))?;
    stream.set_read_timeout(Some(LIMIT))?;
    Ok(stream)
}

/// Whether what is said comes back on the connection.
pub(super) fn echoes(mut stream: &TcpStream) -> bool {
    let mut heard = [0; 5];
    stream.write_all(b"hello").and_then(|()| stream.read_exact(&mut heard)).is_ok() && &heard == b"hello"
}

/// Sends a datagram and receives the answer.
pub(super) fn ask_udp(host: &Host, to: impl Into<IpAddr>, port: u16) -> io::Result<usize> {
    let to = SocketAddr::new(to.into(), port);
    host.run(move || {
        let any: IpAddr =
            if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(to)?;
        socket.set_read_timeout(Some(LIMIT))?;
        socket.send(b"?")?;
        socket.recv(&mut [0; 1])
    })
}

/// Asks by ping until an answer comes, for this many seconds.
pub(crate) fn pings(host: &Host, to: impl Into<IpAddr>, seconds: u32) -> bool {
    pings_with(host, to, seconds, 56)
}

/// As [`pings`], with this many bytes. A single question may fail: a host joins the group in which it is asked for its IPv6 address by a
/// queue of the whole kernel, which a busy machine holds up for seconds.
pub(crate) fn pings_with(host: &Host, to: impl Into<IpAddr>, seconds: u32, bytes: usize) -> bool {
    let deadline = Instant::now() + Duration::from_secs(seconds.into());
    let line = format!("-n -c 1 -W 1 -s {bytes} {}", to.into());
    loop {
        let line = line.clone();
        let output = host.run(move || Command::new("ping").args(line.split(' ')).output());
        if output.expect("run `ping`").status.success() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
    }
}

/// Runs a program in the host's namespace, with this input; its output, or `None` if it failed.
pub(crate) fn try_run(host: &Host, line: &str, input: &str) -> Option<String> {
    let (line, input) = (line.to_owned(), input.to_owned());
    let output = host.run(move || {
        let mut words = line.split(' ');
        let mut child = Command::new(words.next().unwrap())
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    });
    if !output.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

/// As [`try_run`]; failure ends the test.
pub(crate) fn run(host: &Host, line: &str, input: &str) -> String {
    try_run(host, line, input).unwrap_or_else(|| panic!("{line} failed"))
}

/// How many packets for VIPs the guard did this to.
pub(crate) fn refused(host: &Host, how: Refused) -> u64 {
    let chain = run(host, &format!("nft list chain inet {TABLE} refuse"), "");
    let rule = |line: &&str| match how {
        Refused::Reset => line.contains("tcp reset"),
        Refused::Unreachable => line.contains("reject") && !line.contains("tcp reset"),
        Refused::Invalid => line.contains("ct state invalid"),
    };
    let (_, counted) =
        chain.lines().find(rule).expect("the rule").split_once("packets ").expect("its counter");
    counted.split(' ').next().unwrap().parse().unwrap()
}

/// The rules that count.
#[derive(Clone, Copy)]
pub(crate) enum Refused {
    Reset,
    Unreachable,
    Invalid,
}

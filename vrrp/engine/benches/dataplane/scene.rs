//! A client, a node that forwards, and a pod.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::sync::Arc;
use std::thread;

use ipnet::Ipv4Net;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBufForce;
use nix::unistd::Pid;
use windlass_dataplane::guard::{Guard, Guarded, Moved, UnknownConnections};
use windlass_engine::{Engine, Protocol, ProtocolPort, Restrictions};

use crate::lab::{Host, LIMIT, address};
use crate::rules::kube_proxy;
use crate::shared::nft;
use crate::sharing;

/// Port of the VIPs and of the pod.
pub(crate) const PORT: u16 = 80;
const POD: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, 2), PORT);
/// Mark of the connections of the previous Active, among the bits that the guard uses by default.
const MARK: u32 = 0x10;
/// Bytes of the pod's queue: more than arrive while its thread waits for a processor for some 100 ms.
const QUEUE: usize = 32 << 20;
/// Threads that accept connections.
const ACCEPTORS: usize = 2;

/// Path of the packets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// From the client to a port of a VIP, which the node translates.
    Service,
    /// From the client to the pod's own address.
    Pod,
}

/// Processors of the threads.
#[derive(Clone, Copy)]
pub(crate) enum Core {
    /// The first: of threads that send.
    Client,
    /// The last: of threads that receive in the pod.
    Pod,
}

impl Core {
    /// Keeps the calling thread on this processor.
    pub(crate) fn pin(self) {
        let number = match self {
            Self::Client => 0,
            Self::Pod => thread::available_parallelism().map_or(1, usize::from) - 1,
        };
        let mut set = CpuSet::new();
        set.set(number).unwrap();
        sched_setaffinity(Pid::from_raw(0), &set).unwrap();
    }
}

/// Software on the node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum System {
    /// kube-proxy alone.
    KubeProxy,
    /// The guard as well.
    Guard,
    /// The guard while another node has handed all VIPs over, so that their unknown connections are forwarded to it.
    Forwarding,
    /// The guard with all VIPs as replicated ones, and as the source of translated packets.
    Replicate,
    /// The guard, and another node serves all UDP packets for the VIPs: the pod, without translation.
    Sharing,
}

impl System {
    /// All of them: a round takes them in this order.
    pub(crate) const ALL: [Self; 5] =
        [Self::KubeProxy, Self::Guard, Self::Forwarding, Self::Replicate, Self::Sharing];

    /// Name in settings and rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::KubeProxy => "kube-proxy",
            Self::Guard => "guard",
            Self::Forwarding => "guard-forwarding",
            Self::Replicate => "guard-replicate",
            Self::Sharing => "sharing",
        }
    }

    /// Returns true if the system can have these VIPs: agents share 2,184 at most, and the director ignores source ranges.
    pub(crate) fn takes(self, setup: Setup) -> bool {
        self != Self::Sharing || setup.vips <= 1000 && !setup.has_sources
    }
}

/// VIPs of the node.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    /// Their number.
    pub(crate) vips: u32,
    /// True if each port of each VIP has source ranges.
    pub(crate) has_sources: bool,
}

impl Setup {
    fn vips(self) -> Vec<Ipv4Addr> {
        (0..self.vips).map(|number| Ipv4Addr::from_bits(0xc613_0000 + number)).collect()
    }

    /// The source ranges of each port: the client's network and another.
    fn sources(self) -> Vec<Ipv4Net> {
        let ranges = [address(0), Ipv4Addr::new(203, 0, 113, 0)];
        let ranges = ranges.into_iter().filter(|_| self.has_sources);
        ranges.map(|address| Ipv4Net::new(address, 24).unwrap().trunc()).collect()
    }

    fn restrictions(self) -> Restrictions {
        let ports = [Protocol::Tcp, Protocol::Udp].map(|protocol| ProtocolPort { protocol, port: PORT });
        let mut restrictions = Restrictions::default();
        for vip in self.vips() {
            restrictions.only_ports(vip.into(), ports);
            if self.has_sources {
                restrictions.restrict(vip.into(), ports, self.sources().into_iter().map(Into::into));
            }
        }
        restrictions
    }
}

/// Namespaces of the client, the node and the pod, with what runs in them.
pub(crate) struct Scene {
    /// Namespace of the client.
    pub(crate) client: Host,
    /// True if the node directs packets for VIPs to another node.
    pub(crate) is_director: bool,
    node: Host,
    /// Socket of the pod that receives datagrams.
    pub(crate) datagrams: UdpSocket,
    vips: Vec<Ipv4Addr>,
    _pod: Host,
    _guard: Option<Guard>,
}

impl Scene {
    /// Makes the namespaces, and the tables of this system for these VIPs.
    pub(crate) fn new(system: System, setup: Setup) -> Self {
        let [client, node, pod] = [(); 3].map(|()| Host::new());
        connect(&client, &node, &pod);
        nft(&node, &kube_proxy(&setup.vips(), PORT, POD, &setup.sources()));
        let guard = (system != System::KubeProxy).then(|| guard(&node, system, setup));
        let is_director = system == System::Sharing;
        if is_director {
            sharing::direct([&client, &node, &pod], &setup.vips());
        }
        let datagrams = pod.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).unwrap());
        setsockopt(&datagrams, RcvBufForce, &QUEUE).unwrap();
        datagrams.set_read_timeout(Some(LIMIT)).unwrap();
        accept(&pod);
        Self { client, is_director, node, datagrams, vips: setup.vips(), _pod: pod, _guard: guard }
    }

    /// Destination of the flow with this number among `flows`: VIPs from all parts of the range, or the pod.
    pub(crate) fn destination(&self, path: Path, number: usize, flows: usize) -> SocketAddrV4 {
        match path {
            Path::Service => SocketAddrV4::new(self.vips[number * self.vips.len() / flows], PORT),
            Path::Pod => POD,
        }
    }

    /// Returns the number of packets that the node has received on both interfaces.
    pub(crate) fn received_by_node(&self) -> u64 {
        let text = self.node.run(|| std::fs::read_to_string("/proc/thread-self/net/dev").unwrap());
        let packets = |line: &str| -> Option<u64> {
            let (name, counters) = line.split_once(':')?;
            let is_port = matches!(name.trim(), "eth0" | "pod0");
            is_port.then(|| counters.split_whitespace().nth(1)?.parse().ok())?
        };
        text.lines().filter_map(packets).sum()
    }
}

/// Connects the client and the pod to the node, which forwards between them.
fn connect(client: &Host, node: &Host, pod: &Host) {
    let gateway = Ipv4Addr::new(198, 51, 100, 1);
    let links = [(client, "eth0", address(0), address(1)), (pod, "pod0", *POD.ip(), gateway)];
    for (host, port, own, of_node) in links {
        node.ip(&format!("link add {port} type veth peer name eth0 netns {}", host.tid()));
        for (end, device, address) in [(node, port, of_node), (host, "eth0", own)] {
            end.ip(&format!("addr add {address}/24 dev {device}"));
            end.ip(&format!("link set {device} up"));
        }
        host.ip(&format!("route add default via {of_node}"));
    }
    set(node, "ipv4/ip_forward", "1");
    set(client, "ipv4/ip_local_port_range", "1024 65535");
    // Entries of closed connections are few at any time.
    set(node, "netfilter/nf_conntrack_tcp_timeout_close", "1");
}

/// Writes a setting of the host's network.
pub(crate) fn set(host: &Host, setting: &str, value: &'static str) {
    let file = format!("/proc/sys/net/{setting}");
    host.run(move || std::fs::write(file, value).unwrap());
}

/// Returns the index of an interface of the host.
pub(crate) fn index(host: &Host, interface: &'static str) -> u32 {
    let interfaces = host.run(|| Engine::interfaces().unwrap());
    interfaces.into_iter().find(|info| info.name == interface).expect(interface).index
}

/// Installs the guard on the node that is Active for all VIPs.
fn guard(node: &Host, system: System, setup: Setup) -> Guard {
    let vips: BTreeSet<IpAddr> = setup.vips().into_iter().map(IpAddr::from).collect();
    let mut wanted = Guarded {
        vips: vips.clone(),
        held: vips.clone(),
        restrictions: Arc::new(setup.restrictions()),
        ..Guarded::default()
    };
    match system {
        System::KubeProxy | System::Guard | System::Sharing => {}
        System::Forwarding => {
            let moved = Moved { mark: Some(MARK), unknown: UnknownConnections::Forwarded };
            wanted.moved = Arc::new(vips.into_iter().map(|vip| (vip, moved)).collect());
        }
        System::Replicate => {
            let index = index(node, "eth0");
            wanted.movable = vips.iter().map(|vip| (*vip, index)).collect();
            wanted.replicated = vips;
        }
    }
    node.run(move || Guard::install("windlass", &wanted).expect("install the guard"))
}

/// Closes each connection to the pod when it is established, until the process ends.
fn accept(pod: &Host) {
    let listener = Arc::new(pod.run(|| TcpListener::bind(POD).unwrap()));
    for _ in 0..ACCEPTORS {
        let listener = Arc::clone(&listener);
        thread::spawn(move || {
            Core::Pod.pin();
            listener.incoming().flatten().for_each(drop);
        });
    }
}

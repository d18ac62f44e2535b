//! LANs of namespaces with both families: segments, each a bridge, and hosts with an interface on each of them.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Child, ChildStdin, Command, Stdio};

use nix::unistd::gettid;
use windlass_engine::Family;

use crate::lab::Host;
use crate::shared::OBSERVER;

/// Hosts on common segments. All of it goes with this value.
pub(crate) struct Site {
    bridges: Host,
    pub(crate) hosts: Vec<Host>,
}

impl Site {
    /// `hosts` hosts with the interfaces `eth0`, `eth1`, … on `segments` bridges.
    pub(crate) fn new(hosts: usize, segments: usize) -> Self {
        let bridges = Host::new();
        let hosts: Vec<Host> = (0..hosts).map(|_| Host::new()).collect();
        for segment in 0..segments {
            // Without snooping: groups are flooded, as on a LAN whose switches know nothing of them.
            bridges.ip(&format!("link add br{segment} type bridge mcast_snooping 0"));
            bridges.ip(&format!("link set br{segment} up"));
            for (n, host) in hosts.iter().enumerate() {
                let (port, interface) = (port(segment, n), interface(segment));
                let namespace = host.run(|| gettid().as_raw());
                bridges.ip(&format!("link add {port} type veth peer name {interface} netns {namespace}"));
                bridges.ip(&format!("link set {port} master br{segment} up"));
                host.ip(&format!("link set {interface} addrgenmode none"));
                host.ip(&format!("link set {interface} up"));
                host.ip(&format!("addr add {}/16 dev {interface}", ipv4(segment, n)));
                // Without duplicate address detection: an address in doubt cannot be sent from.
                host.ip(&format!("addr add {}/64 dev {interface} nodad", link_local(segment, n)));
                host.ip(&format!("addr add {}/64 dev {interface} nodad", ipv6(segment, n)));
            }
        }
        Self { bridges, hosts }
    }

    /// A hand on the cable of a host on a segment.
    pub(crate) fn cable(&self, segment: usize, host: usize) -> Cable {
        let mut child = self.bridges.run(|| {
            // Waits for a line, so that a pull takes no time to begin, whatever loads the machine.
            Command::new("chrt")
                .args(["-f", OBSERVER, "ip", "-force", "-batch", "-"])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .expect("run `chrt` and `ip`")
        });
        let orders = child.stdin.take().expect("its standard input is a pipe");
        Cable { orders, _child: child, port: port(segment, host) }
    }
}

/// See [`Site::cable`].
pub(crate) struct Cable {
    orders: ChildStdin,
    /// Ends with its orders.
    _child: Child,
    port: String,
}

impl Cable {
    pub(crate) fn pull(&mut self) {
        self.order("down");
    }

    pub(crate) fn plug(&mut self) {
        self.order("up");
    }

    fn order(&mut self, state: &str) {
        writeln!(self.orders, "link set {} {state}", self.port).expect("`ip` waits for orders");
    }
}

fn port(segment: usize, host: usize) -> String {
    format!("port{segment}-{host}")
}

/// Name of a host's interface on a segment.
pub(crate) fn interface(segment: usize) -> String {
    format!("eth{segment}")
}

fn byte(number: usize) -> u8 {
    u8::try_from(number).expect("a small number")
}

/// Address of a host on a segment.
pub(crate) fn ipv4(segment: usize, host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, byte(segment), 0, byte(host + 1))
}

fn ipv6(segment: usize, host: usize) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, u16::from(byte(segment)), 0, 0, 0, u16::from(byte(host + 1)))
}

/// Link-local address of a host on a segment.
pub(crate) fn link_local(segment: usize, host: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, u16::from(byte(segment)), u16::from(byte(2 * (host + 1))))
}

/// Source of the adverts that leave by a host's interface on the first segment.
pub(crate) fn source(family: Family, host: usize) -> IpAddr {
    source_on(family, 0, host)
}

/// Source of the adverts that leave by a host's interface on a segment.
pub(crate) fn source_on(family: Family, segment: usize, host: usize) -> IpAddr {
    match family {
        Family::V4 => ipv4(segment, host).into(),
        Family::V6 => link_local(segment, host).into(),
    }
}

/// The VIP with this number on a segment.
pub(crate) fn vip(family: Family, segment: usize, number: usize) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, byte(segment), byte(1 + number / 250), byte(1 + number % 250)).into(),
        Family::V6 => {
            let number = u16::try_from(number).expect("a small number");
            Ipv6Addr::new(0x2001, 0xdb8, 0, u16::from(byte(segment)), 1, 0, 0, number).into()
        }
    }
}

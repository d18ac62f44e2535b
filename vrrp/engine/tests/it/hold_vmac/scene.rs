//! Routers that hold their VIPs by virtual MAC address, a client, and what can be seen of them.

use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use windlass_engine::{Hold, RouterConfig};

use crate::interop::site::sysctl;
use crate::lab::{Host, Lan, VIP, address, address_v6, await_some, router};
use crate::lab6::VIP6;

/// Port of the service on the VIPs.
pub(crate) const PORT: u16 = 7007;

/// A family to try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const BOTH: [Self; 2] = [Self::V4, Self::V6];

    pub(crate) fn vip(self) -> IpAddr {
        match self {
            Self::V4 => VIP.into(),
            Self::V6 => VIP6.into(),
        }
    }

    pub(crate) fn virtual_mac(self) -> &'static str {
        match self {
            Self::V4 => "00:00:5e:00:01:07",
            Self::V6 => "00:00:5e:00:02:07",
        }
    }

    /// The device on a host whose `eth0` has this index.
    pub(crate) fn device(self, host: &Host) -> String {
        let family = match self {
            Self::V4 => 4,
            Self::V6 => 6,
        };
        format!("wl{family}-{}-7", index(host))
    }

    /// The VIP as `ip` shows it when the engine has bound it.
    pub(crate) fn bound(self) -> String {
        match self {
            Self::V4 => format!(" {VIP}/32 "),
            Self::V6 => format!(" {VIP6}/128 "),
        }
    }
}

/// A LAN whose hosts have addresses of both families.
pub(crate) fn lan(hosts: usize) -> Lan {
    let lan = Lan::new(hosts).with_link_local();
    for (n, host) in lan.hosts.iter().enumerate() {
        host.ip(&format!("addr add 2001:db8::{:x}/64 dev eth0 nodad", n + 1));
    }
    lan
}

/// VRID 7 of `candidates` hosts at 100 ms, on the host with this index, holding its VIP by the virtual MAC address.
pub(crate) fn config(family: Family, host: usize, candidates: usize) -> RouterConfig {
    let v4 = RouterConfig { hold: Hold::Vmac, accept: true, ..router(host, candidates) };
    match family {
        Family::V4 => v4,
        Family::V6 => RouterConfig {
            source: address_v6(host).into(),
            peers: (0..candidates).filter(|n| *n != host).map(|n| address_v6(n).into()).collect(),
            addresses: [VIP6.into()].into(),
            ..v4
        },
    }
}

/// Address of the host with this index in which it is reached with certainty.
pub(crate) fn own_address(family: Family, host: usize) -> IpAddr {
    match family {
        Family::V4 => address(host).into(),
        Family::V6 => format!("2001:db8::{:x}", host + 1).parse().unwrap(),
    }
}

/// Index of its `eth0`.
fn index(host: &Host) -> String {
    let shown = said(host, "ip -o link show dev eth0").expect("eth0");
    shown.split(':').next().unwrap_or_default().to_owned()
}

/// What a command says, if it succeeds.
pub(crate) fn said(host: &Host, line: &str) -> Option<String> {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let output =
        host.run(move || Command::new(&words[0]).args(&words[1..]).output().expect("run the command"));
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What `ip` shows of the device.
pub(crate) fn device(host: &Host, name: &str) -> Option<String> {
    said(host, &format!("ip -o -d link show dev {name}"))
}

/// Waits until the device is there and up or down.
pub(crate) fn await_device(host: &Host, name: &str, up: bool) -> String {
    await_some(&format!("{name} with up={up}"), || {
        device(host, name).filter(|shown| shown.contains("UP,LOWER_UP") == up)
    })
}

/// The lines of the addresses on an interface.
pub(crate) fn addresses(host: &Host, name: &str) -> Vec<String> {
    let shown = said(host, &format!("ip -o address show dev {name}")).unwrap_or_default();
    shown.lines().map(str::to_owned).collect()
}

/// Waits until the VIP is on the device, or is not.
pub(crate) fn await_vip(host: &Host, family: Family, there: bool) {
    let (name, vip) = (family.device(host), family.bound());
    await_some(&format!("VIP on {name}: {there}"), || {
        (addresses(host, &name).iter().any(|line| line.contains(&vip)) == there).then_some(())
    });
}

/// The kernel parameter of the host.
pub(crate) fn parameter(host: &Host, name: &str) -> String {
    let path = format!("/proc/sys/{name}");
    host.run(move || fs::read_to_string(&path).unwrap()).trim().to_owned()
}

/// Has the host answer what comes to the VIP's port, by its index.
pub(crate) fn serve(host: &Host, family: Family, number: u8) {
    // Bound to the VIP, so that the answer comes from there, also while the VIP is elsewhere.
    sysctl(host, "net/ipv4/ip_nonlocal_bind", "1");
    sysctl(host, "net/ipv6/ip_nonlocal_bind", "1");
    let socket = host.run(move || UdpSocket::bind((family.vip(), PORT)).unwrap());
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            buffer[length] = number;
            // Refused while the VIP is elsewhere.
            let _ = socket.send_to(&buffer[..=length], from);
        }
    });
}

/// A client of the VIP's service.
pub(crate) struct Client(UdpSocket);

impl Client {
    pub(crate) fn on(host: &Host, family: Family) -> Self {
        Self::of(host, SocketAddr::new(family.vip(), PORT))
    }

    pub(crate) fn of(host: &Host, service: SocketAddr) -> Self {
        let any = if service.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
        Self(host.run(move || {
            let socket = UdpSocket::bind(any).unwrap();
            socket.connect(service).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            socket
        }))
    }

    /// Which host answers, if one does soon.
    pub(crate) fn ask(&self) -> Option<u8> {
        let _ = self.0.send(b"who?");
        let mut buffer = [0; 64];
        self.0.recv(&mut buffer).ok().map(|length| buffer[length - 1])
    }

    /// Asks until this host answers.
    pub(crate) fn await_answer(&self, number: u8) {
        await_some(&format!("answer of host {number}"), || self.ask().filter(|answer| *answer == number));
    }
}

/// The client's neighbour entry of the VIP.
pub(crate) fn neighbour(client: &Host, family: Family) -> String {
    said(client, &format!("ip neigh show {} dev eth0", family.vip())).unwrap_or_default().trim().to_owned()
}

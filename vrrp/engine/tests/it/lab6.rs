//! The LAN of [`crate::lab`] for IPv6.

use std::net::{IpAddr, Ipv6Addr, UdpSocket};

use windlass_engine::{Engine, Priority, RouterConfig, Vrid};

use crate::lab::{Host, Lan, await_some, interval};

/// The VIP of the tests for IPv6.
pub(crate) const VIP6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x50);

/// Link-local address of the host's `eth0`, once duplicate address detection has passed it.
pub(crate) fn link_local(host: &Host) -> Ipv6Addr {
    await_some("link-local address", || {
        let all = host.run(|| Engine::interfaces().expect("list interfaces"));
        let eth0 = all.into_iter().find(|info| info.name == "eth0")?;
        eth0.ipv6.into_iter().map(|(address, _)| address).find(Ipv6Addr::is_unicast_link_local)
    })
}

/// Gives the host an address of the VIP's prefix.
pub(crate) fn number(host: &Host, last: u16) {
    host.ip(&format!("addr add 2001:db8::{last:x}/64 dev eth0 nodad"));
}

/// VRID 7 for IPv6 of the first `candidates` hosts, on the host with this index. Priorities fall with the index.
pub(crate) fn router6(lan: &Lan, host: usize, candidates: usize) -> RouterConfig {
    let sources: Vec<IpAddr> = lan.hosts[..candidates].iter().map(|host| link_local(host).into()).collect();
    RouterConfig {
        priority: Priority::new(240 - 60 * u8::try_from(host).unwrap()).unwrap(),
        interval: interval(),
        peers: sources.iter().copied().filter(|source| *source != sources[host]).collect(),
        addresses: [VIP6.into()].into(),
        ..RouterConfig::new("eth0", Vrid::new(7).unwrap(), sources[host])
    }
}

/// Makes the host's kernel ask who has this address.
pub(crate) fn ask_for(host: &Host, address: IpAddr) {
    host.run(move || {
        let socket = match address {
            IpAddr::V4(_) => UdpSocket::bind("0.0.0.0:0"),
            IpAddr::V6(_) => UdpSocket::bind("[::]:0"),
        };
        // Port 9, discard: what matters is the question before it.
        socket.unwrap().send_to(b"x", (address, 9)).unwrap();
    });
}

/// Neighbour advertisements of this address: destination, flags, target's link-layer address.
pub(crate) fn advertisement_of(address: Ipv6Addr) -> impl Fn(&[u8]) -> Option<(Ipv6Addr, u8, Vec<u8>)> {
    move |frame| {
        let message = neighbour_discovery(frame, 136)?;
        let destination = Ipv6Addr::from(<[u8; 16]>::try_from(&frame[38..54]).ok()?);
        let target = message.get(8..24)? == address.octets();
        target.then(|| (destination, message[4], message.get(26..32).unwrap_or_default().to_vec()))
    }
}

/// The message, if the frame is neighbour discovery of this type.
pub(crate) fn neighbour_discovery(frame: &[u8], kind: u8) -> Option<&[u8]> {
    let found = frame.get(12..14)? == [0x86, 0xdd] && frame.get(20)? == &58 && frame.get(54)? == &kind;
    found.then(|| &frame[54..])
}

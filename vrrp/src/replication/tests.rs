use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::auth::{AuthMode, Key, KeyId, Keyring};
use crate::units::Time;

mod envelope;
mod golden;
mod histories;
mod hostile;
mod pair;
mod simulator;
mod table;
mod wire;

fn vip(number: u8) -> IpAddr {
    match number % 2 {
        0 => Ipv4Addr::new(203, 0, 113, number).into(),
        _ => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 1, u16::from(number)).into(),
    }
}

fn vips(count: u8) -> Arc<BTreeSet<IpAddr>> {
    Arc::new((0..count).map(vip).collect())
}

/// A connection of this VIP, another one for each number; `backend` is what may change of it.
fn connection(vip_number: u8, number: u32, backend: u8) -> Connection {
    let ip = vip(vip_number);
    let [_, high, middle, low] = number.to_be_bytes();
    let host = |net: u8, low: u8| -> IpAddr {
        match ip {
            IpAddr::V4(_) => Ipv4Addr::new(10, net, middle, low).into(),
            IpAddr::V6(_) => {
                Ipv6Addr::new(0xfd00, u16::from(net), 0, 0, 0, 0, u16::from(middle), u16::from(low)).into()
            }
        }
    };
    let transport = if number.is_multiple_of(7) { Transport::Udp } else { Transport::Tcp };
    let client = SocketAddr::new(host(1, low), 40_000 + u16::from(high));
    let key = ConnectionKey { transport, client, vip: SocketAddr::new(ip, 443) };
    let source = match number % 3 {
        0 => SocketAddr::new(ip, 50_000 + u16::from(low)),
        1 => client,
        _ => SocketAddr::new(host(2, low), 60_000),
    };
    Connection { key, backend: SocketAddr::new(host(244, backend), 8443), source }
}

fn keyring(secret: u8) -> Keyring {
    Keyring::new(KeyId::new(1).unwrap(), Key::new(&[secret; 32]).unwrap())
}

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

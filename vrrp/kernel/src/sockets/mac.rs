//! Link-layer addresses.

use std::net::{IpAddr, Ipv6Addr};

/// A link-layer address.
pub type Mac = [u8; 6];

/// Returns the link-layer address of a group (RFC 1112 §6.4, RFC 2464 §7); `None` if the address is no group.
pub fn group_mac(group: IpAddr) -> Option<Mac> {
    match group {
        IpAddr::V4(group) if group.is_multicast() => {
            let [_, b, c, d] = group.octets();
            Some([0x01, 0x00, 0x5e, b & 0x7f, c, d])
        }
        IpAddr::V6(group) if group.is_multicast() => Some(group_mac_v6(group)),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}

/// Returns the link-layer address of an IPv6 group (RFC 2464 §7).
pub fn group_mac_v6(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}

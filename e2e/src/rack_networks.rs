//! Networks of the racks of a control plane (`racks.rs`).

use std::net::Ipv4Addr;

/// The VIP of the API servers.
pub(crate) const VIP: Ipv4Addr = Ipv4Addr::new(198, 18, 255, 1);
/// AS of the nodes.
pub(crate) const NODES_ASN: u32 = 64512;

/// Number of the network of an address: 0 of the routers, 1 and 2 of the racks; `None` for the LAN.
pub(crate) fn network(address: Ipv4Addr) -> Option<u8> {
    match address.octets() {
        [198, 18, network, _] => Some(network),
        _ => None,
    }
}

/// Name of the bridge of a network.
pub(crate) fn bridge(network: u8) -> String {
    format!("rack{network}")
}

/// The router of a network.
pub(crate) fn gateway(network: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, network, 1)
}

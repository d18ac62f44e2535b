//! Tools of the tests: hexadecimal text, and a listener that takes nothing that a strict router would refuse.

use std::net::{IpAddr, Ipv4Addr};

use crate::units::Prefix;

mod listener;

pub(crate) use listener::{Listener, Route};

/// The node of all examples.
pub(crate) const NODE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 11);
pub(crate) const NODE_V6: &str = "2001:db8:0:1::11";

pub(crate) fn prefix(text: &str) -> Prefix {
    match text.parse::<IpAddr>() {
        Ok(address) => address.try_into().unwrap(),
        Err(_) => Prefix::new(text.parse().unwrap()).unwrap(),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Bytes of a text in which `M` stands for the marker and spaces for nothing.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let text = text.replace(' ', "").replace('M', &"ff".repeat(16));
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

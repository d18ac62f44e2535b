use std::collections::BTreeSet;

use super::*;
use crate::tests::{NODE, NODE_V6, hex, prefix, unhex};
use crate::units::{Asn, HoldTime, Prefix, RouterId};

mod golden;
mod packing;
mod properties;
mod refusals;
mod routes;

fn asn(number: u32) -> Asn {
    Asn::new(number).unwrap()
}

fn open(number: u32, hold: u16, families: &[Family]) -> Open {
    Open {
        asn: asn(number),
        hold_time: HoldTime::new(hold).unwrap(),
        router_id: RouterId::new(NODE).unwrap(),
        capabilities: Capabilities {
            families: families.iter().copied().collect(),
            route_refresh: true,
            extended_next_hop: false,
            four_octet_as: Some(number),
        },
    }
}

fn external(local_as: u32) -> Peering {
    Peering {
        local_as: asn(local_as),
        is_internal: false,
        four_octet: true,
        ipv4: Some(NextHop::V4(NODE)),
        ipv6: Some(NextHopV6(NODE_V6.parse().unwrap(), None)),
    }
}

fn communities(of: &[Community]) -> Communities<Community> {
    Communities::new(of.iter().copied()).unwrap()
}

/// One UPDATE that announces these prefixes of one family, which must fit.
fn announcement(peering: &Peering, attributes: &Attributes, prefixes: &[&str]) -> Vec<u8> {
    let prefixes: Vec<Prefix> = prefixes.iter().map(|text| prefix(text)).collect();
    let family = prefixes[0].family();
    let next_hop = peering.next_hop(family).unwrap();
    let mut out = Vec::new();
    let attributes = attributes.encode(peering, next_hop);
    assert_eq!(announce(&mut out, family, next_hop, &attributes, prefixes.iter().copied()), prefixes.len());
    out
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

/// The only message of these bytes.
fn decoded(bytes: &[u8]) -> Result<Message, Notification> {
    decode(bytes).map(|message| {
        let (message, length) = message.expect("a whole message");
        assert_eq!(length, bytes.len());
        message
    })
}

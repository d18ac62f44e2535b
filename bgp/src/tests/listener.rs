//! Strict decoder of our UPDATEs, written apart from the encoder: it panics at what RFC 4271 or RFC 7606 forbids to send.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::units::{Family, Prefix};

/// A route as a router sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    /// Flags, type and value of each attribute but MP_REACH and NEXT_HOP.
    pub(crate) attributes: Vec<(u8, u8, Vec<u8>)>,
    pub(crate) next_hop: Vec<u8>,
}

impl Route {
    /// Value of an attribute.
    pub(crate) fn value(&self, kind: u8) -> Option<&[u8]> {
        self.attributes.iter().find(|(_, one, _)| *one == kind).map(|(_, _, value)| &value[..])
    }
}

/// A router's table of one peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listener {
    pub(crate) table: BTreeMap<Prefix, Route>,
    /// UPDATEs with announced, and with withdrawn routes.
    pub(crate) announcements: usize,
    pub(crate) withdrawals: usize,
    pub(crate) ends_of_rib: BTreeSet<Family>,
}

impl Listener {
    /// Takes the whole messages at the front of `bytes`; others than UPDATE are passed over. Returns the number of bytes taken.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while let Some(header) = bytes.get(taken..taken + 19) {
            assert_eq!(header[..16], [0xff; 16]);
            let length = usize::from(u16::from_be_bytes([header[16], header[17]]));
            assert!((19..=4096).contains(&length), "a message of {length} bytes");
            let Some(message) = bytes.get(taken..taken + length) else { break };
            if header[18] == 2 {
                self.update(&message[19..]);
            }
            taken += length;
        }
        taken
    }

    fn update(&mut self, body: &[u8]) {
        let (withdrawn, rest) = behind_length(body);
        let (mut attributes, reachable) = behind_length(rest);
        let (withdrawn, mut reachable) = (prefixes(withdrawn, Family::V4), prefixes(reachable, Family::V4));
        let mut carried = [!withdrawn.is_empty(), !reachable.is_empty(), false, false];
        let mut unreachable = withdrawn;
        let mut route = Route { attributes: Vec::new(), next_hop: Vec::new() };
        let (mut last, mut is_first) = (0, true);
        let mut end = (body.len() == 4).then_some(Family::V4);
        while !attributes.is_empty() {
            let (flags, kind, value, rest) = attribute(attributes);
            attributes = rest;
            match kind {
                14 => {
                    assert!(is_first, "MP_REACH comes first");
                    let next_hop = usize::from(value[3]);
                    route.next_hop = value[4..4 + next_hop].to_vec();
                    reachable = prefixes(&value[5 + next_hop..], family(value));
                    carried[2] = true;
                }
                15 => {
                    assert!(is_first && rest.is_empty(), "MP_UNREACH comes alone");
                    unreachable = prefixes(&value[3..], family(value));
                    carried[3] = !unreachable.is_empty();
                    end = unreachable.is_empty().then(|| family(value));
                }
                _ => {
                    assert!(kind > last, "attribute {kind} after {last}");
                    last = kind;
                    match kind {
                        3 => route.next_hop = value.to_vec(),
                        _ => route.attributes.push((flags, kind, value.to_vec())),
                    }
                }
            }
            is_first = false;
        }
        let kinds = carried.iter().filter(|carried| **carried).count();
        assert!(kinds == 1 || kinds == 0 && end.is_some(), "{carried:?} in one message");
        self.ends_of_rib.extend(end);
        self.withdrawals += usize::from(!unreachable.is_empty());
        self.announcements += usize::from(!reachable.is_empty());
        for prefix in unreachable {
            assert!(self.table.remove(&prefix).is_some(), "{prefix} was withdrawn and not announced");
        }
        for prefix in reachable {
            assert!(
                [1, 2].iter().all(|kind| route.value(*kind).is_some()),
                "ORIGIN and AS_PATH are mandatory"
            );
            assert!([4, 16, 32].contains(&route.next_hop.len()), "{:?}", route.next_hop);
            self.table.insert(prefix, route.clone());
        }
    }
}

fn behind_length(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes[2..].split_at(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
}

/// Flags, type and value of the first attribute, and the others.
fn attribute(bytes: &[u8]) -> (u8, u8, &[u8], &[u8]) {
    let (flags, kind) = (bytes[0], bytes[1]);
    let (value, rest) = if flags & 0x10 == 0 {
        bytes[3..].split_at(bytes[2].into())
    } else {
        let length = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
        assert!(length > 255, "a needless length of two bytes");
        bytes[4..].split_at(length)
    };
    (flags, kind, value, rest)
}

fn family(value: &[u8]) -> Family {
    assert_eq!(value[2], 1, "unicast");
    Family::from_afi(u16::from_be_bytes([value[0], value[1]])).unwrap()
}

fn prefixes(mut bytes: &[u8], family: Family) -> Vec<Prefix> {
    let mut prefixes = Vec::new();
    while let [bits, rest @ ..] = bytes {
        let (address, rest) = rest.split_at(usize::from(*bits).div_ceil(8));
        let mut octets = [0; 16];
        octets[..address.len()].copy_from_slice(address);
        let net: IpNet = match family {
            Family::V4 => {
                let address = Ipv4Addr::from([octets[0], octets[1], octets[2], octets[3]]);
                Ipv4Net::new(address, *bits).unwrap().into()
            }
            Family::V6 => Ipv6Net::new(Ipv6Addr::from(octets), *bits).unwrap().into(),
        };
        assert_eq!(net, net.trunc(), "bits beyond the length are 0");
        prefixes.push(Prefix::new(net).unwrap());
        bytes = rest;
    }
    prefixes
}

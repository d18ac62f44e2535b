//! A packet of IP protocol 112 that no VRRP router takes for an advert: of type 15, where an advert is of type 1, and of VRID 0, which no
//! virtual router has (RFC 9568 §5.2.2 and §5.2.3; §7.1 has both discarded). A switch or a firewall sees no difference.

use super::Way;

/// Version 3 and type 15, VRID 0, and no more of the header that a router would read.
const HEAD: [u8; 8] = [0x3f, 0, 0, 0, 0, 0, 0, 0];
/// Marker of the packets of trials.
const MAGIC: &[u8] = b"windlass check --pairs\n";

/// A packet of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packet {
    /// Number of the trial: several may be under way.
    pub(super) run: u64,
    pub(super) way: Way,
    /// The node.
    pub(super) sender: String,
}

impl Packet {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let way = [number(self.way)];
        [&HEAD, MAGIC, &self.run.to_be_bytes(), &way, self.sender.as_bytes()].concat()
    }

    /// `None`: it is something else.
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let rest = payload.strip_prefix(&HEAD)?.strip_prefix(MAGIC)?;
        let (run, rest) = rest.split_first_chunk()?;
        let (way, sender) = rest.split_first()?;
        let ways = [Way::MulticastV4, Way::UnicastV4, Way::MulticastV6, Way::UnicastV6];
        Some(Self {
            run: u64::from_be_bytes(*run),
            way: ways.into_iter().find(|one| number(*one) == *way)?,
            sender: str::from_utf8(sender).ok()?.to_owned(),
        })
    }
}

const fn number(way: Way) -> u8 {
    match way {
        Way::MulticastV4 => 1,
        Way::UnicastV4 => 2,
        Way::MulticastV6 => 3,
        Way::UnicastV6 => 4,
    }
}

#[cfg(test)]
mod tests {
    use windlass_vrrp::wire::{Datagram, foreign_router};

    use super::*;

    #[test]
    fn a_packet_is_read_as_it_was_made_and_is_no_advert_to_anybody() {
        for way in [Way::MulticastV4, Way::UnicastV4, Way::MulticastV6, Way::UnicastV6] {
            let packet = Packet { run: 7 << 40, way, sender: "n1.example".to_owned() };
            let bytes = packet.to_bytes();
            assert_eq!(Packet::read(&bytes), Some(packet));
            for cut in 0..HEAD.len() + MAGIC.len() + 9 {
                assert_eq!(Packet::read(&bytes[..cut]), None, "{cut} bytes");
            }
            let datagram = Datagram {
                source: "192.0.2.1".parse().unwrap(),
                destination: "224.0.0.18".parse().unwrap(),
                ttl: 255,
                payload: &bytes,
            };
            assert_eq!(foreign_router(&datagram), None);
        }
        let mut other = Packet { run: 1, way: Way::UnicastV4, sender: "n1".to_owned() }.to_bytes();
        other[HEAD.len() + MAGIC.len() + 8] = 9;
        assert_eq!(Packet::read(&other), None, "a way of a later version");
    }
}

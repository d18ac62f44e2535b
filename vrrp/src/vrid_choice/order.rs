//! All VRIDs, in an order that follows from an address.

use std::net::IpAddr;

use crate::units::Vrid;

const VRIDS: u32 = 255;
/// Steps that reach all 255 VRIDs: none has a factor of 255 = 3 · 5 · 17.
const STEPS: [u32; 16] = [1, 2, 4, 7, 8, 11, 13, 14, 16, 19, 22, 23, 26, 28, 29, 31];

/// Order that begins with a VRID and continues in steps, both derived from the address alone: two addresses that begin alike usually
/// part with the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Order {
    first: u32,
    step: u32,
}

impl Order {
    pub(super) fn of(address: IpAddr) -> Self {
        let hash = match address {
            IpAddr::V4(address) => fnv(&address.octets()),
            IpAddr::V6(address) => fnv(&address.octets()),
        };
        let step = usize::try_from(hash >> 28).ok().and_then(|at| STEPS.get(at)).copied().unwrap_or(1);
        Self { first: (hash & 0x0fff_ffff) % VRIDS, step }
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Vrid> {
        (0..VRIDS).filter_map(move |place| {
            let steps = place.saturating_mul(self.step);
            let number = (self.first.saturating_add(steps) % VRIDS).saturating_add(1);
            u8::try_from(number).ok().and_then(|number| Vrid::new(number).ok())
        })
    }

    /// Returns the position of this VRID in the order.
    pub(super) fn place(self, vrid: Vrid) -> Option<usize> {
        self.iter().position(|other| other == vrid)
    }
}

/// FNV-1a: the same on all machines and in all versions.
fn fnv(bytes: &[u8]) -> u32 {
    let hash =
        bytes.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    // Its high bits hardly depend on the last bytes, in which addresses of a LAN differ.
    hash ^ hash.wrapping_mul(0x9e37_79b1).rotate_left(15)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn each_order_has_every_vrid_once() {
        for last in 0..=255 {
            let order = Order::of(Ipv4Addr::new(192, 0, 2, last).into());
            let vrids: BTreeSet<Vrid> = order.iter().collect();
            assert_eq!((vrids.len(), order.iter().count()), (255, 255), "{order:?}");
        }
    }

    #[test]
    fn the_addresses_of_a_lan_begin_with_many_vrids() {
        let first = |last| Order::of(Ipv4Addr::new(192, 0, 2, last).into()).iter().next();
        let vrids: BTreeSet<_> = (0..=255).map(first).collect();
        assert!(vrids.len() > 140, "{} VRIDs for 256 addresses", vrids.len());
    }

    #[test]
    fn addresses_that_begin_alike_part_with_the_next() {
        let orders: Vec<Order> =
            (0..=255).map(|last| Order::of(Ipv4Addr::new(192, 0, 2, last).into())).collect();
        let pairs = orders
            .iter()
            .enumerate()
            .flat_map(|(n, one)| orders[n + 1..].iter().map(move |other| (one, other)));
        let alike: Vec<_> = pairs.filter(|(one, other)| one.first == other.first).collect();
        let together = alike.iter().filter(|(one, other)| one == other).count();
        assert!(!alike.is_empty() && together * 5 < alike.len(), "{together} of {}", alike.len());
    }

    #[test]
    fn what_an_address_begins_with_is_the_same_for_ever() {
        let first = |address: &str| {
            Order::of(address.parse().unwrap()).iter().take(3).map(Vrid::get).collect::<Vec<_>>()
        };
        assert_eq!(first("192.0.2.5"), [18, 47, 76]);
        assert_eq!(first("2001:db8::5"), [227, 255, 28]);
    }
}

//! What priority a node has in the election for a virtual IP. Pure.
//!
//! | priority in adverts | node |
//! |---|---|
//! | 101 to 254 | fit: takes over at once from one that is not, and is left in place by others unless they preempt |
//! | 1 to 100 | unfit: a check fails that matters; serves if all are |
//!
//! Nodes that were given no priority differ by their addresses, so that two Backups do not take over in the same moment.

use std::net::IpAddr;

use windlass_vrrp::Priority;

/// Priority from which on a node is fit.
pub(super) const FIT_FROM: u8 = 101;
/// Without a priority of its own a node has this one, and a part that follows from its address.
const DEFAULT: u8 = 200;
/// Number of different parts.
const PARTS: u8 = 46;

/// The priority of a node that sends from `source`, whose administrator gave it the priority `given`, and whose failing checks have
/// these weights.
pub(super) fn priority(given: Option<u8>, failing: impl Iterator<Item = u8>, source: IpAddr) -> Priority {
    let lost = failing.fold(0_u8, u8::saturating_add);
    let left = given.unwrap_or(DEFAULT).saturating_sub(lost).max(1);
    let part = if given.is_none() { part(source) } else { 0 };
    let number = if left >= FIT_FROM {
        left.saturating_add(part)
    } else {
        // The part must make nobody fit.
        left.min(FIT_FROM - PARTS).saturating_add(part)
    };
    Priority::new(number.min(254)).unwrap_or(Priority::LOWEST)
}

/// Neighbouring addresses have different parts.
fn part(source: IpAddr) -> u8 {
    let last = match source {
        IpAddr::V4(source) => u32::from(source),
        IpAddr::V6(source) => source.octets().chunks_exact(4).fold(0, |sum: u32, word| {
            sum.wrapping_mul(31).wrapping_add(word.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
        }),
    };
    u8::try_from(last % u32::from(PARTS)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn of(given: Option<u8>, failing: &[u8], host: u8) -> u8 {
        priority(given, failing.iter().copied(), [192, 0, 2, host].into()).get()
    }

    #[test]
    fn a_priority_that_was_given_loses_the_weights_of_the_checks_that_fail() {
        for (given, failing, expected) in [
            (200, vec![], 200),
            (150, vec![], 150),
            (200, vec![20], 180),
            (200, vec![99], 101),
            (200, vec![100], 55),
            (150, vec![100], 50),
            (101, vec![200], 1),
            (200, vec![200, 200, 200], 1),
        ] {
            assert_eq!(of(Some(given), &failing, 11), expected, "{given} less {failing:?}");
        }
    }

    #[test]
    fn no_address_makes_an_unfit_node_fit_or_a_fit_one_unfit() {
        for host in 0..=255 {
            assert!(of(None, &[], host) >= 200);
            assert!(of(None, &[99], host) >= FIT_FROM);
            assert!(of(None, &[100], host) < FIT_FROM);
            assert!(of(None, &[200], host) >= 1);
        }
    }

    #[test]
    fn nodes_beside_each_other_differ_whether_fit_or_not() {
        for failing in [vec![], vec![100]] {
            let priorities: BTreeSet<u8> = (10..15).map(|host| of(None, &failing, host)).collect();
            assert_eq!(priorities.len(), 5, "{failing:?}");
        }
    }
}

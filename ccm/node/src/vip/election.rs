//! Priority of a node in the election for a virtual IP. Pure.
//!
//! | priority in adverts | node |
//! |---|---|
//! | 101 to 254 | fit |
//! | up to 50 less, from 51 on | its checks pass, but one has failed again and again: it takes over after those that are fit |
//! | 1 to 50 | unfit: a check fails that matters; serves if all are |
//!
//! A node from 51 on takes over immediately from one below, and is left in place by others unless they preempt.
//!
//! These numbers are on the wire, and a node classifies those of a node of another version by its own table. They are therefore fixed, and
//! not those of the agents (`windlass_common::priorities`), by which a pair of versions would elect wrongly
//! (`virtual_ip/tests/versions.rs`).
//!
//! Nodes that were given no priority, or the highest, differ by their addresses, so that two Backups do not take over in the same moment.
//! Nodes with the same other priority may: the protocol then decides by their addresses, too (RFC 9568 §6.4.3).

use std::net::IpAddr;

use windlass_vrrp::Priority;

/// Priority from which on a node's checks pass: it is left in place, as an agent from `windlass_common::priorities::FIT_FROM` on.
pub(super) const PASSING_FROM: u8 = 51;
/// Least priority, after the loss by failing checks, with which a node is fit.
const FIT_FROM: u8 = 101;
/// The most that checks take that have to prove themselves: more than the addresses make of a difference, and no more than a fifth
/// of an interval of skew time.
const MOST_PROVING: u8 = 50;
/// Without a priority of its own a node has this one, the highest that can be given, and a part that follows from its address.
const HIGHEST: u8 = 200;
/// Number of different parts.
const PARTS: u8 = 46;
/// Neighbouring addresses have parts so far from each other, and of five in a row no two are nearer than 8: 3 ms of the skew time with
/// adverts each 100 ms. It has no factor in common with the number of parts.
const STRIDE: u32 = 19;

/// Priority that its checks take from a node, each its weight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LostPriority {
    /// Sum for the checks that fail.
    pub(super) failing: u8,
    /// Sum for the checks that pass and have to prove themselves.
    pub(super) proving: u8,
}

/// Returns true if a node without a priority of its own is fit and has to prove nothing.
pub(super) fn is_fit(lost: LostPriority) -> bool {
    HIGHEST.saturating_sub(lost.failing.saturating_add(lost.proving)) >= FIT_FROM
}

/// The priority of a node that sends from `source`, whose administrator gave it the priority `given`.
pub(super) fn priority(given: Option<u8>, lost: LostPriority, source: IpAddr) -> Priority {
    let left = given.unwrap_or(HIGHEST).saturating_sub(lost.failing).max(1);
    let part = match given {
        None => part(source),
        // No other that was given comes between.
        Some(HIGHEST) if lost == LostPriority::default() => part(source),
        Some(_) => 0,
    };
    let number = if left >= FIT_FROM {
        left.saturating_sub(lost.proving.min(MOST_PROVING)).saturating_add(part)
    } else {
        // The part must not have it pass for one whose checks pass.
        let most = if given.is_none() { PASSING_FROM - PARTS } else { PASSING_FROM - 1 };
        left.min(most).saturating_add(part)
    };
    Priority::new(number.min(254)).unwrap_or(Priority::LOWEST)
}

/// Neighbouring addresses have parts that are far from each other.
fn part(source: IpAddr) -> u8 {
    let last = match source {
        IpAddr::V4(source) => u32::from(source),
        IpAddr::V6(source) => source.octets().chunks_exact(4).fold(0, |sum: u32, word| {
            sum.wrapping_mul(31).wrapping_add(word.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
        }),
    };
    let parts = u32::from(PARTS);
    u8::try_from(last % parts * STRIDE % parts).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: Option<u8>, failing: u8, proving: u8, host: u8) -> u8 {
        priority(given, LostPriority { failing, proving }, [192, 0, 2, host].into()).get()
    }

    #[test]
    fn a_priority_that_was_given_loses_the_weights_of_checks_that_fail_or_have_to_prove_themselves() {
        for (given, failing, proving, expected) in [
            (199, 0, 0, 199),
            (150, 0, 0, 150),
            (200, 20, 0, 180),
            (200, 99, 0, 101),
            (200, 100, 0, 50),
            (110, 90, 0, 20),
            (101, 200, 0, 1),
            (200, u8::MAX, 0, 1),
            (200, 0, 20, 180),
            (200, 0, 100, 150),
            (120, 0, 100, 70),
            (200, 99, 100, 51),
            (101, 0, u8::MAX, 51),
            (200, 100, 100, 50),
        ] {
            assert_eq!(
                of(Some(given), failing, proving, 11),
                expected,
                "{given} less {failing} and {proving}"
            );
        }
    }

    #[test]
    fn no_address_changes_what_the_checks_say_of_a_node() {
        for host in 0..=255 {
            for given in [None, Some(200), Some(101)] {
                assert!(of(given, 0, 0, host) >= FIT_FROM && of(given, 0, 100, host) >= PASSING_FROM);
                assert!((1..PASSING_FROM).contains(&of(given, 100, 0, host)));
                assert!((1..PASSING_FROM).contains(&of(given, 200, 200, host)));
            }
            assert!(of(None, 99, 0, host) >= FIT_FROM);
            for given in [None, Some(200), Some(150)] {
                assert!(
                    of(given, 0, 100, host) < of(given, 0, 0, 255 - host),
                    "of nodes alike the fit one first"
                );
            }
        }
    }

    #[test]
    fn nodes_beside_each_other_differ_by_eight_at_least_where_no_priority_tells_them_apart() {
        for (given, failing, proving) in [(None, 0, 0), (None, 0, 100), (None, 100, 0), (Some(200), 0, 0)] {
            for first in 0..250 {
                let mut all: Vec<u8> =
                    (first..first + 5).map(|host| of(given, failing, proving, host)).collect();
                all.sort_unstable();
                assert!(all.windows(2).all(|two| two[1] - two[0] >= 8), "{given:?} from {first}: {all:?}");
            }
        }
    }

    #[test]
    fn who_was_given_more_comes_first() {
        for host in 0..=255 {
            for given in 101..200 {
                assert!(of(Some(given), 0, 0, host) < of(Some(given + 1), 0, 0, 255 - host));
            }
        }
    }
}

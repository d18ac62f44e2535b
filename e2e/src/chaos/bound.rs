//! Bound of the time for which two nodes may answer for one address.

use std::time::{Duration, Instant};

use crate::Doubled;

/// Two nodes that hear each other are both Active until the next advert of one; one that heard nobody has listened for
/// 3·A + skew before (RFC 9568 §6.1), which is less than 4·A. With adverts each 100 ms that is 0.4 s; the rest is for a machine of two
/// cores that runs a whole cluster.
pub(super) const BOUND: Duration = Duration::from_secs(1);

/// A time in which nodes may not hear each other, so that two may be Active.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deaf {
    pub(super) begin: Instant,
    /// `None`: it lasts.
    pub(super) end: Option<Instant>,
}

/// Returns the entries that lasted longer than [`BOUND`] and are not explained by nodes that did not receive each other's adverts then.
pub(super) fn unexplained<'a>(doubled: &'a [Doubled], deaf: &[Deaf]) -> Vec<&'a Doubled> {
    let now = Instant::now();
    doubled.iter().filter(|one| one.end > excused_until(one.begin, deaf, now) + BOUND).collect()
}

/// Returns the time until which two nodes may answer that begin at `begin`.
fn excused_until(begin: Instant, deaf: &[Deaf], now: Instant) -> Instant {
    let mut until = begin;
    loop {
        let covering = deaf.iter().filter(|one| one.begin <= until + BOUND);
        let ends = covering.map(|one| one.end.unwrap_or(now));
        match ends.max() {
            Some(end) if end > until => until = end,
            Some(_) | None => return until,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, net::IpAddr};

    use super::*;

    fn is_explained(from_ms: u64, to_ms: u64, deaf: &[(u64, u64)]) -> bool {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let address = IpAddr::from([192, 0, 2, 200]);
        let doubled = [Doubled { address, begin: at(from_ms), end: at(to_ms), nodes: BTreeSet::new() }];
        let deaf: Vec<Deaf> =
            deaf.iter().map(|(from, to)| Deaf { begin: at(*from), end: Some(at(*to)) }).collect();
        unexplained(&doubled, &deaf).is_empty()
    }

    #[test]
    fn two_may_answer_while_it_lasts_that_they_do_not_hear_each_other() {
        let now = Instant::now();
        let deaf = [Deaf { begin: now, end: None }];
        assert_eq!(excused_until(now, &deaf, now + 5 * BOUND), now + 5 * BOUND);
    }

    #[test]
    fn two_may_answer_for_a_moment_and_while_they_do_not_hear_each_other() {
        for (from, to, deaf, expected) in [
            (0, 900, &[][..], true),
            (0, 1100, &[], false),
            (0, 5000, &[(0, 4500)], true),
            (0, 5000, &[(0, 3500)], false),
            (0, 5000, &[(500, 3000), (3500, 4500)], true),
            (0, 5000, &[(0, 1000), (3500, 4500)], false),
            (5000, 6500, &[(0, 4500)], false),
        ] {
            assert_eq!(is_explained(from, to, deaf), expected, "{from} to {to}, deaf in {deaf:?}");
        }
    }
}

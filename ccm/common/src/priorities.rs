//! VRRP priorities of the nodes of a virtual router. The controller gives them; an agent lowers its own where a check fails.
//!
//! | from | to | who |
//! |---|---|---|
//! | 254 | 91 | good: nothing is wrong with the node |
//! | 90 | 61 | late: it can serve, but its agent is too late for its adverts again and again |
//! | 60 | 31 | fair: it can serve, but is drained or excluded, or about to lose or only just getting its endpoint |
//! | 30 | 1 | unfit: it has no endpoint that the VIPs need, or a check of its own fails |
//!
//! A good node that does not have the connections of an Active yet, where they are replicated, is from 126 to 61 until it has them
//! ([`trailing`]).
//!
//! Late and unfit ones have their priority from their place among all nodes of the router: where all are late, or unfit, the order is
//! what it was. Late ones come before fair ones, which are about to serve no more. Never 255: no node owns a Service's address
//! (RFC 9568 §5.2.4).

/// Priority of the first: the highest that is not an owner's, because the higher a Backup's, the sooner it takes over.
const TOP: u8 = 254;
/// Distance between the first few: at adverts of 100 ms it makes their skew times differ by 6 ms, more than what scheduling
/// jitter and the wire add (docs/architecture.md, "Decisions").
const STEP: u8 = 16;
/// Number of good nodes, from the first, that have that distance.
pub const SPACED: u8 = 8;
/// Highest priority of a late node.
const LATE: u8 = 90;
/// Lowest priority of a good node: an Active below it is to yield immediately.
pub const FIT_FROM: u8 = LATE + 1;
/// Highest priority of a fair node.
const FAIR: u8 = 60;
/// Highest priority of an unfit one.
const UNFIT: u8 = 30;

/// Maximum number of good nodes with a priority of their own: more than a segment loses at the same time.
pub const MOST_GOOD: usize = 59;
/// Maximum number of fair nodes with a priority of their own.
pub const MOST_FAIR: usize = (FAIR - UNFIT) as usize;
/// Places that an unfit node can have.
pub const UNFIT_PLACES: usize = UNFIT as usize;

/// Priority of a good node with `before` good ones before it.
pub fn good(before: usize) -> u8 {
    let before = u8::try_from(before).unwrap_or(u8::MAX);
    let spaced = TOP - STEP * before.min(SPACED - 1);
    spaced.saturating_sub(before.saturating_sub(SPACED - 1)).max(FIT_FROM)
}

/// Priority of a late node with `before` nodes before it, of whatever kind.
pub fn late(before: usize) -> u8 {
    LATE.saturating_sub(u8::try_from(before).unwrap_or(u8::MAX)).max(FAIR + 1)
}

/// Priority of a fair node with `before` fair ones before it.
pub fn fair(before: usize) -> u8 {
    FAIR.saturating_sub(u8::try_from(before).unwrap_or(u8::MAX)).max(UNFIT + 1)
}

/// Priority of an unfit node with `before` nodes before it, of whatever kind.
pub fn unfit(before: usize) -> u8 {
    UNFIT.saturating_sub(u8::try_from(before).unwrap_or(u8::MAX)).max(1)
}

/// Returns the priority of a node of this priority while it lacks the connections of the Active: below the first good ones, which have
/// them, in the same order, and above fair ones. A node that is not good keeps its own.
pub fn trailing(priority: u8) -> u8 {
    /// Distance of a trailing node below its own priority: even the first then comes after the eight that have a distance.
    const BEHIND: u8 = 128;
    if is_good(priority) { priority.saturating_sub(BEHIND).max(FAIR + 1) } else { priority }
}

/// Class of a node, by its priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Nothing is wrong with it.
    Good,
    /// Its agent is too late for its adverts again and again.
    Late,
    /// It can serve, but should not be preferred.
    Fair,
    /// It cannot serve.
    Unfit,
}

/// Returns the class of a node with this priority.
pub const fn class(priority: u8) -> Class {
    match priority {
        FIT_FROM.. => Class::Good,
        61..=LATE => Class::Late,
        31..=FAIR => Class::Fair,
        0..=UNFIT => Class::Unfit,
    }
}

/// Returns true if it is the priority of a good node.
pub const fn is_good(priority: u8) -> bool {
    priority >= FIT_FROM
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_fall_strictly_and_stay_between_254_and_1() {
        let bands = [
            (0..MOST_GOOD).map(good).collect::<Vec<_>>(),
            (0..usize::from(LATE - FAIR)).map(late).collect(),
            (0..MOST_FAIR).map(fair).collect(),
            (0..UNFIT_PLACES).map(unfit).collect(),
        ];
        assert_eq!(bands[0][..9], [254, 238, 222, 206, 190, 174, 158, 142, 141]);
        let ends = bands.each_ref().map(|band| (band.first().copied(), band.last().copied()));
        let expected = [(254, 91), (90, 61), (60, 31), (30, 1)];
        assert_eq!(ends, expected.map(|(first, last)| (Some(first), Some(last))));
        assert!(bands.concat().is_sorted_by(|one, next| one > next));
        assert!(bands[0].iter().all(|one| is_good(*one)) && !bands[1].iter().any(|one| is_good(*one)));
        let classes = [Class::Good, Class::Late, Class::Fair, Class::Unfit];
        for (band, expected) in bands.iter().zip(classes) {
            assert!(band.iter().all(|one| class(*one) == expected), "{expected:?}: {band:?}");
        }
        let trail: Vec<u8> = bands[0].iter().map(|one| trailing(*one)).collect();
        assert_eq!(trail[..6], [126, 110, 94, 78, 62, 61]);
        assert!(trail.iter().all(|one| *one < bands[0][7] && *one > FAIR));
        assert!(bands[1..].concat().iter().all(|one| trailing(*one) == *one), "no node is lowered twice");
        let last = [good(500), late(500), fair(500), unfit(500)];
        assert_eq!(last, [91, 61, 31, 1], "nobody is left out of its band");
    }
}

//! The checks notice: each invariant is broken on purpose.

use super::*;

/// The first invariant that a LAN breaks, if a node's first router is driven past its rules by `break_it`.
fn first_violation(priorities: &[u8], break_it: impl FnOnce(&mut Lan)) -> Option<BrokenInvariant> {
    let mut lan = lan(priorities);
    assert!(lan.violation().is_none());
    break_it(&mut lan);
    lan.run_for(lan.bound() * 2);
    lan.violation().map(|violation| violation.broken.clone())
}

/// The inferior is told that nobody is its peer: it hears the superior and does not care.
#[test]
fn two_actives_that_hear_each_other_and_persist_are_reported() {
    let found = first_violation(&[200, 100], |lan| {
        let alone = Config { peers: [address(Family::V4, 9)].into(), ..lan.config(1, 0).clone() };
        lan.reconfigure(1, 0, alone);
    });
    assert_eq!(found, Some(BrokenInvariant::TwoActives(0, 1)));
}

/// Two Actives are excused exactly as long as the inferior cannot hear.
#[test]
fn a_deaf_inferior_is_excused_and_a_deaf_superior_is_not() {
    assert_eq!(first_violation(&[200, 100], |lan| lan.deafen(1, 0)), None);
    assert_eq!(first_violation(&[200, 100], |lan| lan.deafen(0, 1)), None);
    let both_deaf = first_violation(&[200, 100], |lan| {
        lan.deafen(0, 1);
        lan.deafen(1, 0);
    });
    assert_eq!(both_deaf, None);
}

/// A wake-up that was forgotten.
#[test]
fn a_backup_that_does_not_take_over_is_reported() {
    let found = first_violation(&[200, 100], |lan| {
        lan.crash(0);
        lan.nodes[1].routers[0].wake = None;
    });
    assert_eq!(found, Some(BrokenInvariant::NoTakeover(1)));
}

/// A router whose active period has no end, as if it had no peers.
#[test]
fn an_active_that_trusts_its_active_period_for_too_long_is_reported() {
    let found = first_violation(&[200, 100], |lan| {
        let alone = Config {
            peers: [address(Family::V4, 9)].into(),
            interval: Interval::MAX,
            ..lan.config(0, 0).clone()
        };
        lan.freeze(0, Freeze::Process);
        lan.run_for(lan.bound());
        lan.nodes[0].routers[0].router.reconfigure(alone, Time::default());
        lan.thaw(0);
    });
    assert_eq!(found, Some(BrokenInvariant::ActiveAfterTakeover(0, 1)));
}

/// A resignation in the name of an Active that goes on.
#[test]
fn a_takeover_from_an_active_that_has_not_resigned_is_reported() {
    let found = first_violation(&[200, 100], |lan| {
        lan.freeze(0, Freeze::Process);
        lan.send(0, 0, None, true, &[]);
    });
    assert_eq!(found, Some(BrokenInvariant::NoResignation(0, 1)));
}

#[test]
fn a_violation_names_time_router_and_nodes() {
    let at = Time::from_nanos(1_500_000_000);
    let violation =
        Violation { at, router: 2, broken: BrokenInvariant::Unsettled { nodes: vec![0, 1], active: vec![] } };
    assert_eq!(violation.to_string(), "at 1500 ms, virtual router 2: nodes [] are Active among [0, 1]");
}

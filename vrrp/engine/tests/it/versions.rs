//! Version 2, both versions, and routers that do not agree.

use windlass_engine::{Checksum, Interval, RouterConfig, State, TransitionReason, Versions};

use crate::lab::{Capture, Lan, Node, await_some, require_root, router, source};

fn speaking(versions: Versions, host: usize) -> RouterConfig {
    RouterConfig { versions, interval: Interval::SECOND, ..router(host, 2) }
}

/// The engines of two hosts, once the first is Active and the second hears it.
fn pair(lan: &Lan, configs: [RouterConfig; 2]) -> (Node, Node) {
    let (first, second) = (lan.hosts[0].engine(), lan.hosts[1].engine());
    let [one, other] = configs;
    first.engine.apply(vec![one]);
    second.engine.apply(vec![other]);
    first.await_status("Active", |status| status.state == State::Active);
    second.await_status("Backup that hears it", |status| {
        status.state == State::Backup && status.active == Some(source(0))
    });
    second.forget_events();
    (first, second)
}

#[test]
fn two_routers_of_version_2_elect_and_hand_over() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let capture = Capture::on(&lan.hosts[1]);
    let (first, second) = pair(&lan, [0, 1].map(|host| speaking(Versions::V2, host)));
    let message = capture.await_frame("advert", |frame| {
        (frame.get(23) == Some(&112) && frame[26..30] == [192, 0, 2, 1]).then(|| frame[34..].to_vec())
    });
    assert_eq!(message[..6], [0x21, 7, 240, 1, 0, 1]);
    assert_eq!(message[8..20], [192, 0, 2, 50, 0, 0, 0, 0, 0, 0, 0, 0]);
    first.engine.apply(Vec::new());
    assert_eq!(second.await_state(State::Active), TransitionReason::ActiveResigned);
}

#[test]
fn while_a_group_is_upgraded_a_router_of_both_versions_is_heard_by_one_of_version_2() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let (first, second) = pair(&lan, [speaking(Versions::V2AndV3, 0), speaking(Versions::V2, 1)]);
    // What it cannot speak is refused and does no harm.
    await_some("refused adverts in version 3", || {
        second.engine.links().into_iter().find(|link| link.rejected.get("version").is_some_and(|n| *n > 0))
    });
    assert!(second.status().counters.adverts_received > 0);
    let sent = first.status().counters.adverts_sent;
    first.await_status("next adverts, one in each version", |s| s.counters.adverts_sent >= sent + 2);
    first.engine.apply(Vec::new());
    assert_eq!(second.await_state(State::Active), TransitionReason::ActiveResigned);
}

#[test]
fn two_routers_of_both_versions_obey_version_3() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let (first, second) = pair(&lan, [0, 1].map(|host| speaking(Versions::V2AndV3, host)));
    assert_eq!(second.status().state, State::Backup);
    first.engine.apply(Vec::new());
    assert_eq!(second.await_state(State::Active), TransitionReason::ActiveResigned);
}

#[test]
fn in_version_2_another_interval_is_refused_and_counted() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let (first, second) = (lan.hosts[0].engine(), lan.hosts[1].engine());
    first.engine.apply(vec![speaking(Versions::V2, 0)]);
    let slower = Interval::from_millis(2000).unwrap();
    second.engine.apply(vec![RouterConfig { interval: slower, ..speaking(Versions::V2, 1) }]);
    second.await_status("refusal", |status| status.counters.interval_refused > 0);
    assert_eq!(second.await_state(State::Active), TransitionReason::ActiveSilent);
}

#[test]
fn the_checksum_of_rfc_5798_is_sent_where_so_configured_and_accepted_everywhere() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let old = RouterConfig { checksum: Checksum::Rfc5798, ..router(0, 2) };
    let (first, second) = pair(&lan, [old, router(1, 2)]);
    second.await_status("the old form", |status| status.counters.rfc5798_checksums > 0);
    assert_eq!(second.status().state, State::Backup);
    assert_eq!(first.status().counters.rfc5798_checksums, 0);
}

use windlass_vrrp::Vrid;

use super::*;
use crate::config::{AddressConflictPolicy, RouterConfig};

fn handle() -> RouterHandle {
    let config = RouterConfig::new("eth0", Vrid::new(1).unwrap(), "192.0.2.1".parse().unwrap());
    let plan = Plan {
        standing: Arc::new(Standing::of(&config)),
        forced: Arc::default(),
        addresses: Arc::from([]),
        hold: config.hold,
        accept: false,
        probe: None,
        unproven: Arc::default(),
        in_service: Arc::default(),
        address_conflict: AddressConflictPolicy::default(),
        unicast_source: None,
        vip_as_source: false,
        astray: Arc::default(),
        replicas: Arc::default(),
        forward_connections: true,
        link: None,
    };
    RouterHandle::new(config.key(), plan)
}

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

#[test]
fn an_active_period_that_lapsed_before_it_was_extended_is_told() {
    let handle = handle();
    handle.take_over(Predecessor::Nobody, HandedOverBy::Nobody, None, at(100));
    assert!(!handle.extend(at(200), || at(99)), "in time");
    // A thread that looked at 200 found that it did not hold, and would not look again.
    assert!(!handle.is_active(at(200)));
    assert!(handle.extend(at(300), || at(200)), "too late");
    assert!(handle.is_active(at(299)));
    assert!(!handle.extend(at(400), || at(299)), "in time again");
}

#[test]
fn a_takeover_waits_for_replicas_that_replace_forwarded_connections_for_400_ms_more_at_most() {
    let handle = handle();
    let silent = HandedOverBy::SilentPeer("192.0.2.2".parse().unwrap());
    handle.set_blocked(true);
    handle.take_over(Predecessor::Established, silent, Some(at(100_000_000)), at(u64::MAX));
    let (takeover, _) = handle.takeover();
    assert!(handle.set_prepared(takeover, at(50_000_000)));
    assert_eq!(handle.prepares_until(at(499_999_999)), Some(at(500_000_000)));
    assert_eq!(
        handle.prepares_until(at(500_000_000)),
        None,
        "the thread is late: connections without replicas are reset"
    );
    assert!(handle.set_unblocked(takeover));
    assert_eq!(handle.prepares_until(at(50_000_000)), None, "they are there");
}

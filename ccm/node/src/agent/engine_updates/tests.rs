use std::time::Duration;

use windlass_engine::Transport;

use super::*;
use crate::agent::health::FailedNodeCheck;

fn assignment(key_id: Option<u8>) -> Assignment {
    Assignment {
        forced: [].into(),
        virtual_router: "a".into(),
        interface: "eth0".into(),
        vrid: 64,
        priority: 254,
        interval_milliseconds: 100,
        source: "192.0.2.11".parse().unwrap(),
        peers: ["192.0.2.12".parse().unwrap()].into(),
        addresses: ["192.0.2.200".parse().unwrap()].into(),
        unproven: [].into(),
        preferred: BTreeSet::new(),
        before: 0,
        health_check_node_ports: [].into(),
        preempt_delay_seconds: 30,
        virtual_mac: false,
        transport: windlass_api::Transport::Unicast,
        unicast_fallback: true,
        key_id,
        checks: [].into(),
        address_conflict: windlass_api::AddressConflictPolicy::Defend,
        connections: windlass_api::ConnectionPolicy::Forward,
        external_traffic_policy: windlass_api::ExternalTrafficPolicy::Cluster,
        replicas: vec![],
    }
}

#[test]
fn a_router_is_run_with_its_key_or_not_at_all() {
    let keys = Keys::of_entries(&[("1", &"a".repeat(32)), ("2", &"b".repeat(32))]);
    let rows = [
        ("it is not to sign", assignment(None), Some(None)),
        ("it signs", assignment(Some(2)), Some(Some(2))),
        ("it cannot sign", assignment(Some(3)), None),
    ];
    for (what, assignment, expected) in rows {
        let config = config(&assignment, &FailedChecks::default(), false, Duration::ZERO, &keys);
        let signing = config
            .as_ref()
            .map(|config| config.authentication.as_ref().map(|one| one.keyring.signing().0.get()));
        assert_eq!(signing, expected, "{what}");
        if let Some(config) = config {
            config.check().unwrap();
            assert_eq!(config.preempt_delay, Duration::from_secs(30), "{what}");
            assert!(matches!(config.transport, Transport::Unicast { ttl: 255, .. }), "{what}");
        }
    }
}

#[test]
fn a_failed_check_lowers_a_router_that_signs_like_any_other() {
    let keys = Keys::of_entries(&[("1", &"a".repeat(32))]);
    let failed = FailedChecks { kube_proxy: Some("it is behind".into()), ..FailedChecks::default() };
    for key_id in [None, Some(1)] {
        let config = config(&assignment(key_id), &failed, false, Duration::ZERO, &keys).unwrap();
        assert_eq!(config.priority.get(), 30, "{key_id:?}");
    }
}

#[test]
fn a_failure_that_spares_the_active_lowers_this_node_only_where_it_is_not() {
    let check: windlass_api::NodeCheck =
        serde_json::from_value(serde_json::json!({ "tcpSocket": { "port": 22 } })).unwrap();
    let assignment = Assignment { checks: [check.clone()].into(), ..assignment(None) };
    for (spares_active, is_active, expected) in
        [(true, true, 254), (true, false, 30), (false, true, 30), (false, false, 30)]
    {
        let failure = FailedNodeCheck { reason: "refused".into(), spares_active };
        let of_announcements = [(check.clone(), failure)].into();
        let failed = FailedChecks { of_announcements, ..FailedChecks::default() };
        let config = config(&assignment, &failed, is_active, Duration::ZERO, &Keys::of_entries(&[])).unwrap();
        assert_eq!(config.priority.get(), expected, "{spares_active} {is_active}");
    }
}

#[test]
fn a_node_that_is_not_fit_leaves_others_their_turn_whatever_the_list_says() {
    let address = |last: u8| IpAddr::from([192, 0, 2, last]);
    let peers = |last: &[u8]| last.iter().copied().map(address).collect::<BTreeSet<_>>();
    let failed = FailedChecks { kube_proxy: Some("it is behind".into()), ..FailedChecks::default() };
    for (all, preferred, fit, unfit) in [
        (&[][..], &[][..], &[][..], &[][..]),
        (&[12, 13], &[], &[], &[12, 13]),
        (&[12, 13, 14, 15, 16], &[15], &[15], &[12, 13, 15]),
        (&[12, 13, 14, 15, 16], &[14, 15, 16], &[14, 15, 16], &[14, 15, 16]),
    ] {
        let assignment = Assignment { peers: peers(all), preferred: peers(preferred), ..assignment(None) };
        for (failed, expected) in [(FailedChecks::default(), fit), (failed.clone(), unfit)] {
            let config = config(&assignment, &failed, false, Duration::ZERO, &Keys::of_entries(&[])).unwrap();
            assert_eq!(config.preferred, peers(expected), "{all:?} {preferred:?} {failed:?}");
        }
    }
}

#[test]
fn of_the_delay_that_is_wanted_and_that_of_a_flapping_link_the_longer_one_counts() {
    for (delay, expected) in [(0, 30), (29, 30), (60, 60)] {
        let none = (FailedChecks::default(), Keys::of_entries(&[]));
        let config = config(&assignment(None), &none.0, false, Duration::from_secs(delay), &none.1).unwrap();
        assert_eq!(config.preempt_delay, Duration::from_secs(expected), "{delay}");
    }
}

use std::collections::BTreeSet;

use windlass_engine::Family;
use windlass_vrrp::Vrid;

use super::*;
use crate::agent::desired::Assignment;

fn assignment(vrid: u8, interval_milliseconds: u32) -> Assignment {
    Assignment {
        forced: [].into(),
        virtual_router: format!("r{vrid}"),
        interface: "eth0".into(),
        vrid,
        priority: 254,
        interval_milliseconds,
        source: "192.0.2.1".parse().expect("an address"),
        peers: BTreeSet::new(),
        addresses: BTreeSet::new(),
        unproven: BTreeSet::new(),
        preferred: BTreeSet::new(),
        before: 0,
        health_check_node_ports: BTreeSet::new(),
        preempt_delay_seconds: 0,
        transport: windlass_api::Transport::Multicast,
        unicast_fallback: true,
        virtual_mac: false,
        key_id: None,
        checks: [].into(),
        address_conflict: windlass_api::AddressConflictPolicy::Defend,
        connections: windlass_api::ConnectionPolicy::Forward,
        external_traffic_policy: windlass_api::ExternalTrafficPolicy::Cluster,
        replicas: vec![],
    }
}

/// A router whose Active is the host with this number.
fn standing(vrid: u8, active: Option<u8>) -> Standing {
    Standing {
        key: RouterKey {
            interface: "eth0".into(),
            family: Family::V4,
            vrid: Vrid::new(vrid).expect("a VRID"),
        },
        state: if active == Some(1) { State::Active } else { State::Backup },
        active: active.map(|host| [192, 0, 2, host].into()),
        failed: false,
    }
}

// shows: field-reports F-72
#[test]
fn an_agent_is_ready_once_every_router_has_had_its_active_for_a_while() {
    let begin = Instant::now();
    let desired =
        Desired { assignments: vec![assignment(64, 100), assignment(65, 100)], ..Desired::default() };
    let rows = [
        (0, vec![], "virtual router r64 was not started yet"),
        (100, vec![standing(64, None), standing(65, Some(2))], "has no Active yet"),
        (200, vec![standing(64, Some(2)), standing(65, Some(2))], "only just"),
        // It preempts, as it is preferred.
        (600, vec![standing(64, Some(1)), standing(65, Some(2))], "only just"),
        (1500, vec![standing(64, Some(1)), standing(65, Some(2))], "only just"),
        (1600, vec![standing(64, Some(1)), standing(65, Some(2))], ""),
    ];
    let mut settling = Settling::default();
    for (at, routers, waits) in rows {
        let verdict = settling.note(&desired, routers, begin + Duration::from_millis(at));
        match verdict {
            Ok(()) => assert_eq!(waits, "", "at {at} ms"),
            Err(why) => assert!(!waits.is_empty() && why.contains(waits), "at {at} ms: {why}"),
        }
    }
}

#[test]
fn who_cannot_run_is_waited_for_by_nobody_and_slow_adverts_take_their_time() {
    let begin = Instant::now();
    let failed = Standing { failed: true, ..standing(64, None) };
    for (interval, settled) in [(100, 1000), (2000, 8000)] {
        let desired = Desired { assignments: vec![assignment(64, interval)], ..Desired::default() };
        let mut settling = Settling::default();
        for (at, expected) in [(0, false), (settled - 1, false), (settled, true)] {
            let now = begin + Duration::from_millis(at);
            assert_eq!(
                settling.note(&desired, vec![failed.clone()], now).is_ok(),
                expected,
                "{interval}: {at} ms"
            );
        }
    }
}

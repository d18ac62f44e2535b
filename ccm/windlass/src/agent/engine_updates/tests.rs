use std::time::Duration;

use windlass_engine::Transport;

use super::*;

fn assignment(key_id: Option<u8>) -> Assignment {
    Assignment {
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
        key_id,
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
        let config = config(&assignment, &FailedChecks::default(), &keys);
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
        let config = config(&assignment(key_id), &failed, &keys).unwrap();
        assert_eq!(config.priority.get(), 30, "{key_id:?}");
    }
}

use proptest::prelude::*;

use super::*;
use crate::agent::desired::Replica;

/// A folder of its own for a test, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("windlass-state-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn assignment(vrid: u8) -> Assignment {
    Assignment {
        forced: [].into(),
        virtual_router: format!("v4-192.0.2.0-24-{vrid}"),
        interface: "eth0".into(),
        vrid,
        priority: 200,
        interval_milliseconds: 100,
        source: "192.0.2.11".parse().unwrap(),
        peers: ["192.0.2.12".parse().unwrap()].into(),
        addresses: ["192.0.2.200".parse().unwrap(), "192.0.2.201".parse().unwrap()].into(),
        unproven: [].into(),
        preferred: [].into(),
        before: 0,
        health_check_node_ports: [].into(),
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

fn state(assignments: &[Assignment]) -> Desired {
    Desired { assignments: assignments.to_vec(), ..Desired::default() }
}

/// With one address that not everybody may use.
fn restricted(allowed: &str) -> Desired {
    let sources = serde_json::json!([{ "ports": [{ "protocol": "TCP", "port": 80 }], "allowed": [allowed] }]);
    let address = "192.0.2.200".parse().unwrap();
    let restricted = Restricted {
        address,
        sources: serde_json::from_value(sources).unwrap(),
        ports: Vec::new(),
        owners: None,
    };
    Desired { restricted: vec![restricted], ..state(&[assignment(64)]) }
}

fn assignment6(vrid: u8) -> Assignment {
    Assignment {
        virtual_router: format!("v6-2001-db8---64-{vrid}"),
        source: "fe80::11".parse().unwrap(),
        peers: ["fe80::12".parse().unwrap()].into(),
        addresses: ["2001:db8::200".parse().unwrap()].into(),
        ..assignment(vrid)
    }
}

#[test]
fn a_file_of_an_agent_that_knew_ipv4_alone_is_read_and_would_be_written_alike() {
    let old = concat!(
        r#"{"version":1,"node":"n1","crc32":"d90ae376","routers":[{"virtualRouter":"v4-192.0.2.0-24-64","#,
        r#""interface":"eth0","vrid":64,"priority":200,"intervalMilliseconds":100,"source":"192.0.2.11","#,
        r#""peers":["192.0.2.12"],"addresses":["192.0.2.200","192.0.2.201"]}]}"#
    );
    assert_eq!(decode(old.as_bytes(), "n1").unwrap(), state(&[assignment(64)]));
    assert_eq!(encode(&state(&[assignment(64)]), "n1").unwrap(), old.as_bytes());
}

#[test]
fn what_was_stored_is_loaded_and_replaced_whole() {
    let folder = Folder::new("roundtrip");
    let file = StateFile::new(&folder.0.join("made/on/demand"), "n1");
    assert!(file.load().unwrap().is_none());
    let first = state(&[assignment(64), assignment(65), assignment6(64)]);
    file.store(&first).unwrap();
    assert_eq!(file.load().unwrap().unwrap(), first);
    let unproven =
        state(&[Assignment { unproven: ["192.0.2.201".parse().unwrap()].into(), ..assignment(64) }]);
    file.store(&unproven).unwrap();
    assert_eq!(file.load().unwrap().unwrap(), unproven);
    let spoken = state(&[Assignment {
        preempt_delay_seconds: 30,
        transport: windlass_api::Transport::Unicast,
        unicast_fallback: false,
        virtual_mac: false,
        key_id: Some(7),
        ..assignment(64)
    }]);
    file.store(&spoken).unwrap();
    assert_eq!(file.load().unwrap().unwrap(), spoken);
    let text = fs::read_to_string(file.path()).unwrap();
    assert!(
        text.contains(r#""preemptDelaySeconds":30,"transport":"Unicast","unicastFallback":false,"keyId":7}"#),
        "{text}"
    );
    let check = r#"{"httpGet":{"port":8080,"path":"/","scheme":"HTTP"},"periodSeconds":1,"timeoutSeconds":1,"failureThreshold":3}"#;
    let checks = [serde_json::from_str(check).unwrap()].into();
    let address_conflict = windlass_api::AddressConflictPolicy::Yield;
    let connections = windlass_api::ConnectionPolicy::Replicate;
    let replica = |node: &str, last: u8, ranks_above| Replica {
        node: node.to_owned(),
        addresses: [[192, 0, 2, last].into()].into(),
        ranks_above,
    };
    let replicas = vec![replica("n2", 12, true), replica("n3", 13, false)];
    let checking = state(&[Assignment { checks, address_conflict, connections, replicas, ..assignment(64) }]);
    file.store(&checking).unwrap();
    assert_eq!(file.load().unwrap().unwrap(), checking);
    let text = fs::read_to_string(file.path()).unwrap();
    let kept = r#""connections":"Replicate","replicas":[{"node":"n2","addresses":["192.0.2.12"],"ranksAbove":true},{"node":"n3","addresses":["192.0.2.13"]}]}"#;
    assert!(text.contains(&format!(r#","checks":[{check}],"addressConflict":"Yield",{kept}"#)), "{text}");
    file.store(&restricted("10.0.0.0/8")).unwrap();
    assert_eq!(file.load().unwrap().unwrap(), restricted("10.0.0.0/8"));
    let port = windlass_api::RestrictedPort { protocol: windlass_api::PortProtocol::Sctp, port: 80 };
    let owners = Some(vec!["shop/web".to_owned()]);
    let owned =
        Restricted { address: "192.0.2.200".parse().unwrap(), sources: vec![], ports: vec![port], owners };
    let owning = Desired { restricted: vec![owned], ..state(&[assignment(64)]) };
    file.store(&owning).unwrap();
    assert_eq!(file.load().unwrap().unwrap(), owning);
    file.store(&state(&[])).unwrap();
    assert_eq!(file.load().unwrap().unwrap(), state(&[]));
    let left: Vec<_> = fs::read_dir(&file.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["state.json"]);
}

#[test]
fn shared_addresses_are_loaded_with_their_tables_and_a_damaged_table_is_not_used() {
    let shared = |lots: &str| {
        let nodes = serde_json::json!([{ "key": "a", "name": "n1", "address": "192.0.2.11" }]);
        let one = serde_json::json!({
            "address": "192.0.2.200", "interface": "eth0", "peers": ["192.0.2.11"],
            "ports": [{ "protocol": "TCP", "port": 80 }],
            "load": { "by": "Client", "nodes": nodes, "lots": lots.repeat(120), "formerLots": ["-".repeat(120)] },
        });
        Desired { shared: vec![serde_json::from_value(one).unwrap()], ..restricted("10.0.0.0/8") }
    };
    let written = encode(&shared("a"), "n1").unwrap();
    assert_eq!(decode(&written, "n1").unwrap(), shared("a"));
    let text = String::from_utf8(written).unwrap();
    assert_eq!(
        text.matches(r#","shared":[{"address":"192.0.2.200","interface":"eth0","#).count(),
        1,
        "{text}"
    );
    let damaged = text.replace(r#""by":"Client""#, r#""by":"Connection""#);
    assert!(matches!(decode(damaged.as_bytes(), "n1"), Err(Unusable::Damaged(_))));
    let unreadable = encode(&shared("b"), "n1").unwrap();
    let error = decode(&unreadable, "n1").unwrap_err().to_string();
    assert!(error.contains("virtual IP 192.0.2.200: spec.loadSharing"), "{error}");
    let without = encode(&restricted("10.0.0.0/8"), "n1").unwrap();
    assert!(!String::from_utf8(without).unwrap().contains("shared"), "an older agent reads it");
}

#[test]
fn a_crash_while_writing_leaves_the_old_state() {
    let folder = Folder::new("crash");
    let file = StateFile::new(&folder.0, "n1");
    file.store(&state(&[assignment(64)])).unwrap();
    fs::write(folder.0.join("state.json.new"), b"{\"version\":1,\"no").unwrap();
    assert_eq!(file.load().unwrap().unwrap(), state(&[assignment(64)]));
    file.store(&state(&[assignment(65)])).unwrap();
    assert_eq!(file.load().unwrap().unwrap(), state(&[assignment(65)]));
}

#[test]
fn every_truncation_is_noticed() {
    let bytes = encode(&restricted("10.0.0.0/8"), "n1").unwrap();
    for length in 0..bytes.len() {
        assert!(matches!(decode(&bytes[..length], "n1"), Err(Unusable::Damaged(_))), "{length} bytes");
    }
}

#[test]
fn a_foreign_file_is_refused_with_its_reason_and_can_be_set_aside() {
    let good = String::from_utf8(encode(&restricted("10.0.0.0/8"), "n1").unwrap()).unwrap();
    let invalid_value = {
        let mut bad = assignment(64);
        bad.interval_milliseconds = 7;
        String::from_utf8(encode(&state(&[bad]), "n1").unwrap()).unwrap()
    };
    let no_key = {
        let bad = Assignment { key_id: Some(0), ..assignment(64) };
        String::from_utf8(encode(&state(&[bad]), "n1").unwrap()).unwrap()
    };
    let cases = [
        (String::new(), "damaged"),
        ("not JSON".into(), "damaged"),
        ("[]".into(), "names no version"),
        (good.replace("\"version\":1", "\"version\":2"), "version 2, this agent knows version 1"),
        (good.replace("\"version\":1", "\"version\":\"1\""), "names no version"),
        (good.replace("192.0.2.201", "192.0.2.202"), "checksum"),
        (good.replace("10.0.0.0/8", "0.0.0.0/0"), "checksum"),
        (good.replace(r#"[{"address""#, r#"[],"x":[{"address""#), "damaged"),
        (good.replace("\"node\":\"n1\"", "\"node\":\"n2\""), "written on node n2"),
        (good.replace("\"vrid\":64", "\"vrid\":640"), "damaged"),
        (invalid_value, "7 ms"),
        (no_key, "key id 0"),
    ];
    let folder = Folder::new("foreign");
    let file = StateFile::new(&folder.0, "n1");
    for (content, reason) in cases {
        fs::write(file.path(), &content).unwrap();
        let error = file.load().unwrap_err().to_string();
        assert!(error.contains(reason), "{reason}: {error}");
        let aside = file.set_aside().unwrap();
        assert_eq!(fs::read_to_string(aside).unwrap(), content, "{reason}");
        assert!(file.load().unwrap().is_none(), "{reason}");
    }
    fs::create_dir(file.path()).unwrap();
    assert!(matches!(file.load(), Err(Unusable::NotAFile)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))] // 0.11 ms each

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        prop_assert!(decode(&bytes, "n1").is_err());
    }

    #[test]
    fn one_changed_byte_never_gives_another_state(place in 0usize..1000, flip in 1u8..) {
        let state = restricted("10.0.0.0/8");
        let mut bytes = encode(&state, "n1").unwrap();
        let place = place % bytes.len();
        bytes[place] ^= flip;
        if let Ok(decoded) = decode(&bytes, "n1") {
            prop_assert_eq!(decoded, state);
        }
    }
}

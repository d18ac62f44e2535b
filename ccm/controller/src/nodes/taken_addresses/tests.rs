use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use serde_json::json;
use windlass_api::NodeNetwork;

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn address(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

/// Nodes that saw these addresses at a stranger, or at the node of this number.
fn reports(seen: &[(&str, std::ops::Range<u8>, u8)]) -> ReviewedReports {
    let nodes: Vec<Arc<Node>> = seen
        .iter()
        .map(|(name, ..)| json!({ "metadata": { "name": name } }))
        .map(|node| Arc::new(serde_json::from_value(node).expect("a Node")))
        .collect();
    let network = |(number, (name, range, mac)): (usize, &(&str, std::ops::Range<u8>, u8))| {
        let duplicates: Vec<_> = range
            .clone()
            .map(|last| {
                // Each at a stranger of its own.
                let host = if *mac == STRANGER { last } else { 0 };
                let mac = format!("02:00:00:00:{host:02x}:{mac:02x}");
                json!({ "interface": "eth0", "address": address(last), "mac": mac })
            })
            .collect();
        let interface =
            json!({ "name": "eth0", "mac": format!("02:00:00:00:00:{:02X}", number + 1), "addresses": [] });
        let network = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "NodeNetwork", "metadata": { "name": name },
            "spec": { "interfaces": [interface], "duplicates": duplicates },
        });
        Arc::new(serde_json::from_value::<NodeNetwork>(network).expect("a NodeNetwork"))
    };
    let networks: Vec<_> = seen.iter().enumerate().map(network).collect();
    ReviewedReports::new(&nodes, &networks, None, |_, _| false)
}

const STRANGER: u8 = 0x99;

// shows: threats T-13
#[test]
fn one_node_alone_takes_no_more_than_a_few_addresses_in_ten_minutes() {
    let mut taken = TakenAddresses::default();
    // It reports other addresses each time.
    for last in 1..200 {
        let reports = reports(&[("n1", last..last + 1, STRANGER)]);
        let believed = taken.believed(address(last), &reports, NOW, |_| true);
        assert_eq!(believed.is_some(), usize::from(last) <= MAX_TAKEN, "{last}");
        if let Some(node) = believed {
            assert_eq!(taken.doubts(&reports, NOW), []);
            taken.note(&node, address(last), &reports, NOW);
        } else {
            assert_eq!(taken.doubts(&reports, NOW), [("n1".to_owned(), Doubt::Taken { ignored: 1 })]);
        }
    }
    // What it was believed about it is believed about still, and another node about others.
    let others = reports(&[("n1", 1..12, STRANGER), ("n2", 100..101, STRANGER)]);
    assert_eq!(taken.believed(address(1), &others, NOW, |_| true).as_deref(), Some("n1"));
    assert_eq!(taken.believed(address(100), &others, NOW, |_| true).as_deref(), Some("n2"));
    assert_eq!(taken.believed(address(11), &others, NOW, |_| true), None);
    assert_eq!(taken.believed(address(11), &others, NOW + TAKEN_FOR, |_| true).as_deref(), Some("n1"));
}

#[test]
fn a_candidate_that_answers_for_an_address_is_no_other_host() {
    let taken = TakenAddresses::default();
    let one_another = reports(&[("n1", 1..2, 2), ("n2", 2..3, STRANGER)]);
    assert_eq!(taken.believed(address(1), &one_another, NOW, |node| node == "n2"), None, "n2 has it");
    let other = taken.believed(address(1), &one_another, NOW, |node| node == "n1");
    assert_eq!(
        other.as_deref(),
        Some("n1"),
        "n2 may not announce it, and takes no stranger's part by calling its address its own"
    );
    assert_eq!(taken.believed(address(2), &one_another, NOW, |_| true).as_deref(), Some("n2"));
    assert_eq!(taken.believed(address(3), &one_another, NOW, |_| true), None, "nobody says so");
}

// shows: field-reports F-54
#[test]
fn a_host_that_answers_for_every_address_takes_two_and_is_named() {
    const PROXY: u8 = 0x77;
    // One after the other, or all at once.
    for at_once in [false, true] {
        let mut taken = TakenAddresses::default();
        let mut count = 0;
        for last in 1..20 {
            let reports = reports(&[("n1", if at_once { 1..20 } else { last..last + 1 }, PROXY)]);
            if let Some(node) = taken.believed(address(last), &reports, NOW, |_| true) {
                count += 1;
                taken.note(&node, address(last), &reports, NOW);
            }
        }
        assert_eq!(count, if at_once { 0 } else { ANSWERS_FOR_ALL - 1 });
        let reports = reports(&[("n1", 1..15, PROXY)]);
        let doubts = taken.doubts(&reports, NOW);
        let mac = "02:00:00:00:00:77".to_owned();
        assert_eq!(doubts, [("n1".to_owned(), Doubt::AnswersForAll { mac, addresses: 14 })]);
        assert_eq!(
            doubts[0].1.to_string(),
            "host 02:00:00:00:00:77 answers for any address (14 virtual IPs so far), so Windlass moves no \
             Service to another address because of it: turn proxy ARP off on that host, or remove the pool's \
             range from it"
        );
    }
}

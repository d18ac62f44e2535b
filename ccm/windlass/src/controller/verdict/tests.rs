use serde_json::json;
use windlass_ipam::How;

use super::*;

const V4: &str = "192.0.2.16";
const V6: &str = "2001:db8::8";
const BOTH: [Family; 2] = [Family::V4, Family::V6];

fn vip(reason: &str) -> VirtualIP {
    let condition = json!({ "type": "Announced", "status": "False", "reason": reason, "message": "n1 cannot",
                            "lastTransitionTime": "2026-01-01T00:00:00Z" });
    serde_json::from_value(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIP", "metadata": { "name": "192.0.2.16" },
        "spec": { "address": V4, "pool": "p", "owners": [], "virtualRouter": "r" },
        "status": { "conditions": [condition] },
    }))
    .expect("a VirtualIP")
}

fn plan() -> Plan {
    let planned = |address: &str| Planned {
        address: address.parse().expect("an address"),
        pool: Some("p".into()),
        how: How::Kept,
    };
    Plan { addresses: vec![planned(V4), planned(V6)], leaves: Vec::new(), missing: Vec::new() }
}

#[test]
fn an_address_that_nobody_can_guard_stays_where_it_is_shown_and_is_not_shown_anew() {
    let address = V4.parse().expect("an address");
    let unguarded = vip(REASON_UNGUARDED);
    let message = "n1 cannot".to_owned();
    assert_eq!(progress(address, Some(&unguarded), true), Progress::Mute { message: message.clone() });
    assert_eq!(progress(address, Some(&unguarded), false), Progress::Blocked { message });
    // Another station's address that is shown stays without a word, as ever.
    assert_eq!(progress(address, Some(&vip(REASON_ADDRESS_TAKEN)), true), Progress::Works);
}

#[test]
fn a_service_with_an_address_that_nobody_can_guard_keeps_its_status_and_says_so() {
    for families in [Families::Require(BOTH), Families::Prefer(BOTH)] {
        let far = |address: IpAddr| {
            if address.is_ipv4() { Progress::Works } else { Progress::Mute { message: "n1 cannot".into() } }
        };
        let Ok(Ensured::Ready { status, reason, message }) =
            verdict(&plan(), families, None, far, Vec::new())
        else {
            panic!("ready")
        };
        let shown: Vec<_> = status.ingress.into_iter().flatten().filter_map(|entry| entry.ip).collect();
        assert_eq!(shown, [V4, V6], "both stay");
        assert_eq!(reason, address_allocated::NOT_ANNOUNCED);
        assert!(message.contains("n1 cannot"), "{message}");
    }
}

use serde_json::json;
use windlass_api::CONDITION_ADDRESS_ALLOCATED;
use windlass_ipam::Acquisition;

use super::*;
use crate::allocation::condition::{says_has_address, says_has_from_pool};

const V4: &str = "192.0.2.16";
const V6: &str = "2001:db8::8";
const BOTH: [Family; 2] = [Family::V4, Family::V6];

/// A VirtualIP of which the planner or an agent says this.
fn vip(router: Option<&str>, status: &str, reason: &str) -> VirtualIP {
    let condition = json!({ "type": "Announced", "status": status, "reason": reason, "message": "n1 cannot",
                            "lastTransitionTime": "2026-01-01T00:00:00Z" });
    serde_json::from_value(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIP", "metadata": { "name": "192.0.2.16" },
        "spec": { "address": V4, "pool": "p", "owners": [], "virtualRouter": router },
        "status": { "conditions": [condition] },
    }))
    .expect("a VirtualIP")
}

/// One that a node announces, and that another host uses, too.
fn contested() -> VirtualIP {
    let mut vip = vip(Some("r"), "True", "Active");
    let conditions = &mut vip.status.as_mut().expect("a status").conditions;
    conditions.push(Condition { type_: "AddressConflict".into(), ..conditions[0].clone() });
    vip
}

fn plan() -> Plan {
    let planned = |address: &str| PlannedAddress {
        address: address.parse().expect("an address"),
        pool: Some("p".into()),
        how: Acquisition::Kept,
    };
    Plan { addresses: vec![planned(V4), planned(V6)], to_release: Vec::new(), missing: Vec::new() }
}

#[test]
fn what_is_said_of_an_address_that_is_shown_or_not() {
    let on = Some("r");
    let told = || "n1 cannot".to_owned();
    let waits = || format!("waiting for a node of virtual router r to announce {V4}");
    let works = || [Announcement::Announced, Announcement::Announced];
    let on_its_way = |message: String| {
        [Announcement::Pending { message: message.clone() }, Announcement::ShownPending { message }]
    };
    let blocked =
        || [Announcement::Blocked { message: told() }, Announcement::ShownBlocked { message: told() }];
    let mut silent = vip(on, "False", "Active");
    silent.status = None;
    let mut resting = vip(on, "False", announced::UNGUARDED);
    resting.spec.quarantine =
        serde_json::from_value(json!({ "reason": "Released", "until": "2026-01-01T00:00:00Z" }))
            .expect("a quarantine");
    let rows = [
        ("announced", Some(vip(on, "True", "Active")), works()),
        (
            "announced beside another host",
            Some(contested()),
            [told(), told()].map(|message| Announcement::Contested { message }),
        ),
        ("without its object", None, on_its_way(format!("waiting for the VirtualIP of {V4}"))),
        ("of which nobody has spoken", Some(silent), on_its_way(waits())),
        ("released, and back", Some(vip(on, "False", "Quarantined")), on_its_way(waits())),
        ("still in quarantine", Some(resting), on_its_way(waits())),
        ("placed again", Some(vip(on, "False", "NoSegment")), on_its_way(waits())),
        ("of a stopped agent", Some(vip(on, "False", announced::AGENT_STOPPED)), on_its_way(told())),
        (
            "announced until its router was taken away",
            Some(vip(None, "True", "Active")),
            on_its_way(format!("waiting for a virtual router for {V4}")),
        ),
        ("that nobody can guard", Some(vip(on, "False", announced::UNGUARDED)), blocked()),
        ("of a node's kernel", Some(vip(on, "False", announced::ADDRESS_REFUSED)), blocked()),
        ("in no subnet", Some(vip(None, "False", "NoSegment")), blocked()),
        ("on no interface", Some(vip(None, "False", "NoInterface")), blocked()),
        ("of single addresses", Some(vip(None, "False", "NoSubnet")), blocked()),
        ("without a link-local address", Some(vip(None, "False", "NoLinkLocalAddress")), blocked()),
        ("without a VRID", Some(vip(None, "False", "NoVRID")), blocked()),
        (
            "of another host",
            Some(vip(on, "False", announced::ADDRESS_TAKEN)),
            [Announcement::Taken { message: told() }, Announcement::ShownBlocked { message: told() }],
        ),
    ];
    let address = V4.parse().expect("an address");
    for (what, vip, expected) in rows {
        let found = [false, true].map(|shown| announcement(address, vip.as_ref(), shown, None));
        assert_eq!(found, expected, "an address {what}");
    }
}

/// The outcome in short: which it is, whether the condition holds, and the addresses to show.
fn outcome(families: Families, shown: &[&str], far: [&Announcement; 2]) -> String {
    let shown = shown.iter().map(|address| address.parse().expect("an address")).collect();
    let far = |address: IpAddr| far[usize::from(address.is_ipv6())].clone();
    match ensure_result(&plan(), families, None, &shown, far, Vec::new()) {
        Ok(Ensured::Ready { status, works, reason, .. }) => {
            let shown = status.ingress.into_iter().flatten().filter_map(|entry| entry.ip);
            format!("{works} {reason} {}", shown.collect::<Vec<_>>().join(","))
        }
        Ok(Ensured::Pending { works, reason, message }) => format!("{works} {reason} pending: {message}"),
        Err(ProviderError::Rejected { reason, message }) => format!("false {reason} failed: {message}"),
        Err(ProviderError::Blocked { reason, message }) => format!("true {reason} failed: {message}"),
        other => panic!("{other:?}"),
    }
}

/// What the status shows, how far IPv4 and IPv6 are; the outcome where both are wished for and where both are needed.
type Row<'a> = (&'a [&'a str], [&'a Announcement; 2], String, String);

#[test]
fn the_condition_holds_if_and_only_if_an_address_is_shown_and_every_one_that_is_shown_is_announced() {
    let works = Announcement::Announced;
    let waits = Announcement::Pending { message: "wait".into() };
    let blocked = Announcement::Blocked { message: "no".into() };
    let silent = Announcement::ShownPending { message: "gone".into() };
    let mute = Announcement::ShownBlocked { message: "ill".into() };
    let shared = Announcement::Contested { message: "two".into() };
    let both = format!("{V4},{V6}");
    let (v4, v6) = (format!("{V4} from pool \"p\""), format!("{V6} from pool \"p\""));
    let waits_for_v6 = |works: bool| format!("{works} NotAnnounced pending: {v4}; wait");
    let rows: [Row<'_>; 14] = [
        (&[], [&works, &works], format!("true Allocated {both}"), format!("true Allocated {both}")),
        (&[], [&works, &waits], waits_for_v6(false), waits_for_v6(false)),
        (&[V4], [&works, &waits], waits_for_v6(true), waits_for_v6(true)),
        (
            &[V4],
            [&shared, &works],
            format!("true AddressConflict {both}"),
            format!("true AddressConflict {both}"),
        ),
        (
            &[V4],
            [&shared, &blocked],
            format!("true NotAnnounced {V4}"),
            format!("true NotAnnounced failed: {v4}; two; no"),
        ),
        (
            &[],
            [&works, &blocked],
            format!("true NotAnnounced {V4}"),
            format!("false NotAnnounced failed: {v4}; no"),
        ),
        (
            &[V4],
            [&works, &blocked],
            format!("true NotAnnounced {V4}"),
            format!("true NotAnnounced failed: {v4}; no"),
        ),
        (
            &[],
            [&blocked, &blocked],
            "false NotAnnounced failed: no; no".into(),
            "false NotAnnounced failed: no; no".into(),
        ),
        (&[V4], [&mute, &works], format!("false NotAnnounced {both}"), format!("false NotAnnounced {both}")),
        (
            &[V4, V6],
            [&mute, &works],
            format!("false NotAnnounced {both}"),
            format!("false NotAnnounced {both}"),
        ),
        (
            &[V4],
            [&mute, &blocked],
            format!("false NotAnnounced {V4}"),
            format!("false NotAnnounced failed: {v4}; ill; no"),
        ),
        (
            &[V4, V6],
            [&silent, &works],
            format!("false NotAnnounced pending: {v4}, {v6}; gone"),
            format!("false NotAnnounced pending: {v4}, {v6}; gone"),
        ),
        // What works now is shown, whether the other one comes back or not.
        (
            &[V4],
            [&silent, &works],
            format!("false NotAnnounced {both}"),
            format!("false NotAnnounced {both}"),
        ),
        (
            &[V4],
            [&silent, &blocked],
            format!("false NotAnnounced pending: {v4}; gone; no"),
            format!("false NotAnnounced pending: {v4}; gone; no"),
        ),
    ];
    for (shown, far, prefers, requires) in rows {
        assert_eq!(outcome(Families::Prefer(BOTH), shown, far), prefers, "{shown:?} {far:?}, preferred");
        assert_eq!(outcome(Families::Require(BOTH), shown, far), requires, "{shown:?} {far:?}, required");
    }
    // An address that it is to lose works until then, or does not.
    let other = "192.0.2.99";
    let far = |of_other: &Announcement| {
        let shown = [other.parse().expect("an address")].into();
        let far =
            |address: IpAddr| if address.to_string() == other { of_other.clone() } else { waits.clone() };
        ensure_result(&plan(), Families::Prefer(BOTH), None, &shown, far, Vec::new())
    };
    let pending = |works: bool| {
        Ok(Ensured::Pending { works, reason: address_allocated::NOT_ANNOUNCED, message: "wait".into() })
    };
    assert_eq!(far(&works), pending(true));
    assert_eq!(far(&mute), pending(false));
}

#[test]
fn what_our_condition_tells_of_addresses_and_pools_is_read_again_and_nothing_else() {
    let other = "192.0.2.1";
    let service = |reason: &str, status: &str, message: &str| -> Service {
        let condition = json!({ "type": CONDITION_ADDRESS_ALLOCATED, "status": status, "reason": reason,
                                "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z" });
        serde_json::from_value(json!({ "status": { "conditions": [condition] } })).expect("a Service")
    };
    let all: [&dyn Fn(IpAddr) -> Announcement; 4] = [
        &|_| Announcement::Announced,
        &|_| Announcement::Contested { message: "two".into() },
        &|_| Announcement::ShownPending { message: "gone".into() },
        &|_| Announcement::ShownBlocked { message: "ill".into() },
    ];
    let shown = [V4, V6].map(|address| address.parse().expect("an address")).into();
    for far in all {
        for (pool, its, elsewhere) in
            [(None, Some("p"), false), (Some("q"), Some("p"), true), (Some("p"), None, false)]
        {
            let mut plan = plan();
            plan.addresses.iter_mut().for_each(|planned| planned.pool = its.map(str::to_owned));
            let (reason, message) =
                match ensure_result(&plan, Families::Prefer(BOTH), pool, &shown, far, Vec::new()) {
                    Ok(Ensured::Ready { reason, message, .. } | Ensured::Pending { reason, message, .. }) => {
                        (reason, message)
                    }
                    other => panic!("{other:?}"),
                };
            if far(V4.parse().expect("an address")) == Announcement::Announced {
                assert_eq!(reason == address_allocated::ADDRESS_IN_OTHER_POOL, elsewhere, "{message}");
            }
            let told = service(reason, "True", &message);
            for address in [V4, V6] {
                let address = address.parse().expect("an address");
                assert!(says_has_address(&told, address), "{message}");
                for named in ["p", "q"] {
                    let is_named = pool == Some(named) || its == Some(named);
                    assert_eq!(says_has_from_pool(&told, address, named), is_named, "{named}: {message}");
                }
            }
            assert!(
                !says_has_address(&told, other.parse().expect("an address")),
                "{message}: it begins as one that is told of"
            );
        }
    }
    let refused = service("NoFreeAddress", "False", "pool \"p\" holds 192.0.2.16 from a hand");
    assert!(!says_has_from_pool(&refused, V4.parse().expect("an address"), "p"), "that is not how it has it");
}

#[test]
fn a_service_whose_pods_are_where_nobody_may_announce_its_address_says_so_and_works_for_all_the_controller_knows()
 {
    let message = "its pods run on n3".to_owned();
    let flaw = Flaw { reason: address_allocated::NO_LOCAL_ENDPOINT, message: message.clone() };
    let active = vip(Some("r"), "True", "Active");
    let address: IpAddr = V4.parse().expect("an address");
    let found = announcement(address, Some(&active), true, Some(&flaw));
    assert_eq!(found, Announcement::Flawed(flaw));
    let one = Plan { addresses: vec![plan().addresses[0].clone()], ..plan() };
    let shown = BTreeSet::from([address]);
    let result =
        ensure_result(&one, Families::Single(Family::V4), None, &shown, |_| found.clone(), Vec::new());
    match result.expect("a result") {
        Ensured::Ready { works, reason, message: says, status: _ } => {
            assert_eq!((works, reason), (true, address_allocated::NO_LOCAL_ENDPOINT));
            assert!(says.starts_with(V4) && says.ends_with(&message), "{says}");
        }
        other => panic!("{other:?}"),
    }
}

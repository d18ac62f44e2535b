use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass_api::{ExternalTrafficPolicy, VirtualIPSpec};
use windlass_ipam::{Families, Sharing, TrafficPolicy};

use super::*;

const NOW: i64 = 1_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("a time")
}

fn owner(name: &str) -> ServiceRef {
    ServiceRef { namespace: "ns".into(), name: name.into(), uid: format!("uid-{name}") }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

fn vip(address: &str, owners: &[&str], uid: &str, version: u64) -> VirtualIP {
    let spec = VirtualIPSpec {
        on_address_in_use: windlass_api::OnAddressInUse::Refuse,
        load_sharing: None,
        address: ip(address),
        pool: "p".into(),
        owners: owners.iter().map(|name| owner(name)).collect(),
        former_pools: Vec::new(),
        virtual_router: None,
        announcement: None,
        sources: Vec::new(),
        ports: Vec::new(),
        external_traffic_policy: ExternalTrafficPolicy::Cluster,
        health_check_node_ports: Vec::new(),
        quarantine: None,
    };
    let mut vip = VirtualIP::new(&windlass_api::virtual_ip_name(spec.address), spec);
    vip.metadata.uid = Some(uid.into());
    vip.metadata.resource_version = Some(version.to_string());
    vip
}

fn quarantined(mut vip: VirtualIP, reason: QuarantineReason) -> VirtualIP {
    vip.spec.quarantine = Some(Quarantine { reason, until: Time(at(NOW + 60)), message: String::new() });
    vip
}

/// Everybody shares with everybody.
fn terms(_: &ServiceRef) -> Terms {
    let sharing = Some(Sharing { key: "k".into(), with: [].into() });
    Terms { namespace: "ns".into(), ports: [].into(), traffic: TrafficPolicy::Cluster, sharing }
}

fn ledger(range: &str) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.set_pools([Pool::new("p", [range.parse().expect(range)])]);
    ledger
}

fn request() -> Request {
    Request::any(Families::Single(Family::V4), "ns")
}

fn promised(ledger: &mut Ledger, name: &str) -> Option<String> {
    let plan = ledger.allocate(&owner(name), &request()).ok()?;
    Some(plan.addresses[0].address.to_string())
}

fn observe_object(ledger: &mut Ledger, vip: &VirtualIP, asked: Option<&str>) -> Vec<String> {
    let asked = asked.map(owner);
    let change = ledger.observe_object(vip, asked.as_ref(), at(NOW), terms, |_, _| false);
    change.lost.into_iter().map(|lost| lost.name).collect()
}

fn object_deleted(ledger: &mut Ledger, address: &str, uid: &str, keep: bool) -> LedgerChange {
    ledger.object_deleted(ip(address), uid, at(NOW), terms, |_| keep)
}

#[test]
fn a_promise_becomes_a_claim_when_the_object_is_made() {
    let mut ledger = ledger("192.0.2.1-192.0.2.2");
    let address = ip("192.0.2.1");
    assert_eq!(promised(&mut ledger, "a").as_deref(), Some("192.0.2.1"));
    assert_eq!(ledger.claim_action(&owner("a"), address), ClaimAction::Create);
    assert_eq!(
        ledger.release_action(&owner("a"), address),
        ReleaseAction::Read,
        "an answer may have been lost"
    );
    observe_object(&mut ledger, &vip("192.0.2.1", &["a"], "x", 7), Some("a"));
    assert_eq!(ledger.claim_action(&owner("a"), address), ClaimAction::Owned);
    assert!(
        matches!(ledger.release_action(&owner("a"), address), ReleaseAction::LastOwner(seen) if seen.version == 7)
    );
    // Old news of the same object changes nothing.
    observe_object(&mut ledger, &vip("192.0.2.1", &["b"], "x", 6), None);
    assert_eq!(ledger.holders(address), [owner("a")]);
}

#[test]
fn whoever_the_api_server_names_has_the_address_and_who_asked_in_vain_gets_the_next() {
    let mut ledger = ledger("192.0.2.1-192.0.2.2");
    promised(&mut ledger, "a");
    let foreign = vip("192.0.2.1", &["b"], "y", 9);
    observe_object(&mut ledger, &foreign, None);
    assert_eq!(ledger.holders(ip("192.0.2.1")), [owner("b"), owner("a")], "b came first");
    assert_eq!(observe_object(&mut ledger, &foreign, Some("a")), ["a"]);
    assert_eq!(ledger.holders(ip("192.0.2.1")), [owner("b")]);
    assert_eq!(promised(&mut ledger, "a").as_deref(), Some("192.0.2.2"));
}

#[test]
fn late_news_of_a_deleted_object_does_not_take_the_address_from_its_next_owner() {
    let mut ledger = ledger("192.0.2.1-192.0.2.1");
    observe_object(&mut ledger, &vip("192.0.2.1", &["a"], "x", 5), None);
    assert!(object_deleted(&mut ledger, "192.0.2.1", "x", false).freed);
    promised(&mut ledger, "b");
    observe_object(&mut ledger, &vip("192.0.2.1", &["b"], "y", 12), Some("b"));
    assert!(observe_object(&mut ledger, &vip("192.0.2.1", &["a"], "x", 8), None).is_empty());
    assert_eq!(object_deleted(&mut ledger, "192.0.2.1", "x", false), LedgerChange::default());
    assert_eq!(ledger.holders(ip("192.0.2.1")), [owner("b")]);
    // Newer news is believed.
    assert_eq!(observe_object(&mut ledger, &vip("192.0.2.1", &["c"], "z", 20), None), ["b"]);
}

#[test]
fn an_object_deleted_by_hand_leaves_its_address_to_services_that_want_it() {
    let mut ledger = ledger("192.0.2.1-192.0.2.2");
    observe_object(&mut ledger, &vip("192.0.2.1", &["a", "b"], "x", 5), None);
    let change = object_deleted(&mut ledger, "192.0.2.1", "x", true);
    assert_eq!(change.to_reclaim, [owner("a"), owner("b")]);
    assert_eq!(ledger.claim_action(&owner("a"), ip("192.0.2.1")), ClaimAction::Create);
    assert_eq!(promised(&mut ledger, "c").as_deref(), Some("192.0.2.2"));
    let as_before = Request { terms: terms(&owner("a")), ..request() };
    let plan = ledger.allocate(&owner("a"), &as_before).expect("kept");
    assert_eq!(plan.addresses[0].address, ip("192.0.2.1"));
}

#[test]
fn an_owner_that_a_hand_takes_out_comes_back_in_front_and_one_that_it_puts_in_front_comes_last() {
    let mut ledger = ledger("192.0.2.1-192.0.2.2");
    let address = ip("192.0.2.1");
    let mut observe = |owners: &[&str], version: u64| {
        let seen = vip("192.0.2.1", owners, "x", version);
        let change = ledger.observe_object(&seen, None, at(NOW), terms, |holder, _| holder.name == "a");
        let names = |all: &[ServiceRef]| all.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        let claim = ledger.claim_action(&owner("a"), address);
        (
            names(&change.to_reclaim),
            names(&change.lost),
            names(&change.joined),
            names(ledger.holders(address)),
            claim,
        )
    };
    let all = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    observe(&["a", "b"], 5);
    let (to_reclaim, lost, joined, holders, claim) = observe(&["c", "b"], 6);
    assert_eq!((to_reclaim, lost, joined), (all(&["a"]), all(&[]), all(&["c"])));
    assert_eq!(holders, all(&["a", "b", "c"]));
    assert!(
        matches!(claim, ClaimAction::Join { owners, .. } if owners == ["a", "b", "c"].map(owner)),
        "as it was"
    );
    let (to_reclaim, lost, .., holders, claim) = observe(&["a", "b"], 7);
    assert_eq!(
        (to_reclaim, lost, holders, claim),
        (all(&[]), all(&["c"]), all(&["a", "b"]), ClaimAction::Owned)
    );
}

#[test]
fn who_joins_and_who_leaves_is_what_the_object_says() {
    let mut ledger = ledger("192.0.2.1-192.0.2.2");
    let address = ip("192.0.2.1");
    observe_object(&mut ledger, &vip("192.0.2.1", &["a"], "x", 5), None);
    let joins = Request { terms: terms(&owner("b")), ..request() };
    let plan = ledger.allocate(&owner("b"), &joins).expect("joined");
    assert_eq!(plan.addresses[0].address, address);
    assert!(
        matches!(ledger.claim_action(&owner("b"), address), ClaimAction::Join { owners, .. } if owners == [owner("a"), owner("b")])
    );
    observe_object(&mut ledger, &vip("192.0.2.1", &["a", "b"], "x", 6), Some("b"));
    assert_eq!(ledger.claim_action(&owner("b"), address), ClaimAction::Owned);
    assert!(
        matches!(ledger.release_action(&owner("a"), address), ReleaseAction::Leave { remaining, .. } if remaining == [owner("b")])
    );
    let change = ledger.observe_object(&vip("192.0.2.1", &["b"], "x", 7), None, at(NOW), terms, |_, _| false);
    assert_eq!((change.lost, change.freed), (vec![owner("a")], true), "its ports are free");
    assert_eq!(ledger.release_action(&owner("a"), address), ReleaseAction::None);
}

#[test]
fn an_address_in_quarantine_is_nobodys_and_goes_back_to_the_same_service_only() {
    let mut ledger = ledger("192.0.2.1-192.0.2.2");
    let address = ip("192.0.2.1");
    observe_object(&mut ledger, &vip("192.0.2.1", &["a"], "x", 5), None);
    let put_away = quarantined(vip("192.0.2.1", &["a"], "x", 6), QuarantineReason::Released);
    assert_eq!(observe_object(&mut ledger, &put_away, Some("a")), ["a"]);
    assert!(ledger.holders(address).is_empty());
    assert_eq!(ledger.release_action(&owner("a"), address), ReleaseAction::None);
    assert_eq!(promised(&mut ledger, "b").as_deref(), Some("192.0.2.2"));
    assert_eq!(promised(&mut ledger, "c"), None);
    assert_eq!(ledger.next_quarantine_end(), Some(at(NOW + 60)));
    assert!(ledger.ended_quarantines(at(NOW + 59)).is_empty());
    assert_eq!(ledger.ended_quarantines(at(NOW + 60)).len(), 1);
    // Made anew under its name, and asking for it.
    let anew = ServiceRef { uid: "other".into(), ..owner("a") };
    let base_request = Request { addresses: vec![address], ..request() };
    ledger.allocate(&anew, &base_request).expect("recalled");
    assert!(matches!(ledger.claim_action(&anew, address), ClaimAction::LiftQuarantine(_)));
    // News of the object as it was does not break the promise, and the end of the object does not either.
    observe_object(
        &mut ledger,
        &quarantined(vip("192.0.2.1", &["a"], "x", 7), QuarantineReason::Released),
        None,
    );
    assert_eq!(ledger.holders(address), std::slice::from_ref(&anew));
    object_deleted(&mut ledger, "192.0.2.1", "x", false);
    assert_eq!(ledger.claim_action(&anew, address), ClaimAction::Create);
}

#[test]
fn a_promise_that_is_broken_puts_the_address_back_where_it_was() {
    let mut ledger = ledger("192.0.2.1-192.0.2.1");
    let put_away = quarantined(vip("192.0.2.1", &["a"], "x", 6), QuarantineReason::Released);
    observe_object(&mut ledger, &put_away, None);
    let before = ledger.counts("p", Family::V4);
    let base_request = Request { addresses: vec![ip("192.0.2.1")], ..request() };
    ledger.allocate(&owner("a"), &base_request).expect("recalled");
    ledger.cancel_promise(&owner("a"), ip("192.0.2.1"), false, at(NOW), terms);
    assert_eq!(ledger.counts("p", Family::V4), before);
    assert_eq!(promised(&mut ledger, "b"), None, "still in quarantine");
}

#[test]
fn an_address_that_another_host_has_is_not_given_back_either() {
    let mut ledger = ledger("192.0.2.1-192.0.2.1");
    let put_away = quarantined(vip("192.0.2.1", &["a"], "x", 6), QuarantineReason::AddressTaken);
    observe_object(&mut ledger, &put_away, None);
    let base_request = Request { addresses: vec![ip("192.0.2.1")], ..request() };
    assert!(
        matches!(ledger.allocate(&owner("a"), &base_request), Err(error) if matches!(*error, AllocateError::Quarantined { .. }))
    );
}

#[test]
fn what_a_status_shows_is_promised_if_it_is_free_or_shared() {
    let mut ledger = ledger("192.0.2.1-192.0.2.9");
    let alone = Terms::alone("ns");
    for (name, address, terms) in [
        ("b", "192.0.2.8", &alone),
        ("c", "192.0.2.8", &alone),
        ("d", "192.0.2.7", &terms(&owner("d"))),
        ("e", "192.0.2.7", &terms(&owner("e"))),
    ] {
        ledger.adopt(ip(address), &owner(name), terms, false, |_| false);
    }
    assert_eq!(ledger.held_by(&owner("b")), [ip("192.0.2.8")]);
    assert!(ledger.held_by(&owner("c")).is_empty());
    assert_eq!(ledger.holders(ip("192.0.2.7")), [owner("d"), owner("e")]);
}

#[test]
fn the_order_of_the_news_does_not_matter_once_all_of_it_is_here() {
    let news = [
        vip("192.0.2.1", &["a", "b"], "x", 5),
        quarantined(vip("192.0.2.2", &["c"], "y", 6), QuarantineReason::Released),
        vip("192.0.2.3", &["d"], "z", 7),
        vip("192.0.2.1", &["b"], "x", 8),
    ];
    let told = |order: [usize; 4]| {
        let mut ledger = ledger("192.0.2.1-192.0.2.9");
        for index in order {
            observe_object(&mut ledger, &news[index], None);
        }
        ledger
    };
    let straight = told([0, 1, 2, 3]);
    for order in [[3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
        assert_eq!(told(order).entries, straight.entries, "{order:?}");
        assert_eq!(
            told(order).allocator.in_use().collect::<Vec<_>>(),
            straight.allocator.in_use().collect::<Vec<_>>()
        );
    }
}

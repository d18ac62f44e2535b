use windlass_api::VirtualIPSpec;

use super::*;

fn owner(name: &str) -> ServiceRef {
    ServiceRef { namespace: "ns".into(), name: name.into(), uid: format!("uid-{name}") }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

fn vip(address: &str, owner_name: &str, uid: &str, version: u64) -> VirtualIP {
    let spec = VirtualIPSpec {
        address: ip(address),
        pool: "p".into(),
        owners: vec![owner(owner_name)],
        virtual_router: None,
        quarantine: None,
    };
    let mut vip = VirtualIP::new(&windlass_api::virtual_ip_name(spec.address), spec);
    vip.metadata.uid = Some(uid.into());
    vip.metadata.resource_version = Some(version.to_string());
    vip
}

fn ledger(range: &str) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.set_pools([Pool::new("p", [range.parse().expect(range)])]);
    ledger
}

fn request<const N: usize>(preferred: [&str; N]) -> Request {
    let preferred = preferred.map(ip).to_vec();
    Request { preferred, ..Request::any(windlass_ipam::Families::Single(Family::V4), "ns") }
}

fn placed(ledger: &mut Ledger, name: &str) -> Option<String> {
    ledger.place(&owner(name), &request([])).ok().map(|plan| plan.addresses[0].address.to_string())
}

#[test]
fn a_reservation_becomes_a_claim_when_the_object_is_made() {
    let mut ledger = ledger("192.0.2.1-192.0.2.2");
    assert_eq!(placed(&mut ledger, "a").as_deref(), Some("192.0.2.1"));
    assert_eq!(ledger.proof(ip("192.0.2.1")), Some(&Proof::Reserved));
    assert_eq!(ledger.settle(&vip("192.0.2.1", "a", "x", 7)), Outcome::Same);
    assert_eq!(ledger.proof(ip("192.0.2.1")), Some(&Proof::Object { uid: "x".into(), version: 7 }));
    // Old news of the same object changes nothing.
    ledger.observe(&vip("192.0.2.1", "a", "x", 6));
    assert_eq!(ledger.proof(ip("192.0.2.1")), Some(&Proof::Object { uid: "x".into(), version: 7 }));
}

#[test]
fn an_object_of_another_controller_wins_over_a_reservation_once_the_api_server_said_so() {
    let mut ledger = ledger("192.0.2.1-192.0.2.2");
    placed(&mut ledger, "a");
    let foreign = vip("192.0.2.1", "b", "y", 9);
    assert_eq!(ledger.observe(&foreign), Outcome::Same, "the answer to our creation is on its way");
    assert_eq!(ledger.holder(ip("192.0.2.1")), Some(&owner("a")));
    assert_eq!(ledger.settle(&foreign), Outcome::Lost(owner("a")));
    assert_eq!(ledger.holder(ip("192.0.2.1")), Some(&owner("b")));
    assert_eq!(placed(&mut ledger, "a").as_deref(), Some("192.0.2.2"), "the next address is tried");
}

#[test]
fn late_news_of_a_deleted_object_does_not_take_the_address_from_its_next_owner() {
    let mut ledger = ledger("192.0.2.1-192.0.2.1");
    placed(&mut ledger, "a");
    ledger.settle(&vip("192.0.2.1", "a", "x", 5));
    assert!(ledger.release(ip("192.0.2.1"), &owner("a")));
    placed(&mut ledger, "b");
    ledger.settle(&vip("192.0.2.1", "b", "y", 12));
    assert_eq!(ledger.observe(&vip("192.0.2.1", "a", "x", 8)), Outcome::Same);
    assert_eq!(ledger.object_gone(&vip("192.0.2.1", "a", "x", 11), false), Gone::NotOurs);
    assert_eq!(ledger.holder(ip("192.0.2.1")), Some(&owner("b")));
    // Newer news is believed.
    assert_eq!(ledger.observe(&vip("192.0.2.1", "c", "z", 20)), Outcome::Lost(owner("b")));
}

#[test]
fn an_object_deleted_by_hand_leaves_its_address_reserved_for_a_service_that_wants_it() {
    let mut ledger = ledger("192.0.2.1-192.0.2.2");
    let object = vip("192.0.2.1", "a", "x", 5);
    ledger.observe(&object);
    assert_eq!(ledger.object_gone(&object, true), Gone::Kept);
    assert_eq!(ledger.proof(ip("192.0.2.1")), Some(&Proof::Reserved));
    assert_eq!(placed(&mut ledger, "b").as_deref(), Some("192.0.2.2"));
    assert_eq!(placed(&mut ledger, "a").as_deref(), Some("192.0.2.1"));
    assert_eq!(ledger.object_gone(&object, false), Gone::NotOurs, "a reservation stands on no object");
    ledger.observe(&vip("192.0.2.1", "a", "x2", 9));
    assert_eq!(ledger.object_gone(&vip("192.0.2.1", "a", "x2", 10), false), Gone::Freed);
    assert_eq!(ledger.holder(ip("192.0.2.1")), None);
}

#[test]
fn the_address_in_the_status_is_preferred_to_the_lowest_free_one() {
    let mut ledger = ledger("192.0.2.1-192.0.2.9");
    let given = ledger.place(&owner("a"), &request(["203.0.113.1", "192.0.2.7"])).expect("free");
    assert_eq!(given.addresses[0].address, ip("192.0.2.7"), "203.0.113.1 is in no pool");
    ledger.adopt_from_status(&owner("b"), ip("192.0.2.8"));
    ledger.adopt_from_status(&owner("c"), ip("192.0.2.8"));
    ledger.adopt_from_status(&owner("c"), ip("203.0.113.1"));
    assert_eq!(ledger.held_by(&owner("b")), [ip("192.0.2.8")]);
    assert!(ledger.held_by(&owner("c")).is_empty());
}

#[test]
fn of_two_addresses_that_two_controllers_gave_the_one_in_the_status_stays() {
    let mut ledger = ledger("192.0.2.1-192.0.2.9");
    ledger.observe(&vip("192.0.2.1", "a", "x", 5));
    ledger.observe(&vip("192.0.2.2", "a", "y", 6));
    let mut given = |request: Request| {
        let plan = ledger.place(&owner("a"), &request).expect("held");
        (plan.addresses[0].address.to_string(), plan.leaves)
    };
    assert_eq!(given(request(["192.0.2.2"])), ("192.0.2.2".to_owned(), vec![ip("192.0.2.1")]));
    assert_eq!(given(request([])).0, "192.0.2.1");
    assert_eq!(given(request(["192.0.2.3"])).0, "192.0.2.1", "not a third one");
}

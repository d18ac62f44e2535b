use std::sync::Arc;

use windlass_api::{VirtualIPSpec, virtual_ip_name};

use super::*;

fn address(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn vip(last: u8, router: Option<&str>) -> VirtualIP {
    let address = address(last);
    let spec = VirtualIPSpec {
        former_pools: Vec::new(),
        address,
        pool: "p".into(),
        owners: Vec::new(),
        virtual_router: router.map(str::to_owned),
        sources: Vec::new(),
        quarantine: None,
    };
    VirtualIP::new(&virtual_ip_name(address), spec)
}

fn came(loads: &mut RouterLoads, new: VirtualIP) {
    loads.note(&Change { old: None, new: Some(Arc::new(new)) });
}

fn changed(loads: &mut RouterLoads, old: VirtualIP, new: VirtualIP) {
    loads.note(&Change { old: Some(Arc::new(old)), new: Some(Arc::new(new)) });
}

fn counts(loads: &RouterLoads) -> Vec<(String, usize)> {
    let counts = ["a", "b"].map(|router| (router.to_owned(), loads.of(router)));
    counts.into_iter().filter(|(_, vips)| *vips > 0).collect()
}

#[test]
fn vips_are_counted_where_they_are_and_nowhere_once_they_are_gone() {
    let mut loads = RouterLoads::default();
    came(&mut loads, vip(1, None));
    assert_eq!(counts(&loads), []);
    changed(&mut loads, vip(1, None), vip(1, Some("a")));
    came(&mut loads, vip(2, Some("a")));
    assert_eq!(counts(&loads), [("a".to_owned(), 2)]);
    changed(&mut loads, vip(2, Some("a")), vip(2, Some("b")));
    assert_eq!(counts(&loads), [("a".to_owned(), 1), ("b".to_owned(), 1)]);
    loads.note(&Change { old: Some(Arc::new(vip(1, Some("a")))), new: None });
    changed(&mut loads, vip(2, Some("b")), vip(2, None));
    assert_eq!(counts(&loads), []);
}

#[test]
fn a_vip_that_is_being_made_counts_once() {
    let mut loads = RouterLoads::default();
    loads.expect(address(1), "a".into());
    loads.expect(address(1), "b".into());
    assert_eq!(counts(&loads), [("b".to_owned(), 1)]);
    came(&mut loads, vip(1, Some("b")));
    assert_eq!(counts(&loads), [("b".to_owned(), 1)]);
}

#[test]
fn a_plan_is_concerned_by_the_first_and_the_last_of_a_kind_in_a_router_and_by_those_in_none() {
    let mut loads = RouterLoads::default();
    let news = |old: Option<VirtualIP>, new: Option<VirtualIP>| Change {
        old: old.map(Arc::new),
        new: new.map(Arc::new),
    };
    let of_pool = |last, pool: &str| {
        let mut vip = vip(last, Some("a"));
        vip.spec.pool = pool.into();
        vip
    };
    let mut kept_back = vip(2, None);
    kept_back.spec.quarantine = Some(windlass_api::Quarantine {
        reason: windlass_api::QuarantineReason::Released,
        until: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH),
        message: String::new(),
    });
    let rows = [
        ("the first", news(None, Some(vip(1, Some("a")))), Concern::Plan),
        ("another status", news(Some(vip(1, Some("a"))), Some(vip(1, Some("a")))), Concern::Itself),
        ("the second", news(None, Some(vip(2, Some("a")))), Concern::Itself),
        ("of another pool", news(None, Some(of_pool(3, "q"))), Concern::Plan),
        ("the pool of the others", news(Some(of_pool(3, "q")), Some(of_pool(3, "p"))), Concern::Plan),
        ("in none", news(None, Some(vip(4, None))), Concern::Plan),
        ("still in none", news(Some(vip(4, None)), Some(vip(4, None))), Concern::Plan),
        ("joined them", news(Some(vip(4, None)), Some(vip(4, Some("a")))), Concern::Itself),
        ("kept back", news(Some(vip(2, Some("a"))), Some(kept_back.clone())), Concern::Itself),
        ("kept back no longer", news(Some(kept_back), None), Concern::Itself),
        ("one went", news(Some(of_pool(3, "p")), None), Concern::Itself),
        ("another", news(Some(vip(4, Some("a"))), None), Concern::Itself),
        ("the last", news(Some(vip(1, Some("a"))), None), Concern::Plan),
    ];
    for (what, news, expected) in rows {
        assert_eq!(loads.note(&news), expected, "{what}");
    }
    assert_eq!((loads.of("a"), loads.pools("a").count()), (0, 0));
}

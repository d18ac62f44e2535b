use std::sync::Arc;

use windlass_api::{ExternalTrafficPolicy, VirtualIPSpec, virtual_ip_name};

use super::*;

fn address(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn vip(last: u8, router: Option<&str>) -> VirtualIP {
    let address = address(last);
    let spec = VirtualIPSpec {
        on_address_in_use: windlass_api::OnAddressInUse::Refuse,
        load_sharing: None,
        former_pools: Vec::new(),
        address,
        pool: "p".into(),
        owners: Vec::new(),
        virtual_router: router.map(str::to_owned),
        announcement: None,
        sources: Vec::new(),
        ports: Vec::new(),
        external_traffic_policy: ExternalTrafficPolicy::Cluster,
        health_check_node_ports: Vec::new(),
        quarantine: None,
    };
    VirtualIP::new(&virtual_ip_name(address), spec)
}

fn came(loads: &mut RouterLoads, new: VirtualIP) {
    loads.on_change(&Change { old: None, new: Some(Arc::new(new)) });
}

fn changed(loads: &mut RouterLoads, old: VirtualIP, new: VirtualIP) {
    loads.on_change(&Change { old: Some(Arc::new(old)), new: Some(Arc::new(new)) });
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
    loads.on_change(&Change { old: Some(Arc::new(vip(1, Some("a")))), new: None });
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

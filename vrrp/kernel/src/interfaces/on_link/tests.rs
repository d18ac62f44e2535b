use super::*;
use crate::netlink::Hop;

fn route(destination: &str, interface: u32, gateway: Option<&str>) -> Route {
    let gateway = gateway.map(|gateway| gateway.parse().unwrap());
    Route { destination: destination.parse().unwrap(), hops: vec![Hop { interface, gateway }] }
}

/// The addresses of an interface 2 with these routes, as they are given out.
fn given(addresses: &[&str], routes: &[Route]) -> Vec<String> {
    let mut info = InterfaceInfo { index: 2, ..InterfaceInfo::default() };
    for net in addresses.iter().map(|text| text.parse::<IpNet>().unwrap()) {
        match net {
            IpNet::V4(net) => info.ipv4.push((net.addr(), net.prefix_len())),
            IpNet::V6(net) => info.ipv6.push((net.addr(), net.prefix_len())),
        }
    }
    info.ipv6_lasting = info.ipv6.len();
    give_lengths(&mut info, routes);
    lasting(&mut info).map(|(address, length)| format!("{address}/{length}")).collect()
}

// shows: field-reports F-49
#[test]
fn an_address_without_a_subnet_has_the_length_of_the_subnet_that_is_on_the_link() {
    let on_link = route("2001:db8::/64", 2, None);
    assert_eq!(given(&["2001:db8::5/128"], std::slice::from_ref(&on_link)), ["2001:db8::5/64"]);
    let v4 = route("192.0.2.0/24", 2, None);
    assert_eq!(given(&["192.0.2.5/32"], std::slice::from_ref(&v4)), ["192.0.2.5/24"]);
    for other in [
        route("2001:db8::/64", 3, None),
        route("2001:db8::/64", 2, Some("fe80::1")),
        route("2001:db8:1::/64", 2, None),
        route("::/0", 2, None),
        route("2001:db8::5/128", 2, None),
        v4,
    ] {
        assert_eq!(
            given(&["2001:db8::5/128"], std::slice::from_ref(&other)),
            ["2001:db8::5/128"],
            "{other:?}"
        );
    }
    let narrower = route("2001:db8::/112", 2, None);
    assert_eq!(given(&["2001:db8::5/128"], &[on_link, narrower]), ["2001:db8::5/112"]);
}

#[test]
fn what_others_bind_beside_the_hosts_own_address_stays_without_a_subnet() {
    let routes = [route("192.0.2.0/24", 2, None), route("2001:db8::/64", 2, None)];
    let with_own = ["192.0.2.1/24", "192.0.2.200/32", "2001:db8::200/128", "2001:db8::1/64"];
    assert_eq!(given(&with_own, &routes), with_own);
    assert_eq!(
        given(&["2001:db8::5/128", "2001:db8::200/128"], &routes),
        ["2001:db8::5/64", "2001:db8::200/128"]
    );
}

//! With the kernel.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use super::*;
use crate::interfaces::OWN_PROTOCOL;

const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 50));

fn nth(n: u16) -> IpAddr {
    let [high, low] = n.to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, 0, high, low))
}

#[test]
fn an_address_is_added_refreshed_seen_with_its_tag_and_deleted() {
    in_namespace(|| {
        let mut route = RouteSocket::open().unwrap();
        let index = add_interface(&mut route, "d0");
        for address in [VIP, "2001:db8::50".parse().unwrap()] {
            let message = own_address(index, address, 60);
            let add = || RouteNetlinkMessage::NewAddress(message.clone());
            route.request(add(), NLM_F_CREATE | NLM_F_EXCL).unwrap();
            let again = route.request(add(), NLM_F_CREATE | NLM_F_EXCL).unwrap_err();
            assert_eq!(again.errno(), Some(Errno::EEXIST), "{again}");
            route.request(add(), NLM_F_CREATE | NLM_F_REPLACE).unwrap();

            let all = route.addresses(AddressFamily::Unspec).unwrap();
            let seen = all.entries.iter().find(|seen| seen.ip == address).expect("it is listed");
            assert_eq!((seen.index, seen.protocol, seen.peer), (index, OWN_PROTOCOL, address));
            assert!(seen.flags.contains(AddressFlags::Noprefixroute), "{seen:?}");
            assert!(!seen.flags.contains(AddressFlags::Tentative), "{seen:?}");

            let delete = || RouteNetlinkMessage::DelAddress(message.clone());
            route.request(delete(), 0).unwrap();
            let gone = route.request(delete(), 0).unwrap_err();
            assert_eq!(gone.errno(), Some(Errno::EADDRNOTAVAIL), "{gone}");
        }
    });
}

#[test]
fn a_refusal_carries_the_kernels_words() {
    in_namespace(|| {
        let mut route = RouteSocket::open().unwrap();
        let message = RouteNetlinkMessage::DelAddress(own_address(4711, VIP, 60));
        let error = route.request(message, 0).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::ENODEV));
        assert!(error.to_string().contains("Device not found"), "{error}");
    });
}

#[test]
fn of_three_thousand_orders_each_has_its_own_answer() {
    in_namespace(|| {
        let mut route = RouteSocket::open().unwrap();
        let index = add_interface(&mut route, "d0");
        let orders = (0..3000).map(|n| {
            let on = if n % 1000 == 500 { 4711 } else { index };
            let message = own_address(on, nth(n), u32::MAX);
            (RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
        });
        let answers = route.batch(orders).unwrap();
        assert_eq!(answers.len(), 3000);
        for (n, answer) in answers.iter().enumerate() {
            let expected = if n % 1000 == 500 { Err(Errno::ENODEV) } else { Ok(()) };
            let told = answer.as_ref().copied().map_err(|refusal| refusal.errno);
            assert_eq!(told, expected, "order {n}");
        }
        let listed = route.addresses(AddressFamily::Inet).unwrap();
        assert!(listed.consistent);
        assert_eq!(listed.entries.len(), 2997);
        assert_eq!(route.batch([]).unwrap(), []);
    });
}

#[test]
fn a_monitor_hears_what_happens_in_order_and_is_empty_then() {
    in_namespace(|| {
        let mut monitor = Monitor::open().unwrap();
        assert_eq!(monitor.next().unwrap(), None);
        let mut route = RouteSocket::open().unwrap();
        let index = add_interface(&mut route, "d0");
        let message = own_address(index, VIP, 60);
        route.request(RouteNetlinkMessage::NewAddress(message.clone()), NLM_F_CREATE).unwrap();
        route.request(RouteNetlinkMessage::DelAddress(message), 0).unwrap();
        let mut link = LinkMessage::default();
        link.header.index = index;
        route.request(RouteNetlinkMessage::DelLink(link), 0).unwrap();
        let heard: Vec<_> = std::iter::from_fn(|| monitor.next().unwrap()).collect();
        let about_vip = |change: &Address| change.ip == VIP && change.protocol == OWN_PROTOCOL;
        let at = |wanted: &dyn Fn(&Change) -> bool| {
            let wanted = |notification: &Notification| matches!(notification, Notification::Change(change) if wanted(change));
            heard.iter().position(wanted).unwrap_or_else(|| panic!("not heard: {heard:#?}"))
        };
        let order = [
            at(&|change| matches!(change, Change::Link(link) if link.name == "d0" && link.up)),
            at(&|change| matches!(change, Change::Address(address) if about_vip(address))),
            at(&|change| matches!(change, Change::AddressGone(address) if about_vip(address))),
            at(&|change| *change == Change::LinkGone(index)),
        ];
        assert!(order.is_sorted(), "{order:?}: {heard:#?}");
    });
}

#[test]
fn a_monitor_that_is_not_read_in_time_says_so_and_hears_again_what_comes_after() {
    in_namespace(|| {
        let mut monitor = Monitor::with_buffer(4096).unwrap();
        let mut route = RouteSocket::open().unwrap();
        let index = add_interface(&mut route, "d0");
        let add = |n| (RouteNetlinkMessage::NewAddress(own_address(index, nth(n), u32::MAX)), NLM_F_CREATE);
        assert!(route.batch((0..500).map(add)).unwrap().iter().all(Result::is_ok));
        let heard: Vec<_> = std::iter::from_fn(|| monitor.next().unwrap()).collect();
        assert!(heard.contains(&Notification::Overrun), "{} notices", heard.len());
        assert!(heard.len() < 500, "{} notices", heard.len());

        assert!(route.batch([add(500)]).unwrap().iter().all(Result::is_ok));
        let after: BTreeSet<_> = std::iter::from_fn(|| monitor.next().unwrap())
            .filter_map(|notification| match notification {
                Notification::Change(Change::Address(address)) => Some(address.ip),
                _ => None,
            })
            .collect();
        assert!(after.contains(&nth(500)), "{after:?}");
    });
}

#[test]
fn routes_to_other_hosts_are_read_of_every_table_with_each_of_their_hops() {
    in_namespace(|| {
        let ip = |command: &str| {
            let done = std::process::Command::new("ip").args(command.split(' ')).status().unwrap();
            assert!(done.success(), "ip {command}");
        };
        for command in [
            "link add d0 type bridge",
            "link add d1 type bridge",
            "link add vx0 type vxlan id 7 dstport 0 dev d0",
            "link set d0 up",
            "link set d1 up",
            "link set vx0 up",
            "addr add 192.0.2.1/24 dev d1",
        ] {
            ip(command);
        }
        let kinds = crate::interfaces::link_kinds().unwrap();
        let kind = |name: &str| kinds.iter().find(|link| link.name == name).cloned().unwrap().kind.unwrap();
        assert_eq!(["d0", "d1", "vx0"].map(kind), ["bridge", "bridge", "vxlan"]);
        for command in [
            "route del 192.0.2.0/24",
            "route add 192.0.2.9 dev d1",
            "route add 10.244.1.0/24 via 10.244.1.0 dev vx0 onlink table 77",
            "route add 10.0.0.0/24 nexthop via 192.0.2.9 dev d1 nexthop dev d0",
            "route add 10.1.0.0/24 via inet6 fe80::1 dev d1",
            "route add blackhole 10.2.0.0/24",
        ] {
            ip(command);
        }
        let mut read: Vec<_> = crate::interfaces::routes().unwrap();
        read.retain(|route| route.destination.addr().is_ipv4());
        let told = |route: &crate::interfaces::HostRoute| {
            let gateway = route.gateway.map(|gateway| format!(" via {gateway}")).unwrap_or_default();
            format!("{}{gateway} by {}", route.destination, route.interface)
        };
        let read: BTreeSet<String> = read.iter().map(told).collect();
        let expected = [
            "10.0.0.0/24 by d0",
            "10.0.0.0/24 via 192.0.2.9 by d1",
            "10.1.0.0/24 via fe80::1 by d1",
            "10.244.1.0/24 via 10.244.1.0 by vx0",
            "192.0.2.9/32 by d1",
        ];
        assert_eq!(read, expected.map(str::to_owned).into());
    });
}

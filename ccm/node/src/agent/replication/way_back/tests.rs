use std::collections::{BTreeMap, BTreeSet};

use windlass_engine::Heard;

use super::*;

const OWN: &str = "192.0.2.11";
const ARRIVES: Heard = Heard { at_all: true, by_interface: true };
const LOST: Heard = Heard { at_all: true, by_interface: false };
const SILENT: Heard = Heard { at_all: false, by_interface: false };

/// What hosts have answered.
type Answered<'a> = &'a [(&'a str, Heard)];

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// As `10.244.2.0/24 via 10.244.2.0 flannel.1`; `onlink`: what is for the gateway goes another way.
fn route(text: &str) -> HostRoute {
    let words: Vec<&str> = text.split(' ').collect();
    let (gateway, rest) = match words[1..] {
        ["via", gateway, ref rest @ ..] => (Some(ip(gateway)), rest.to_vec()),
        ref rest => (None, rest.to_vec()),
    };
    HostRoute::new(words[0].parse().unwrap(), rest[0], gateway, !rest.contains(&"onlink"))
}

/// What is seen of eth0's segment, where these hosts have answered so.
fn seen(links: &[(&str, Option<&str>)], routes: &[&str], heard: Answered<'_>, strict: &[&str]) -> WayBack {
    let links: Vec<_> = links.iter().map(|(name, kind)| LinkKind::new(name, *kind)).collect();
    let routes: Vec<_> = routes.iter().map(|text| route(text)).collect();
    let family = Family::V4;
    let view = View { interface: "eth0", family, own: Some(ip(OWN)), links: &links, routes: &routes };
    let mut answers = Answers::default();
    answers.note(ip(OWN), &heard.iter().map(|(host, heard)| (ip(host), *heard)).collect());
    view.way_back(&answers, &Filters::strict(strict))
}

fn astray(way_back: &WayBack) -> Vec<String> {
    match way_back {
        WayBack::Arrives(astray) => astray.iter().map(|stray| stray.range.to_string()).collect(),
        WayBack::NotLooked | WayBack::Overlay { .. } | WayBack::Lost { .. } | WayBack::Unknown { .. } => {
            panic!("{way_back:?}")
        }
    }
}

#[test]
fn where_pods_are_reached_by_the_lan_answers_arrive_and_nobody_is_asked() {
    let rows: [&[&str]; 5] = [
        &["192.0.2.0/24 eth0", "0.0.0.0/0 via 192.0.2.1 eth0"],
        &["192.0.2.0/24 eth0", "10.244.1.0/24 cni0", "10.244.2.0/24 via 192.0.2.12 eth0"],
        // A management network and the default route beyond it; pods here, one by one.
        &[
            "10.9.0.0/24 eth1",
            "10.0.0.0/8 via 10.9.0.1 eth1",
            "0.0.0.0/0 via 10.9.0.1 eth1",
            "10.1.2.3/32 cali12ab",
        ],
        // Pods here, by way of this very node.
        &["10.0.1.0/24 via 10.0.1.7 cilium_host onlink"],
        &["2001:db8:2::/64 via fe80::1 wg0"],
    ];
    for routes in rows {
        let links = [("eth0", None), ("cni0", Some("bridge")), ("wg0", Some("wireguard"))];
        assert_eq!(seen(&links, routes, &[], &["eth0"]), WayBack::Arrives(vec![]), "{routes:?}");
        let routes: Vec<_> = routes.iter().map(|text| route(text)).collect();
        let (interface, family) = ("eth0", Family::V4);
        let view = View { interface, family, own: Some(ip(OWN)), links: &[], routes: &routes };
        assert_eq!(view.hosts().count(), 0, "{routes:?}");
    }
}

#[test]
fn a_tunnel_beyond_which_nobody_can_be_asked_is_an_overlay() {
    let rows = [
        ("wg-pods", Some("wireguard"), "10.244.0.0/16 wg-pods"),
        ("flannel.4096", None, "10.244.2.0/24 flannel.4096"),
        ("tunl0", Some("ipip"), "10.1.2.0/26 via 192.0.2.12 tunl0 onlink"),
        ("kube-bridge-gre", Some("gre"), "10.1.2.0/26 kube-bridge-gre"),
        ("vx0", Some("vxlan"), "10.244.2.0/24 via 2001:db8:2::1 vx0"),
        ("cilium_vxlan", Some("vxlan"), "192.0.2.0/24 eth0"),
        ("genev_sys_6081", Some("geneve"), "192.0.2.0/24 eth0"),
    ];
    for (name, kind, route) in rows {
        let links = [("eth0", None), (name, kind)];
        let expected = WayBack::Overlay { interface: name.to_owned() };
        assert_eq!(seen(&links, &[route], &[], &[]), expected, "{route}");
    }
    let unused = [("eth0", None), ("vxlan100", Some("vxlan"))];
    assert_eq!(seen(&unused, &["192.0.2.0/24 eth0"], &[], &[]), WayBack::Arrives(vec![]));
}

const FLANNEL: [&str; 3] =
    ["192.0.2.0/24 eth0", "10.244.2.0/24 via 10.244.2.0 flannel.1", "10.244.3.0/24 via 10.244.3.0 flannel.1"];
const LINKS: [(&str, Option<&str>); 2] = [("eth0", None), ("flannel.1", Some("vxlan"))];

#[test]
fn beyond_a_tunnel_only_the_answers_arrive_that_were_heard_to() {
    let (second, third) = ("10.244.2.0", "10.244.3.0");
    let rows: [(Answered<'_>, &[&str]); 3] = [
        (&[(second, ARRIVES), (third, ARRIVES)], &[]),
        (&[(second, ARRIVES), (third, LOST)], &["10.244.3.0/24"]),
        // A node that is dead, and may have a filter when it is back.
        (&[(second, SILENT), (third, ARRIVES)], &["10.244.2.0/24"]),
    ];
    for (heard, expected) in rows {
        assert_eq!(astray(&seen(&LINKS, &FLANNEL, heard, &[])), expected, "{heard:?}");
    }
    let lost = [(second, LOST), (third, LOST)];
    let of_none: [(Answered<'_>, &[&str], &[&str]); 4] = [
        (&[], &[], &["10.244.2.0/24, 10.244.3.0/24 (by flannel.1)", "no node there has answered"]),
        (&lost, &["flannel.1"], &["net.ipv4.conf.flannel/1.rp_filter", "look on the nodes there"]),
        (&lost, &["eth0"], &["net.ipv4.conf.eth0.rp_filter", "set 2 for eth0 and flannel.1 on all nodes"]),
        (&[(second, LOST)], &["eth0"], &["net.ipv4.conf.eth0.rp_filter", "no node there has answered"]),
    ];
    for (heard, strict, expected) in of_none {
        let WayBack::Lost { why } = seen(&LINKS, &FLANNEL, heard, strict) else { panic!("{heard:?}") };
        for words in expected {
            assert!(why.contains(words), "{words} in {why}");
        }
    }
}

/// Pods by a second network: as it was, unless a node there is heard to answer and that does not arrive.
#[test]
fn beyond_another_interface_of_the_node_answers_go_astray_only_where_they_were_heard_to() {
    let routes = ["192.0.2.0/24 eth0", "10.9.0.0/24 eth1", "10.244.2.0/24 via 10.9.0.12 eth1"];
    let links = [("eth0", None), ("eth1", None)];
    let rows: [(Answered<'_>, &[&str]); 4] = [
        (&[], &[]),
        (&[("10.9.0.12", SILENT)], &[]),
        (&[("10.9.0.12", ARRIVES)], &[]),
        (&[("10.9.0.12", LOST)], &["10.244.2.0/24"]),
    ];
    for (heard, expected) in rows {
        assert_eq!(astray(&seen(&links, &routes, heard, &[])), expected, "{heard:?}");
    }
}

#[test]
fn without_an_address_to_ask_from_nothing_is_known_beyond_a_tunnel() {
    let (links, routes) =
        ([LinkKind::new("vx0", Some("vxlan"))], [route("2001:db8:2::/64 via 2001:db8:2::1 vx0")]);
    let (interface, family) = ("eth0", Family::V6);
    let view = View { interface, family, own: None, links: &links, routes: &routes };
    let expected = WayBack::Overlay { interface: "vx0".to_owned() };
    assert_eq!(view.way_back(&Answers::default(), &Filters::default()), expected);
}

/// The kernel has no reverse-path filter for IPv6: what is lost is lost elsewhere.
#[test]
fn what_is_lost_of_ipv6_is_not_for_a_filter_of_ipv4() {
    let (links, routes) =
        ([LinkKind::new("vx0", Some("vxlan"))], [route("2001:db8:2::/64 via 2001:db8:2::1 vx0")]);
    let own = ip("2001:db8::11");
    let (interface, family) = ("eth0", Family::V6);
    let view = View { interface, family, own: Some(own), links: &links, routes: &routes };
    let mut answers = Answers::default();
    answers.note(own, &BTreeMap::from([(ip("2001:db8:2::1"), LOST)]));
    let WayBack::Lost { why } = view.way_back(&answers, &Filters::strict(&["eth0"])) else { panic!() };
    assert!(why.contains("look on the nodes there"), "{why}");
}

#[test]
fn a_verdict_falls_by_two_misses_and_stands_while_the_host_is_silent() {
    let host = ip("10.244.2.0");
    let histories: [(&[Heard], Verdict); 9] = [
        (&[], Verdict::Unknown),
        (&[SILENT], Verdict::Unknown),
        (&[LOST], Verdict::Lost),
        (&[LOST, SILENT], Verdict::Unknown),
        (&[LOST, ARRIVES], Verdict::Arrives),
        (&[ARRIVES, LOST], Verdict::Arrives),
        (&[ARRIVES, LOST, LOST], Verdict::Lost),
        (&[ARRIVES, SILENT, SILENT, SILENT], Verdict::Arrives),
        (&[ARRIVES, SILENT, LOST], Verdict::Lost),
    ];
    for (history, expected) in histories {
        let mut answers = Answers::default();
        for heard in history {
            answers.note(ip(OWN), &BTreeMap::from([(host, *heard)]));
        }
        assert_eq!(answers.verdict(ip(OWN), host), expected, "{history:?}");
        assert_eq!(answers.verdict(ip("198.51.100.11"), host), Verdict::Unknown, "asked from elsewhere");
        answers.keep_only(&[(ip(OWN), host)].into());
        assert_eq!(answers.verdict(ip(OWN), host), expected, "{history:?}, still asked");
        answers.keep_only(&BTreeSet::new());
        assert_eq!(answers.verdict(ip(OWN), host), Verdict::Unknown, "asked no more");
    }
}

#[test]
fn many_ranges_are_told_by_their_number() {
    let stray = |number: u8| Astray {
        range: format!("10.244.{number}.0/24").parse().unwrap(),
        interface: "flannel.1".to_owned(),
        cause: Cause::Silence,
    };
    let told = words::of(&(1..=5).map(stray).collect::<Vec<_>>(), "eth0");
    assert!(
        told.starts_with("10.244.1.0/24, 10.244.2.0/24, 10.244.3.0/24 and 2 more (by flannel.1): "),
        "{told}"
    );
}

#[test]
fn the_log_says_of_each_segment_how_answers_come_back() {
    let lost = Astray::silent("203.0.113.64/27", "flannel.1");
    for (way, expected) in [
        (WayBack::Arrives(Vec::new()), "answers of backends arrive by eth0"),
        (
            WayBack::Arrives(vec![lost]),
            "answers of backends arrive by eth0, but for 203.0.113.64/27 (by flannel.1): no node there has answered an \
             echo request yet",
        ),
        (
            WayBack::Overlay { interface: "tunl0".to_owned() },
            "pods are reached by tunl0, beyond which no host can be asked whether answers arrive by eth0",
        ),
        (WayBack::Lost { why: "a filter".to_owned() }, "answers of backends do not arrive by eth0: a filter"),
        (
            WayBack::Unknown { reason: "no netlink".to_owned() },
            "cannot read the routes to backends: no netlink; retrying",
        ),
    ] {
        assert_eq!(words::of_way(&way, "eth0"), expected);
    }
}

use super::*;

const CILIUM: ServiceProxy = ServiceProxy::Programs { by: "Cilium", interface: "cilium_host" };
const CALICO: ServiceProxy = ServiceProxy::Programs { by: "Calico in eBPF mode", interface: "bpfin.cali" };

const ANTREA: ServiceProxy = ServiceProxy::Switched { by: "Antrea", seen: Seen::Interface("antrea-gw0") };

const OVN: ServiceProxy =
    ServiceProxy::Switched { by: "OVN-Kubernetes", seen: Seen::Interface("ovn-k8s-mp0") };
const KUBE_OVN: ServiceProxy = ServiceProxy::Switched { by: "Kube-OVN", seen: Seen::Interface("ovn0") };
const ROUTED: ServiceProxy =
    ServiceProxy::Switched { by: "another program than kube-proxy", seen: Seen::Route };

#[test]
fn who_takes_packets_is_told_by_kube_proxy_then_by_ipvs_then_by_interfaces() {
    use ServiceProxy::{Iptables, Ipvs, Nftables, Unknown};
    type Row = (&'static str, Option<&'static str>, bool, &'static [&'static str], ServiceProxy);
    let rows: [Row; 16] = [
        ("nothing yet, as at boot", None, false, &["eth0"], Unknown),
        ("nftables", Some("nftables"), false, &["eth0"], Nftables),
        ("iptables", Some("iptables"), false, &["eth0"], Iptables),
        ("ipvs, before its first Service", Some("ipvs"), false, &["eth0", "kube-ipvs0"], Ipvs),
        ("ipvs of which nobody tells, as of kube-router", None, true, &["eth0", "kube-dummy-if"], Ipvs),
        ("ipvs that serves something else beside kube-proxy", Some("nftables"), true, &["eth0"], Nftables),
        ("Cilium in the place of kube-proxy", None, false, &["eth0", "cilium_host", "cilium_net"], CILIUM),
        ("Cilium beside kube-proxy", Some("iptables"), false, &["eth0", "cilium_host"], Iptables),
        ("Calico in the place of kube-proxy", None, false, &["bpfin.cali", "bpfout.cali"], CALICO),
        ("Calico beside kube-proxy", None, false, &["cali1234", "vxlan.calico"], Unknown),
        ("Antrea in the place of kube-proxy", None, false, &["eth0", "antrea-gw0", "antrea-tun0"], ANTREA),
        ("Antrea beside kube-proxy", Some("iptables"), false, &["eth0", "antrea-gw0"], Iptables),
        ("OVN-Kubernetes", None, false, &["br-ex", "br-int", "ovn-k8s-mp0"], OVN),
        ("Kube-OVN", None, false, &["ovn0", "br-int"], KUBE_OVN),
        ("a mode that nobody knows", Some("userspace"), false, &["eth0"], Unknown),
        ("something else at its port", Some("<html>"), false, &["cilium_host"], CILIUM),
    ];
    for (what, mode, ipvs, interfaces, expected) in rows {
        let interfaces = interfaces.iter().map(|name| (*name).to_owned()).collect();
        let evidence = Evidence { mode: mode.map(str::to_owned), ipvs, interfaces, routes_vip: false };
        assert_eq!(ServiceProxy::of(&evidence), expected, "{what}");
    }
}

// shows: threats T-11
#[test]
fn there_is_no_guard_beside_ipvs_and_none_that_claims_to_see_what_it_does_not() {
    use GuardMode::{Auto, Off, On};
    use ServiceProxy::{Iptables, Ipvs, Nftables, Unknown};
    // Whether there is to be a guard, and a word of why it keeps nobody out.
    let rows = [
        (Auto, Unknown, true, None),
        (Auto, Nftables, true, None),
        (Auto, Iptables, true, None),
        (Auto, Ipvs, false, Some("IPVS serves")),
        (Auto, CILIUM, true, Some("Cilium (interface cilium_host) takes packets before")),
        (
            Auto,
            ANTREA,
            true,
            Some("Antrea (interface antrea-gw0) takes packets to Services without netfilter"),
        ),
        (Auto, ROUTED, true, Some("a route of a virtual IP")),
        (On, Ipvs, true, None),
        (On, CILIUM, true, None),
        (Off, Nftables, false, Some("--guard=false")),
        (Off, CILIUM, false, Some("--guard=false")),
    ];
    for (mode, proxy, has_guard, word) in rows {
        assert_eq!(mode.has_guard(proxy), has_guard, "{mode:?} {proxy:?}");
        let obstacle = mode.obstacle(has_guard, proxy);
        assert_eq!(obstacle.is_some(), word.is_some(), "{mode:?} {proxy:?}: {obstacle:?}");
        assert!(obstacle.unwrap_or_default().contains(word.unwrap_or_default()), "{mode:?} {proxy:?}");
    }
    let began_beside_ipvs = Auto.obstacle(false, Nftables);
    assert!(began_beside_ipvs.is_some_and(|why| why.contains("IPVS serves")), "until it is started anew");
}

#[test]
fn what_ipvs_serves_is_below_the_heads_of_its_list() {
    let heads = "IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port \
                 Forward Weight ActiveConn InActConn\n";
    assert!(!serves("") && !serves(heads));
    assert!(serves(&format!(
        "{heads}TCP  C0000232:0050 rr \n  -> CB007104:1F90      Masq    1      0          0\n"
    )));
    assert!(serves(&format!("{heads}UDP  [2001:0db8:0000:0000:0000:0000:0000:0001]:0035 rr\n")));
}

#[test]
fn while_the_agent_runs_the_kernel_tells_of_ipvs_and_nobody_else() {
    let rows = [
        ("somebody says so", Some("ipvs"), false, ServiceProxy::Unknown),
        ("the kernel does, too", Some("ipvs"), true, ServiceProxy::Ipvs),
        ("the kernel alone", None, true, ServiceProxy::Ipvs),
        ("another mode", Some("iptables"), false, ServiceProxy::Iptables),
    ];
    for (what, mode, ipvs, expected) in rows {
        let mut evidence = Evidence { mode: mode.map(str::to_owned), ipvs, ..Evidence::default() };
        evidence.forget_mere_word_of_ipvs();
        assert_eq!(ServiceProxy::of(&evidence), expected, "{what}");
    }
}

// shows: field-reports F-78
#[test]
fn the_guard_refuses_nothing_untranslated_where_something_else_than_netfilter_serves() {
    use GuardMode::{Auto, Off, On};
    use ServiceProxy::{Iptables, Nftables, Unknown};
    let rows = [
        (Auto, Unknown, true),
        (Auto, Nftables, true),
        (Auto, Iptables, true),
        (Auto, CILIUM, true),
        (Auto, ANTREA, false),
        (Auto, ROUTED, false),
        (On, ANTREA, true),
        (Off, Nftables, false),
    ];
    for (mode, proxy, refuses) in rows {
        assert_eq!(mode.refuses_untranslated(proxy), refuses, "{mode:?} {proxy:?}");
    }
}

// shows: field-reports F-78
#[test]
fn a_route_of_a_virtual_ip_alone_shows_a_proxy_and_no_other_route_does() {
    let vips = ["192.0.2.50", "2001:db8::50"].map(|vip| (vip.parse().unwrap(), "eth0".to_owned())).into();
    let rows = [
        ("192.0.2.50/32", "antrea-gw0", true),
        ("2001:db8::50/128", "ovn-k8s-mp0", true),
        ("192.0.2.50/32", "lo", false),
        ("192.0.2.50/32", "eth0", false),
        ("192.0.2.51/32", "antrea-gw0", false),
        ("192.0.2.0/24", "eth0", false),
        ("0.0.0.0/0", "eth0", false),
    ];
    for (destination, interface, expected) in rows {
        let route = HostRoute::new(destination.parse().unwrap(), interface, None, true);
        assert_eq!(has_route_of(&vips, &[route]), expected, "{destination} {interface}");
    }
    let evidence = Evidence { routes_vip: true, ..Evidence::default() };
    assert_eq!(ServiceProxy::of(&evidence), ROUTED);
    let told = Evidence { mode: Some("nftables".to_owned()), ..evidence };
    assert_eq!(ServiceProxy::of(&told), ServiceProxy::Nftables);
}

// shows: field-reports F-78
#[test]
fn a_kube_proxy_that_is_restarted_stays_the_proxy_until_there_is_proof_of_another() {
    use ServiceProxy::{Iptables, Ipvs, Nftables, Unknown};
    // What was found before and is found now, and whether that counts.
    let rows = [
        (Unknown, ANTREA, true),
        (ANTREA, Iptables, true),
        (Iptables, ANTREA, false),
        (Nftables, ROUTED, true),
        (Nftables, Unknown, false),
        (Nftables, Ipvs, true),
        (Nftables, CILIUM, true),
        (Nftables, Nftables, false),
    ];
    for (known, found, counts) in rows {
        assert_eq!(known.gives_way_to(found), counts, "{known:?} {found:?}");
    }
}

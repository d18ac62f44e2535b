use super::*;

const CILIUM: ServiceProxy = ServiceProxy::Programs { by: "Cilium", interface: "cilium_host" };
const CALICO: ServiceProxy = ServiceProxy::Programs { by: "Calico in eBPF mode", interface: "bpfin.cali" };

#[test]
fn who_takes_packets_is_told_by_kube_proxy_then_by_ipvs_then_by_interfaces() {
    use ServiceProxy::{Iptables, Ipvs, Nftables, Unknown};
    type Row = (&'static str, Option<&'static str>, bool, &'static [&'static str], ServiceProxy);
    let rows: [Row; 12] = [
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
        ("a mode that nobody knows", Some("userspace"), false, &["eth0"], Unknown),
        ("something else at its port", Some("<html>"), false, &["cilium_host"], CILIUM),
    ];
    for (what, mode, ipvs, interfaces, expected) in rows {
        let interfaces = interfaces.iter().map(|name| (*name).to_owned()).collect();
        let evidence = Evidence { mode: mode.map(str::to_owned), ipvs, interfaces };
        assert_eq!(ServiceProxy::of(&evidence), expected, "{what}");
    }
}

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

//! kube-proxy's rules, as its nftables mode makes them.

use std::net::{Ipv4Addr, SocketAddrV4};

use ipnet::Ipv4Net;

/// Chains with hooks, which see every packet, and the chain that the last of them jumps to.
const BASE_CHAINS: &str = "
  chain masquerading {
    meta mark & 0x4000 == 0 return
    meta mark set meta mark ^ 0x4000
    masquerade fully-random
  }
  chain filter-prerouting {
    type filter hook prerouting priority -110;
    ct state new jump firewall-check
  }
  chain filter-input {
    type filter hook input priority -110;
    ct state new jump service-endpoints-check
  }
  chain filter-forward {
    type filter hook forward priority -110;
    ct state new jump service-endpoints-check
    ct state new jump cluster-ips-check
  }
  chain filter-output {
    type filter hook output priority -110;
    ct state new jump service-endpoints-check
    ct state new jump firewall-check
  }
  chain filter-output-post-dnat {
    type filter hook output priority -90;
    ct state new jump cluster-ips-check
  }
  chain nat-prerouting { type nat hook prerouting priority -100; jump services; }
  chain nat-output { type nat hook output priority -100; jump services; }
  chain nat-postrouting { type nat hook postrouting priority 100; jump masquerading; }
";

/// Returns the rules for one Service of TCP and UDP with these external addresses, one endpoint, and these source ranges if there are any.
/// The chains that see every packet, their hooks and priorities are those of kube-proxy.
pub(crate) fn kube_proxy(vips: &[Ipv4Addr], port: u16, pod: SocketAddrV4, sources: &[Ipv4Net]) -> String {
    let elements = |verdict: &str| {
        let of = |vip: &Ipv4Addr| {
            ["tcp", "udp"].map(|protocol| format!("{vip} . {protocol} . {port} : goto {verdict}")).join(", ")
        };
        format!("elements = {{ {} }}", vips.iter().map(of).collect::<Vec<_>>().join(", "))
    };
    let ranges: Vec<String> = sources.iter().map(ToString::to_string).collect();
    let (firewall_ips, firewall) = if ranges.is_empty() {
        (String::new(), String::new())
    } else {
        let rule = format!("ip saddr != {{ {} }} drop", ranges.join(", "));
        (elements("firewall"), format!("chain firewall {{ {rule}; }}"))
    };
    let service_ips = elements("external");
    let endpoint = pod.ip();
    format!(
        "table ip kube-proxy {{
           {firewall}
           chain endpoint {{
             ip saddr {endpoint} jump mark-for-masquerade
             meta l4proto {{ tcp, udp }} dnat to {pod}
           }}
           chain service {{ numgen random mod 1 vmap {{ 0 : goto endpoint }}; }}
           chain external {{ jump mark-for-masquerade; goto service; }}
           chain mark-for-masquerade {{ meta mark set meta mark | 0x4000; }}
           map firewall-ips {{ type ipv4_addr . inet_proto . inet_service : verdict; {firewall_ips} }}
           map no-endpoint-services {{ type ipv4_addr . inet_proto . inet_service : verdict; }}
           map service-ips {{ type ipv4_addr . inet_proto . inet_service : verdict; {service_ips} }}
           map service-nodeports {{ type inet_proto . inet_service : verdict; }}
           set cluster-ips {{ type ipv4_addr; }}
           set nodeport-ips {{ type ipv4_addr; }}
           chain firewall-check {{ ip daddr . meta l4proto . th dport vmap @firewall-ips; }}
           chain service-endpoints-check {{ ip daddr . meta l4proto . th dport vmap @no-endpoint-services; }}
           chain cluster-ips-check {{ ip daddr @cluster-ips reject; }}
           chain services {{
             ip daddr . meta l4proto . th dport vmap @service-ips
             ip daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports
           }}
           {BASE_CHAINS}
         }}\n"
    )
}

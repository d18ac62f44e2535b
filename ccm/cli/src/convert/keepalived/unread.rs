//! The keywords of `keepalived.conf` that were not converted, with consequence and the nearest thing to do.

use std::collections::BTreeMap;

use super::Configuration;
use super::syntax::Entry;

/// Keywords, and the consequence and the nearest thing to do where instances become pools, and where they become settings of
/// `windlass vip`: `=` is the same, nothing that they are converted.
type Row = (&'static [&'static str], &'static str, &'static str);

const NOTHING: &str = "Windlass has no such setting and needs none. No action is needed";
const ROUTES: &str =
    "Windlass does not manage such routes, rules and addresses. Configure them permanently on every node";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    (&["state", "priority", "nopreempt", "preempt"],
     "Windlass ranks the nodes itself, and no node takes an address back. Set spec.preferredNodes of an Announcement to prefer nodes",
     "the nodes elect by priority alone. Give the highest priority to the node that shall have the address"),
    (&["virtual_router_id"],
     "Windlass chooses a VRID that no router on the LAN uses. Set spec.vrrp.vridRange of an Announcement to restrict the choice",
     "`windlass vip` chooses a VRID that no router on the LAN uses. Set `vrid` once keepalived is stopped on all nodes, if a firewall rule names the VRID"),
    (&["advert_int"], "Windlass sends an advert every 100 ms. Set spec.vrrp.advertisementIntervalMilliseconds of an Announcement for another interval", ""),
    (&["preempt_delay"], "", "`windlass vip` with `preempt: true` takes the address back immediately. Remove `preempt`, so that the address does not move back"),
    (&["authentication"],
     "VRRP version 3 has no passwords. Set spec.vrrp.authentication of an Announcement to sign adverts (docs/dev/auth.md)",
     "VRRP version 3 has no passwords. Set `keysDir` to sign adverts (docs/api-vip.md)"),
    (&["notify", "notify_master", "notify_backup", "notify_fault", "notify_stop", "notify_deleted", "notify_master_rx_lower_pri",
       "notify_priority_changes", "smtp_alert"],
     "Windlass runs no script and sends no mail when an address moves. Use `kubectl get virtualips --watch`, or an alert (docs/alerts.md)",
     "`windlass vip` runs no script and sends no mail when an address moves. Watch its metrics or its log"),
    (&["virtual_routes", "virtual_rules", "static_routes", "static_rules", "static_ipaddress", "virtual_routes_excluded"], ROUTES, "="),
    (&["use_vmac", "vmac_xmit_base", "vmac_addr", "use_ipvlan", "use_vmac_addr", "vmac_garp_intvl"],
     "Windlass itself creates such a device, and only with spec.vrrp.virtualMAC: true of an Announcement. Set that field",
     "the address uses the node's own MAC address. Make sure that switches and firewalls accept gratuitous ARP"),
    (&["track_interface"], "", "a link that is down makes the node unfit only if a check fails, too. Write a `command` check that tests the link"),
    (&["track_script", "vrrp_script"],
     "Windlass runs no script on the nodes. Write spec.checks of an Announcement, which test HTTP, HTTPS, TCP, gRPC or links", "no instance tracks it, so it has no effect. Remove it"),
    (&["track_process", "track_file", "track_bfd", "vrrp_track_process", "vrrp_track_file", "track_file_group", "bfd_instance"],
     "Windlass does not watch processes, files and BFD. Write spec.checks of an Announcement, which test HTTP, HTTPS, TCP, gRPC or links",
     "`windlass vip` does not watch processes, files and BFD. Write `checks`, which test HTTP, TCP or gRPC or run a command"),
    (&["garp_", "gna_interval", "vrrp_garp", "vrrp_gna"], "Windlass sends gratuitous ARP at each takeover at its own intervals. No action is needed", "="),
    (&["unicast_src_ip", "mcast_src_ip", "mcast_dst_ip", "unicast_ttl", "check_unicast_src", "unicast_fault_no_peer", "track_src_ip"],
     "adverts go from the interface's own address, with the group and TTL of RFC 9568. Configure firewalls to accept IP protocol 112", "="),
    (&["version", "vrrp_version"], "Windlass uses VRRP version 3, and does not answer routers of version 2. No action is needed", "="),
    (&["accept", "no_accept", "native_ipv6", "strict_mode", "debug", "dont_track_primary", "skip_check_adv_addr", "linkbeat_use_polling",
       "linkbeat_interfaces", "lvs_sync_daemon", "promote_secondaries", "lower_prio_no_advert", "higher_prio_send_advert",
       "old_unicast_checksum", "process_names", "net_namespace", "init_fail", "interface_up_down_delays"], NOTHING, "="),
    (&["vrrp_sync_group"],
     "Windlass moves each address separately, to a fit node. Serve what belongs together at one address: ports of one Service, or Services with the same windlass.dev/sharing-key",
     "each address moves separately, to a fit node. Give the addresses the same checks, so that they move together"),
    (&["virtual_server", "virtual_server_group"],
     "it balances by IPVS; in the cluster, kube-proxy balances for Services. Give the Service that address, and keep keepalived for servers outside the cluster",
     "it balances by IPVS. Name the servers in `balance.backends` (docs/dev/balancing.md), or keep keepalived for it"),
    (&["user"], NOTHING, "the command runs as the user of `windlass vip`. Make sure that this user may run it"),
    (&["global_defs", "garp_group", "enable_script_security", "script_user", "router_id", "vrrp_strict"],
     "it configures keepalived's own operation. See docs/flags.md for the flags of Windlass", "it configures keepalived's own operation. See docs/api-vip.md for the settings of `windlass vip`"),
];
const UNKNOWN: &str = "Windlass does not know the keyword. Look up its effect in keepalived.conf(5)";

/// Reports every entry that nothing read, the same of several instances together.
pub(super) fn report(configuration: &Configuration<'_>, is_vip: bool) {
    let mut reported: Vec<(&str, Vec<&Entry>)> = Vec::new();
    let blocks =
        |entry: &&Entry| entry.is_read() && matches!(entry.keyword(), "vrrp_instance" | "vrrp_script");
    let inner = configuration.entries.iter().filter(blocks).flat_map(|entry| &entry.block);
    for entry in configuration.entries.iter().chain(inner).filter(|entry| !entry.is_read()) {
        let said = said(entry.keyword(), is_vip);
        match reported.iter_mut().find(|(other, _)| *other == said) {
            Some((_, entries)) => entries.push(entry),
            None => reported.push((said, vec![entry])),
        }
    }
    for (said, entries) in reported {
        configuration.whole().warn(format!("{} not converted: {said}", named(&entries)));
    }
}

fn said(keyword: &str, is_vip: bool) -> &'static str {
    let is_it = |name: &&str| *name == keyword || (name.ends_with('_') && keyword.starts_with(name));
    let row = ROWS.iter().find(|(names, ..)| names.iter().any(is_it));
    let said = row.map_or("", |(_, pools, vip)| if is_vip && *vip != "=" { vip } else { pools });
    if said.is_empty() { UNKNOWN } else { said }
}

/// `state MASTER (line 4), garp_master_delay (lines 9, 31)`; of a block also what is in it.
fn named(entries: &[&Entry]) -> String {
    let mut by_keyword: BTreeMap<(usize, String), Vec<&Entry>> = BTreeMap::new();
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in entries {
        let place = *first.entry(entry.keyword()).or_insert(entry.line);
        by_keyword.entry((place, entry.keyword().to_owned())).or_default().push(entry);
    }
    let named = by_keyword.into_iter().map(|((_, keyword), entries)| {
        let lines: Vec<String> = entries.iter().map(|entry| entry.line.to_string()).collect();
        let mut inner: Vec<String> = Vec::new();
        for word in entries.iter().flat_map(|entry| &entry.block).map(|entry| entry.words.join(" ")) {
            if !inner.contains(&word) {
                inner.push(word);
            }
        }
        let words = if let [one] = entries[..] { one.words.join(" ") } else { keyword };
        let inner = if inner.is_empty() { String::new() } else { format!(": {}", inner.join(", ")) };
        format!("{words} (line{} {}{inner})", if lines.len() == 1 { "" } else { "s" }, lines.join(", "))
    });
    named.collect::<Vec<_>>().join(", ")
}

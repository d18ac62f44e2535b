//! `vrrp_instance`s as pools whose addresses only Services get that name them.

use std::net::IpAddr;

use windlass_api::VirtualIPPoolSpec;

use super::super::write::{Draft, Listed, Writer};
use super::Configuration;
use super::syntax::Entry;

/// What Windlass decides by itself, or does anyway.
const DECIDED: [&str; 36] = [
    "state",
    "interface",
    "priority",
    "virtual_router_id",
    "advert_int",
    "nopreempt",
    "preempt",
    "preempt_delay",
    "version",
    "vrrp_version",
    "virtual_ipaddress",
    "virtual_ipaddress_excluded",
    "garp_master_delay",
    "garp_master_repeat",
    "garp_master_refresh",
    "garp_master_refresh_repeat",
    "garp_lower_prio_delay",
    "garp_lower_prio_repeat",
    "garp_interval",
    "gna_interval",
    "unicast_src_ip",
    "unicast_peer",
    "mcast_src_ip",
    "mcast_dst_ip",
    "unicast_ttl",
    "check_unicast_src",
    "dont_track_primary",
    "track_src_ip",
    "track_interface",
    "lvs_sync_daemon_interface",
    "strict_mode",
    "debug",
    "native_ipv6",
    "accept",
    "no_accept",
    "skip_check_adv_addr",
];
/// Port of the API server.
const API_SERVER: &str = "6443";

/// An address of an instance.
pub(super) struct Held<'a> {
    pub(super) line: usize,
    pub(super) address: IpAddr,
    /// The interface that it names.
    pub(super) interface: Option<&'a str>,
}

/// Converts all instances.
pub(super) fn convert(configuration: &Configuration, writer: &mut Writer) {
    for entry in &configuration.entries {
        let place = configuration.place(entry.line);
        match entry.keyword() {
            "vrrp_instance" => instance(configuration, entry, writer),
            "virtual_server" | "virtual_server_group" => {
                let words = entry.words.join(" ");
                let what = format!("{words:?} balances by IPVS; Services and kube-proxy do: give the Service that address");
                writer.warn(&place, &what);
            }
            "vrrp_sync_group" => writer.warn(
                &place,
                "vrrp_sync_group moves instances together; Windlass moves each address by itself, where the node is fit",
            ),
            _ => {}
        }
    }
}

fn instance(configuration: &Configuration, instance: &Entry, writer: &mut Writer) {
    let place = configuration.place(instance.line);
    let Some(name) = instance.value() else {
        writer.refuse(&place, "the vrrp_instance has no name; give it one");
        return;
    };
    let origin = format!("{place}: vrrp_instance {name:?}");
    if asks_api_server(&configuration.entries, instance) {
        let what = format!(
            "a script that it tracks asks port {API_SERVER}: if its address is that of the API server, no Service can have it. Take \
             the instance out of the input, and convert it with --vip-port {API_SERVER} to settings of windlass vip"
        );
        writer.warn(&origin, &what);
    }
    let held = held(configuration, instance, writer);
    let listed = held.iter().map(|held| Listed {
        field: format!("line {}", held.line),
        text: held.address.to_string(),
        without_ends: false,
    });
    let draft = Draft {
        origin: origin.clone(),
        name: name.to_owned(),
        listed: listed.collect(),
        ends_usable: true,
        restrictions: "spec",
        spec: VirtualIPPoolSpec { auto_assign: false, ..VirtualIPPoolSpec::default() },
    };
    if writer.pool(draft).is_none() {
        return;
    }
    if let Some(apart) =
        held.iter().find(|held| held.interface.is_some_and(|is| Some(is) != interface(instance)))
    {
        let what = format!(
            "line {} names an interface other than that of its adverts; Windlass announces an address on the one whose subnet holds \
             it, or that an Announcement names",
            apart.line
        );
        writer.warn(&origin, &what);
    }
    let further: Vec<String> = instance
        .block
        .iter()
        .filter(|entry| !DECIDED.contains(&entry.keyword()) && !entry.keyword().starts_with('@'))
        .map(|entry| format!("{} (line {})", entry.keyword(), entry.line))
        .collect();
    if !further.is_empty() {
        let what = format!(
            "not converted: {}. Checks and keys of adverts an Announcement has (spec.checks, spec.vrrp), routes and scripts that \
             follow the Active node are none of Windlass'",
            further.join(", ")
        );
        writer.warn(&origin, &what);
    }
}

/// The interface of its adverts.
pub(super) fn interface(instance: &Entry) -> Option<&str> {
    instance.last("interface")
}

/// The addresses that it holds; those that cannot be read are told.
pub(super) fn held<'a>(
    configuration: &Configuration,
    instance: &'a Entry,
    writer: &mut Writer,
) -> Vec<Held<'a>> {
    let blocks = instance.all("virtual_ipaddress").chain(instance.all("virtual_ipaddress_excluded"));
    let mut held = Vec::new();
    for entry in blocks.flat_map(|block| &block.block) {
        let text = entry.keyword();
        // Of the lines with @ and $ it was told already.
        if text.starts_with(['@', '$', '~']) {
            continue;
        }
        let address = text.split_once('/').map_or(text, |(address, _)| address);
        match address.parse() {
            Ok(address) => held.push(Held {
                line: entry.line,
                address,
                interface: entry.words.iter().skip_while(|word| *word != "dev").nth(1).map(String::as_str),
            }),
            Err(_) => writer
                .refuse(&configuration.place(entry.line), &format!("{text:?} is no address; correct it")),
        }
    }
    held
}

/// Whether a script that it tracks names the API server's port.
fn asks_api_server(entries: &[Entry], instance: &Entry) -> bool {
    scripts(entries, instance).any(|script| {
        script.all("script").any(|line| line.words.iter().any(|word| word.contains(API_SERVER)))
    })
}

/// The scripts that it tracks.
pub(super) fn scripts<'a>(entries: &'a [Entry], instance: &'a Entry) -> impl Iterator<Item = &'a Entry> {
    let tracked = instance.all("track_script").flat_map(|block| &block.block).map(Entry::keyword);
    tracked.filter_map(|name| {
        entries.iter().find(|entry| entry.keyword() == "vrrp_script" && entry.value() == Some(name))
    })
}

//! `vrrp_instance`s as pools whose addresses only Services get that name them.

use std::net::IpAddr;

use windlass_api::{AnnouncementSpec, CheckAction, LinkCheck, NodeCheck, Transport, VirtualIPPoolSpec};

use super::super::write::{Draft, Listed, Place};
use super::Configuration;
use super::syntax::Entry;

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
pub(super) fn convert(configuration: &Configuration<'_>) {
    for entry in all(configuration) {
        instance(configuration, entry);
    }
}

/// The instances, which count as read.
pub(super) fn all<'a>(configuration: &'a Configuration<'_>) -> impl Iterator<Item = &'a Entry> {
    let entries = configuration.entries.iter();
    entries.filter(|entry| entry.keyword() == "vrrp_instance").inspect(|entry| entry.mark())
}

fn instance(configuration: &Configuration<'_>, instance: &Entry) {
    let Some(name) = instance.value() else {
        configuration.line(instance.line).refuse("the vrrp_instance has no name; give it one");
        return;
    };
    let place = configuration.named(instance);
    if asks_api_server(&configuration.entries, instance) {
        place.warn(format!(
            "a script that it tracks asks the API server: if its address is that of the API server, no Service can have it. \
             Remove the instance from this input, and convert it with --vip-port {API_SERVER} to settings of `windlass vip`"
        ));
    }
    let held = held(configuration, instance);
    let listed = held.iter().map(|held| Listed {
        field: format!("line {}", held.line),
        text: held.address.to_string(),
        without_ends: false,
    });
    let draft = Draft {
        name: name.to_owned(),
        listed: listed.collect(),
        ends_usable: true,
        restrictions: "spec",
        spec: VirtualIPPoolSpec { auto_assign: false, ..VirtualIPPoolSpec::default() },
    };
    let spec = announcement(instance, &held, &place);
    place.pool_with(draft, spec);
}

/// Returns the spec of the Announcement for the instance's addresses.
fn announcement(instance: &Entry, held: &[Held<'_>], place: &Place<'_>) -> AnnouncementSpec {
    let mut spec = AnnouncementSpec::default();
    let of_adverts = interface(instance);
    for interface in held.iter().filter_map(|held| held.interface.or(of_adverts)) {
        if !spec.interfaces.iter().any(|other| other == interface) {
            spec.interfaces.push(interface.to_owned());
        }
    }
    if held.is_empty() {
        spec.interfaces.extend(of_adverts.map(str::to_owned));
    }
    if let [_, _, ..] = spec.interfaces[..] {
        place.warn(format!(
            "its addresses are on the interfaces {:?}; Windlass announces each on the interface whose subnet holds it. If an \
             address needs another interface, write an Announcement for it",
            spec.interfaces
        ));
    }
    if let Some(delay) = instance.last("preempt_delay") {
        match delay.parse::<f64>() {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "within the bounds of the guard"
            )]
            Ok(seconds) if (0.0..=1000.0).contains(&seconds) => {
                spec.vrrp.preempt_delay_seconds = seconds.ceil() as u32;
            }
            Ok(_) | Err(_) => {
                place.refuse(format!("preempt_delay {delay:?} is not 0 to 1000 seconds: correct it"));
            }
        }
    }
    if instance.all("unicast_peer").any(|peers| !peers.block.is_empty()) {
        spec.vrrp.transport = Transport::Unicast;
        place.note(
            "its unicast_peer became spec.vrrp.transport: Unicast: the nodes that may announce are the peers",
        );
    }
    spec.vrrp.virtual_mac = instance.has("use_vmac");
    let links: Vec<&Entry> = instance.all("track_interface").flat_map(|links| &links.block).collect();
    if !links.is_empty() {
        let interfaces = links.iter().map(|link| link.keyword().to_owned()).collect();
        let link = LinkCheck { interfaces, minimum: None, minimum_megabits_per_second: None };
        spec.checks.push(NodeCheck {
            action: CheckAction::Link(link),
            period_seconds: 1,
            timeout_seconds: 1,
            failure_threshold: 3,
        });
    }
    for link in links.iter().filter(|link| link.words.len() > 1) {
        place.warn(format!(
            "{:?} of its track_interface became a check that makes the node unfit when the link is down. Remove it from \
             spec.checks if the node shall stay fit",
            link.words.join(" ")
        ));
    }
    spec
}

/// The interface of its adverts.
pub(super) fn interface(instance: &Entry) -> Option<&str> {
    instance.last("interface")
}

/// Returns the addresses that it holds, and reports those that cannot be read.
pub(super) fn held<'a>(configuration: &Configuration<'_>, instance: &'a Entry) -> Vec<Held<'a>> {
    let blocks: Vec<&Entry> =
        instance.all("virtual_ipaddress").chain(instance.all("virtual_ipaddress_excluded")).collect();
    let mut held = Vec::new();
    for entry in blocks.iter().flat_map(|block| &block.block) {
        let text = entry.keyword();
        // Of the lines with @, $ and templates it was reported already.
        if text.starts_with(['@', '~']) || text.contains('$') || text.contains("{{") {
            continue;
        }
        let place = configuration.line(entry.line);
        let address = text.split_once('/').map_or(text, |(address, _)| address);
        let Ok(address) = address.parse() else {
            place.refuse(format!("{text:?} is not an IP address; correct it"));
            continue;
        };
        if is_link_local(address) {
            place.warn(format!(
                "{address} is left out: it is link-local. Every host has its own link-local addresses, and clients in other \
                 subnets cannot reach them. Name an address of the subnet"
            ));
            continue;
        }
        let options: Vec<&str> =
            entry.words[1..].iter().map(String::as_str).filter(|word| OPTIONS.contains(word)).collect();
        if !options.is_empty() {
            place.warn(format!(
                "{} not converted: Windlass adds the address to no interface, so it has no such options. No action is needed, \
                 unless a program looks for the address on the interface",
                options.join(", ")
            ));
        }
        let interface = entry.words.iter().skip_while(|word| *word != "dev").nth(1).map(String::as_str);
        held.push(Held { line: entry.line, address, interface });
    }
    held
}

/// Options of an address but for `dev`.
const OPTIONS: [&str; 14] = [
    "label",
    "brd",
    "broadcast",
    "scope",
    "peer",
    "home",
    "nodad",
    "no_track",
    "track_group",
    "mngtmpaddr",
    "noprefixroute",
    "autojoin",
    "preferred_lft",
    "use_vmac",
];

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.is_unicast_link_local(),
    }
}

/// True if a script that it tracks names the API server or its port; that of the Kubernetes guide is called `check_apiserver.sh`.
fn asks_api_server(entries: &[Entry], instance: &Entry) -> bool {
    let names = |word: &String| word.contains(API_SERVER) || word.contains("apiserver");
    let tracked = instance.peek("track_script").flat_map(|block| &block.block);
    tracked.filter_map(|track| script(entries, track)).any(|script| {
        script.peek("script").any(|line| line.words[1..].iter().any(names))
            || script.words[1..].iter().any(names)
    })
}

/// The `vrrp_script` that an entry of `track_script` names.
pub(super) fn script<'a>(entries: &'a [Entry], track: &Entry) -> Option<&'a Entry> {
    entries.iter().find(|entry| entry.keyword() == "vrrp_script" && entry.value() == Some(track.keyword()))
}

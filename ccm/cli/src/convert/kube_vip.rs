//! kube-vip's cloud provider: its ConfigMap `kubevip`, as its README and `pkg/provider/loadBalancer.go` have it.
//!
//! A Service takes its address from the first of `cidr-<namespace>`, `cidr-global`, `range-<namespace>` and `range-global` that is
//! there, and from no other. So does `allow-share`, and `interface`, of its own.
//!
//! `pods` reads kube-vip itself, which announces these addresses and holds that of the control plane.

mod pods;

use std::collections::BTreeMap;

use windlass_api::{AllocationOrder, AnnouncementSpec, VirtualIPPoolSpec, WhenFull};

use super::Conversion;
use super::fields::{self, origin};
use super::objects::{Input, Outcome};
use super::services::{Becomes, Program};
use super::write::{Draft, Listed, Place};

/// Stands for all namespaces.
const GLOBAL: &str = "global";
/// Range that has kube-vip ask a DHCP server.
const DHCP: &str = "0.0.0.0/32";

const PROGRAM: Program = Program {
    name: "kube-vip",
    prefixes: &["kube-vip.io/"],
    sharing: &[],
    annotations: &[
        ("kube-vip.io/loadbalancerIPs", Becomes::IsRead("windlass.dev/addresses")),
        (
            "kube-vip.io/serviceInterface",
            Becomes::Nothing(
                "write an Announcement with spec.serviceSelectors and spec.interfaces for the Service",
            ),
        ),
        ("kube-vip.io/egress", EGRESS),
        (
            "kube-vip.io/loadbalancerHostname",
            Becomes::Nothing(
                "Windlass uses neither DHCP nor DNS; name the address in windlass.dev/addresses",
            ),
        ),
        (
            "kube-vip.io/ignore",
            Becomes::Nothing("give the Service a loadBalancerClass of another controller"),
        ),
        ("kube-vip.io/vipHost", Becomes::Record),
        ("kube-vip.io/active-endpoint", Becomes::Record),
        ("kube-vip.io/hwaddr", Becomes::Record),
        ("kube-vip.io/requestedIP", Becomes::Record),
    ],
    addresses: &["kube-vip.io/loadbalancerIPs"],
    classes: &["kube-vip.io/kube-vip-class"],
};
const EGRESS: Becomes =
    Becomes::Nothing("Windlass leaves the source address of pods to the CNI; keep kube-vip for it");

/// Converts every ConfigMap of kube-vip in `text`; with `vip`, the control plane's address that its pods hold.
pub(super) fn convert(text: &str, vip: bool) -> Conversion {
    let input = Input::read(text, PROGRAM.name);
    let pods: Vec<pods::Settings<'_>> =
        input.others.iter().flat_map(|object| pods::read(object, &input.writer)).collect();
    let is_pod = |origin: &str| pods.iter().any(|pod| pod.place.origin() == origin);
    if vip {
        let objects = input.services.iter().chain(&input.others).map(origin);
        objects.filter(|origin| !is_pod(origin)).for_each(|other| input.writer.foreign(other));
        pods::convert(&pods, &input.writer);
        return input.writer.finish();
    }
    let announcing = pods::announcing(&pods, &input.writer);
    input.each(&[], |object, place| {
        let data = match fields::labels(object, "data") {
            Err(error) if object.value()["metadata"]["name"] == "kubevip" => return Err(error),
            data => data.unwrap_or_default(),
        };
        if object.kind() == "ConfigMap" && data.keys().any(|key| is_range(key)) {
            config_map(&ConfigMap { data: &data, place }, &announcing);
            return Ok(Outcome::Read);
        }
        Ok(if is_pod(place.origin()) { Outcome::Reported } else { Outcome::Foreign })
    });
    input.finish(&PROGRAM, &announcing.classes)
}

fn is_range(key: &str) -> bool {
    ["cidr-", "range-"].iter().any(|prefix| key.starts_with(prefix))
}

/// The ConfigMap of the cloud provider.
struct ConfigMap<'a> {
    data: &'a BTreeMap<String, String>,
    place: &'a Place<'a>,
}

/// Ranges of which Services of some namespaces get their addresses.
struct Group<'a> {
    /// Its keys in the ConfigMap.
    keys: Vec<&'a str>,
    /// Namespaces, or [`GLOBAL`].
    of: Vec<&'a str>,
    value: &'a str,
    interface: Option<&'a str>,
}

impl<'a> ConfigMap<'a> {
    fn get(&self, what: &str, of: &str) -> Option<&'a str> {
        self.data.get(&format!("{what}-{of}")).map(String::as_str)
    }

    /// The place of these keys.
    fn at(&self, keys: &str) -> Place<'a> {
        self.place.part(&format!("data.{keys}"))
    }

    /// The setting of a namespace, or else that of all.
    fn or_global(&self, what: &str, of: &str) -> Option<&'a str> {
        self.get(what, of).or_else(|| self.get(what, GLOBAL))
    }

    fn is_set(&self, key: &str, value: &str) -> bool {
        self.data.get(key).is_some_and(|is| is == value)
    }

    /// The ranges, those of namespaces first: what several keys have alike is one group.
    fn groups(&self) -> Vec<Group<'a>> {
        let mut groups: Vec<Group<'a>> = Vec::new();
        let of = |key: &'a str| key.split_once('-').map_or("", |(_, of)| of);
        let keys = || self.data.iter().filter(|(key, _)| is_range(key));
        let (general, own): (Vec<_>, Vec<_>) = keys().partition(|(key, _)| of(key) == GLOBAL);
        for (key, value) in own.into_iter().chain(general) {
            let (key, of, value) = (key.as_str(), of(key), value.trim());
            let place = self.at(key);
            let first = key
                .starts_with("range-")
                .then(|| [of, GLOBAL].into_iter().find(|of| self.get("cidr", of).is_some()));
            if let Some(first) = first.flatten() {
                place.warn(format!(
                    "kube-vip assigns no address of it, because cidr-{first} comes first, so it was left out. If Services have \
                     addresses of it, remove cidr-{first} from the input and convert this range separately"
                ));
                continue;
            }
            if value == DHCP {
                place.refuse(
                    "kube-vip requests its addresses from a DHCP server, which Windlass does not do; give a range of the LAN",
                );
                continue;
            }
            let interface = self.or_global("interface", of).map(str::trim);
            match groups.iter_mut().find(|group| group.value == value && group.interface == interface) {
                Some(group) => {
                    group.keys.push(key);
                    group.of.push(of);
                }
                None => groups.push(Group { keys: vec![key], of: vec![of], value, interface }),
            }
        }
        groups
    }

    /// Reports keys that stand for nothing.
    fn look_at_keys(&self) {
        for key in self.data.keys() {
            let (kind, of) = key.split_once('-').unwrap_or((key, ""));
            let place = self.at(key);
            let has_pool = of == GLOBAL || self.get("cidr", of).is_some() || self.get("range", of).is_some();
            if kind == "interface" && !has_pool {
                place.warn(format!(
                    "it is for namespace {of:?}, which has no cidr-{of} or range-{of}: write an Announcement with \
                     spec.namespaces and spec.interfaces"
                ));
            } else if !is_range(key)
                && kind != "interface"
                && !matches!(key.as_str(), "skip-end-ips-in-cidr" | "search-order")
                && !key.starts_with("allow-share-")
            {
                place.warn("it is not converted: kube-vip's cloud provider has no such key. Remove it");
            }
        }
        for (key, values) in [("skip-end-ips-in-cidr", ["true", "false"]), ("search-order", ["desc", "asc"])]
        {
            if let Some(value) = self.data.get(key).filter(|value| !values.contains(&value.as_str())) {
                self.at(key).warn(format!(
                    "{value:?} is neither {:?} nor {:?}, and kube-vip ignores it: correct it",
                    values[0], values[1]
                ));
            }
        }
    }
}

fn config_map(map: &ConfigMap<'_>, announcing: &pods::Announcing<'_>) {
    for group in map.groups() {
        let place = map.at(&group.keys.join(", data."));
        let without_ends = leaves_out_ends(map, &group, &place);
        let draft = draft(map, &group, announcing, without_ends);
        let Some(name) = place.pool(draft) else { continue };
        if announcing.by_bgp {
            place.is_bgp_alone("only BGP announces it (bgp_enable)");
        }
        if let Some(interface) = group.interface.or(announcing.interface) {
            let spec = AnnouncementSpec {
                pools: vec![name.clone()],
                interfaces: vec![interface.to_owned()],
                ..AnnouncementSpec::default()
            };
            place.announcement(&name, &spec);
        }
        // As Go's strconv.ParseBool reads it.
        let is_true = |share: &str| ["1", "t", "T", "true", "TRUE", "True"].contains(&share);
        if group.of.iter().any(|of| map.or_global("allow-share", of).is_some_and(is_true)) {
            place.warn(
                "with allow-share, kube-vip lets Services share addresses without an annotation. With Windlass, only Services \
                 with the same windlass.dev/sharing-key share one. Set it on Services that share an address now",
            );
        }
    }
    map.look_at_keys();
}

/// True if the first and last address of its CIDRs are not given.
fn leaves_out_ends(map: &ConfigMap<'_>, group: &Group<'_>, place: &Place<'_>) -> bool {
    let without_ends = map.is_set("skip-end-ips-in-cidr", "true");
    if without_ends && group.value.split(',').filter(|text| trims(text)).count() > 1 {
        place.warn(
            "kube-vip joins adjacent CIDRs before it leaves out the first and last address; the VirtualIPPool leaves out the \
             first and last address of each CIDR. Make sure that no Service has one of them",
        );
    }
    without_ends
}

/// True of an IPv4 CIDR, the only one whose ends kube-vip leaves out.
fn trims(text: &str) -> bool {
    text.contains('/') && !text.contains(':')
}

fn draft(
    map: &ConfigMap<'_>,
    group: &Group<'_>,
    announcing: &pods::Announcing<'_>,
    without_ends: bool,
) -> Draft {
    let listed = group.value.split(',').map(str::trim).map(|text| Listed {
        field: String::new(),
        text: text.to_owned(),
        without_ends: without_ends && trims(text),
    });
    let is_global = group.of.contains(&GLOBAL);
    let is_given = !announcing.by_bgp;
    let namespaces =
        if is_global { Vec::new() } else { group.of.iter().map(|of| (*of).to_owned()).collect() };
    Draft {
        name: if is_global { GLOBAL.to_owned() } else { group.of.join("-").chars().take(100).collect() },
        listed: listed.collect(),
        ends_usable: false,
        restrictions: "the pool",
        spec: VirtualIPPoolSpec {
            auto_assign: is_given,
            // kube-vip gives a namespace with a range of its own nothing of the others.
            when_full: if is_global || !is_given { WhenFull::UseOthers } else { WhenFull::Wait },
            namespaces,
            allocation_order: if map.is_set("search-order", "desc") {
                AllocationOrder::Highest
            } else {
                AllocationOrder::Lowest
            },
            ..VirtualIPPoolSpec::default()
        },
    }
}

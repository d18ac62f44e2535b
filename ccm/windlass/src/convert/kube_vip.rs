//! kube-vip's cloud provider: its ConfigMap `kubevip`, as its README and `pkg/provider/loadBalancer.go` have it.
//!
//! A Service takes its address from the first of `cidr-<namespace>`, `cidr-global`, `range-<namespace>` and `range-global` that is
//! there, and from no other. So does `allow-share`, and `interface`, of its own.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_api::{AllocationOrder, AnnouncementSpec, VirtualIPPoolSpec, WhenFull};

use super::Conversion;
use super::fields::{self, FieldError, origin};
use super::input;
use super::services::{self, Becomes, Program};
use super::write::{Draft, Listed, Writer};

/// Stands for all namespaces.
const GLOBAL: &str = "global";
/// What asks a DHCP server.
const DHCP: &str = "0.0.0.0/32";

const PROGRAM: Program = Program {
    annotations: &[
        ("kube-vip.io/loadbalancerIPs", Becomes::IsRead),
        (
            "kube-vip.io/serviceInterface",
            Becomes::Nothing(
                "an Announcement with spec.serviceSelectors and spec.interfaces says it for the Services it selects",
            ),
        ),
        (
            "kube-vip.io/egress",
            Becomes::Nothing("Windlass leaves the source address of pods to the CNI; keep kube-vip for it"),
        ),
        ("kube-vip.io/loadbalancerHostname", Becomes::Nothing("Windlass asks no DHCP server and no DNS")),
        (
            "kube-vip.io/ignore",
            Becomes::Nothing("give the Service a loadBalancerClass of another controller"),
        ),
    ],
    addresses: &["kube-vip.io/loadbalancerIPs"],
    classes: &["kube-vip.io/kube-vip-class"],
};

/// Converts every ConfigMap of kube-vip in `text`.
pub(super) fn convert(text: &str) -> Conversion {
    let (objects, errors) = input::objects(text);
    let mut writer = Writer::new("kube-vip", Vec::new(), errors);
    let (services, others): (Vec<Value>, Vec<Value>) =
        objects.into_iter().partition(|object| object["kind"] == "Service");
    for object in others {
        let origin = origin(&object);
        let data = match fields::labels(&object, "data") {
            Ok(data) if object["kind"] == "ConfigMap" && data.keys().any(|key| is_known(key)) => data,
            Err(error) if object["metadata"]["name"] == "kubevip" => {
                writer.refuse(&origin, &error.to_string());
                continue;
            }
            Ok(_)
            | Err(FieldError::WrongKind { .. } | FieldError::Missing { .. } | FieldError::Selector { .. }) => {
                writer.warn(&origin, "no pool and no Service, left out");
                continue;
            }
        };
        config_map(&data, &origin, &mut writer);
    }
    services::look(&services, &PROGRAM, &mut writer);
    writer.conversion
}

fn is_known(key: &str) -> bool {
    ["cidr-", "range-"].iter().any(|prefix| key.starts_with(prefix))
}

fn config_map(data: &BTreeMap<String, String>, origin: &str, writer: &mut Writer) {
    let get = |what: &str, of: &str| data.get(&format!("{what}-{of}"));
    let is_set = |key: &str, value: &str| data.get(key).is_some_and(|is| is == value);
    let without_ends = is_set("skip-end-ips-in-cidr", "true");
    let highest_first = is_set("search-order", "desc");
    for (key, value) in data {
        let (kind, of) = key.split_once('-').unwrap_or((key, ""));
        let is_cidr = kind == "cidr";
        if !(is_cidr || kind == "range") {
            if !matches!(key.as_str(), "skip-end-ips-in-cidr" | "search-order")
                && !key.starts_with("allow-share-")
                && kind != "interface"
            {
                writer.warn(
                    &format!("{origin}: data.{key}"),
                    "kube-vip's cloud provider has no such key, left out",
                );
            }
            continue;
        }
        let place = format!("{origin}: data.{key}");
        if let Some(first) =
            (!is_cidr).then(|| [of, GLOBAL].into_iter().find(|of| get("cidr", of).is_some())).flatten()
        {
            let what = format!(
                "kube-vip gives nothing of it, because cidr-{first} comes first; left out. If Services have addresses of it, take \
                 cidr-{first} out of the input and convert this apart"
            );
            writer.warn(&place, &what);
            continue;
        }
        if value.trim() == DHCP {
            writer.refuse(
                &place,
                "it has kube-vip ask a DHCP server, which Windlass does not; give a range of the LAN",
            );
            continue;
        }
        let cidrs: Vec<&str> = value.split(',').map(str::trim).collect();
        let trims = |text: &str| without_ends && text.contains('/') && !text.contains(':');
        if cidrs.iter().filter(|text| trims(text)).count() > 1 {
            writer.warn(
                &place,
                "kube-vip joins CIDRs that adjoin before it leaves out their first and last address; the VirtualIPPool leaves out \
                 those of each. See that no Service has one",
            );
        }
        let listed = cidrs.iter().map(|text| Listed {
            field: format!("{text:?}"),
            text: (*text).to_owned(),
            without_ends: trims(text),
        });
        let is_global = of == GLOBAL;
        let draft = Draft {
            origin: place.clone(),
            name: of.to_owned(),
            listed: listed.collect(),
            ends_usable: false,
            restrictions: "the pool",
            spec: VirtualIPPoolSpec {
                namespaces: if is_global { Vec::new() } else { vec![of.to_owned()] },
                // kube-vip gives a namespace with a range of its own nothing of the others.
                when_full: if is_global { WhenFull::UseOthers } else { WhenFull::Wait },
                allocation_order: if highest_first {
                    AllocationOrder::Highest
                } else {
                    AllocationOrder::Lowest
                },
                ..VirtualIPPoolSpec::default()
            },
        };
        let Some(name) = writer.pool(draft) else { continue };
        if let Some(interface) = get("interface", of).or_else(|| get("interface", GLOBAL)) {
            let spec = AnnouncementSpec {
                pools: vec![name.clone()],
                interfaces: vec![interface.trim().to_owned()],
                ..AnnouncementSpec::default()
            };
            writer.announcement(&place, &name, &spec);
        }
        let share = get("allow-share", of).or_else(|| get("allow-share", GLOBAL));
        // As Go's strconv.ParseBool reads it.
        if share.is_some_and(|share| ["1", "t", "T", "true", "TRUE", "True"].contains(&share.as_str())) {
            writer.warn(
                &place,
                "allow-share lets Services share addresses by themselves; with Windlass those do that have the same annotation \
                 windlass.dev/sharing-key. Give it to those that share one now",
            );
        }
    }
    if let Some(of) = data
        .keys()
        .filter_map(|key| key.strip_prefix("interface-"))
        .find(|of| *of != GLOBAL && get("cidr", of).is_none() && get("range", of).is_none())
    {
        let what = format!(
            "interface-{of} is for namespace {of:?}, which has no pool of its own: make an Announcement with spec.namespaces and \
             spec.interfaces"
        );
        writer.warn(origin, &what);
    }
}

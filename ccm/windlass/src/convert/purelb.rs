//! PureLB's ServiceGroups and LBNodeAgents, of `purelb.io/v1` and `v2` (`pkg/apis/purelb/v2/types.go`).

use serde_json::Value;
use windlass_api::{AnnouncementSpec, VirtualIPPoolSpec, WhenFull};

use super::addresses::Range;
use super::fields::{self, FieldError, name, origin};
use super::services::{self, Becomes, Program};
use super::write::{Draft, Listed, Writer};
use super::{Conversion, input, interfaces};

/// The group of Services that name none.
const DEFAULT: &str = "default";

const PROGRAM: Program = Program {
    annotations: &[
        ("purelb.io/addresses", Becomes::Ours("windlass.dev/addresses")),
        ("purelb.io/service-group", Becomes::Ours("windlass.dev/pool")),
        ("purelb.io/allow-shared-ip", Becomes::Ours("windlass.dev/sharing-key")),
        (
            "purelb.io/multi-pool",
            Becomes::Nothing(
                "windlass.dev/addresses names an address of each subnet, if the Service is to have several",
            ),
        ),
        (
            "purelb.io/node-affinity",
            Becomes::Nothing("externalTrafficPolicy: Local prefers the nodes that have pods"),
        ),
    ],
    addresses: &["purelb.io/addresses"],
    classes: &["purelb.io/purelb", "purelb.io/purelbv2"],
};

/// Converts every object of PureLB in `text`.
pub(super) fn convert(text: &str) -> Conversion {
    let (objects, errors) = input::objects(text);
    let mut writer = Writer::new("PureLB", Vec::new(), errors);
    let (services, others): (Vec<Value>, Vec<Value>) =
        objects.into_iter().partition(|object| object["kind"] == "Service");
    let is_purelb = |object: &Value| {
        object["apiVersion"].as_str().is_some_and(|version| version.starts_with("purelb.io/"))
    };
    for object in &others {
        let origin = origin(object);
        let result = match object["kind"].as_str() {
            Some("ServiceGroup") if is_purelb(object) => group(object, &origin, &others, &mut writer),
            Some("LBNodeAgent") if is_purelb(object) => agent(object, &origin, &mut writer),
            Some(_) | None => {
                writer.warn(&origin, "no object of PureLB and no Service, left out");
                Ok(())
            }
        };
        if let Err(error) = result {
            writer.refuse(&origin, &error.to_string());
        }
    }
    services::look(&services, &PROGRAM, &mut writer);
    writer.conversion
}

fn group(object: &Value, origin: &str, all: &[Value], writer: &mut Writer) -> Result<(), FieldError> {
    let name = name(object, "metadata.name")?;
    for (field, why) in [
        ("remote", "spec.remote is announced by routing (BGP), which Windlass has not; keep PureLB for it"),
        (
            "external",
            "spec.external has another program give addresses; make a VirtualIPPool of a range of its own",
        ),
        ("netbox", "spec.netbox has Netbox give addresses; make a VirtualIPPool of a range of its own"),
    ] {
        if object["spec"].get(field).is_some_and(|value| !value.is_null()) {
            writer.refuse(origin, why);
            return Ok(());
        }
    }
    let mut listed = Vec::new();
    let mut aggregated = false;
    for (field, pool) in pools(object)? {
        let Some(text) = fields::text(pool, "pool")? else {
            return Err(FieldError::Missing { field: format!("{field}.pool") });
        };
        let subnet = fields::text(pool, "subnet")?.unwrap_or_default();
        if let (Ok(range), Ok(within)) = (Range::read(text), Range::read(subnet))
            && !range.without(&[within]).is_empty()
        {
            let why = format!(
                "{field}.pool {text:?} is not within its subnet {subnet:?}, so PureLB gives nothing of the group; correct one"
            );
            writer.refuse(origin, &why);
            return Ok(());
        }
        aggregated |= fields::text(pool, "aggregation")?.is_some_and(|is| !is.is_empty() && is != "default");
        listed.push(Listed { field: format!("{field}.pool"), text: text.to_owned(), without_ends: false });
    }
    let namespaces = fields::texts(object, "spec.namespaces")?;
    let enforced = fields::boolean(object, "spec.enforceNamespaces", false)?;
    let rivals = rivals(object, &namespaces, all);
    let auto_assign = if namespaces.is_empty() {
        name == DEFAULT
    } else {
        rivals.is_empty() || fields::boolean(object, "spec.namespaceDefault", false)?
    };
    // PureLB gives Services of these namespaces that name no group addresses of this one alone.
    let when_full = if auto_assign && !namespaces.is_empty() { WhenFull::Wait } else { WhenFull::UseOthers };
    let is_restricted = !namespaces.is_empty();
    let draft = Draft {
        origin: origin.to_owned(),
        name,
        listed,
        ends_usable: false,
        restrictions: "spec",
        spec: VirtualIPPoolSpec { auto_assign, when_full, namespaces, ..VirtualIPPoolSpec::default() },
    };
    if writer.pool(draft).is_none() {
        return Ok(());
    }
    if is_restricted && !enforced {
        writer.warn(
            origin,
            "spec.enforceNamespaces is false: PureLB lets Services of other namespaces name the group; the VirtualIPPool does not. \
             Add their namespaces to its spec.namespaces",
        );
    }
    if aggregated {
        writer.warn(
            origin,
            "aggregation is for routing protocols; Windlass announces single addresses by ARP and NDP: see that they are in a subnet \
             of the nodes, and keep PureLB for those that are not",
        );
    }
    for (field, what) in [
        (
            "multiPool",
            "gives a Service an address of each range; windlass.dev/addresses of the Service can name several",
        ),
        ("balancePools", "spreads addresses over the ranges; the VirtualIPPool gives the lowest first"),
    ] {
        if fields::boolean(object, &format!("spec.local.{field}"), false)? {
            writer.warn(origin, &format!("spec.local.{field} {what}"));
        }
    }
    Ok(())
}

/// The pools of a group with their fields: `v4pool`, `v6pool`, lists of them, and the one of `v1` that has its fields in `spec.local`.
fn pools(object: &Value) -> Result<Vec<(String, &Value)>, FieldError> {
    let mut pools = Vec::new();
    let Some(local) = fields::at(object, "spec.local") else {
        return Err(FieldError::Missing { field: "spec.local".to_owned() });
    };
    if fields::at(local, "pool").is_some() {
        pools.push(("spec.local".to_owned(), local));
    }
    for field in ["v4pool", "v4Pool", "v6pool", "v6Pool"] {
        pools.extend(fields::at(local, field).map(|pool| (format!("spec.local.{field}"), pool)));
    }
    for field in ["v4pools", "v4Pools", "v6pools", "v6Pools"] {
        let list = fields::list(local, field)?;
        pools.extend(
            list.iter().enumerate().map(|(index, pool)| (format!("spec.local.{field}[{index}]"), pool)),
        );
    }
    Ok(pools)
}

/// Other groups that serve one of these namespaces by name.
fn rivals<'a>(object: &Value, namespaces: &[String], all: &'a [Value]) -> Vec<&'a Value> {
    let serves = |other: &&Value| {
        let theirs = fields::texts(other, "spec.namespaces").unwrap_or_default();
        other["kind"] == "ServiceGroup"
            && other["metadata"]["name"] != object["metadata"]["name"]
            && theirs.iter().any(|one| namespaces.contains(one))
    };
    all.iter().filter(serves).collect()
}

fn agent(object: &Value, origin: &str, writer: &mut Writer) -> Result<(), FieldError> {
    let name = name(object, "metadata.name")?;
    let nodes = fields::label_selector(object, "spec.nodeSelector")?;
    // Of v2 and of v1.
    let interface = match fields::text(object, "spec.local.localInterface")? {
        Some(interface) => Some(interface),
        None => fields::text(object, "spec.local.localint")?,
    };
    let interface = interface.filter(|name| !matches!(*name, "" | "default"));
    let further = fields::texts(object, "spec.local.interfaces")?;
    if interface.is_none() && !further.is_empty() {
        writer.warn(
            origin,
            "spec.local.interfaces are the interfaces whose subnets count; Windlass takes those that hold the address. An Announcement \
             with spec.interfaces restricts them",
        );
    }
    let mut spec =
        AnnouncementSpec { node_selectors: nodes.into_iter().collect(), ..AnnouncementSpec::default() };
    if let Some(expression) = interface {
        match interfaces::patterns(expression) {
            Ok((patterns, is_wider)) => {
                spec.interfaces = patterns.into_iter().chain(further).collect();
                if is_wider {
                    let what = format!(
                        "spec.local.localInterface {expression:?} became {:?}, which takes more names: see that it is right",
                        spec.interfaces
                    );
                    writer.warn(origin, &what);
                }
            }
            Err(error) => {
                writer.refuse(origin, &format!("spec.local.localInterface: {error}"));
                return Ok(());
            }
        }
    }
    if !spec.node_selectors.is_empty() {
        writer.warn(
            origin,
            "spec.nodeSelector says for which nodes these settings are, and nodes without any use the defaults; an Announcement with \
             spec.nodeSelectors has only those nodes announce. See that this is right",
        );
    }
    if spec != AnnouncementSpec::default() {
        writer.announcement(origin, &name, &spec);
    }
    Ok(())
}

//! PureLB's ServiceGroups and LBNodeAgents, of `purelb.io/v1` and `v2` (`pkg/apis/purelb/v2/types.go`).

use serde_json::Value;
use windlass_api::{AnnouncementSpec, VirtualIPPoolSpec, WhenFull};

use super::addresses::Range;
use super::fields::{self, FieldError, Object, name};
use super::objects::{Input, Outcome};
use super::services::{Becomes, Program};
use super::write::{Draft, Listed, Place, set_fields};
use super::{Conversion, interfaces};

/// The group of Services that name none.
const DEFAULT: &str = "default";

const PROGRAM: Program = Program {
    name: "PureLB",
    prefixes: &["purelb.io/"],
    sharing: &["purelb.io/allow-shared-ip"],
    annotations: &[
        ("purelb.io/addresses", Becomes::Ours("windlass.dev/addresses")),
        ("purelb.io/service-group", Becomes::Ours("windlass.dev/pool")),
        ("purelb.io/allow-shared-ip", Becomes::Ours("windlass.dev/sharing-key")),
        (
            "purelb.io/multi-pool",
            Becomes::Nothing(
                "name an address of each subnet in windlass.dev/addresses if the Service shall have several",
            ),
        ),
        (
            "purelb.io/node-affinity",
            Becomes::Nothing("externalTrafficPolicy: Local prefers the nodes that have pods"),
        ),
        (
            "purelb.io/allow-local",
            Becomes::Nothing("externalTrafficPolicy: Local needs no annotation with Windlass; remove it"),
        ),
        ("purelb.io/re-evaluate", Becomes::Record),
        ("purelb.io/allocated-by", Becomes::Record),
        ("purelb.io/allocated-from", Becomes::Record),
        ("purelb.io/pool-type", Becomes::Record),
        ("purelb.io/announcing", Becomes::Record),
        ("purelb.io/announcing-IPv4", Becomes::Record),
        ("purelb.io/announcing-IPv6", Becomes::Record),
        ("purelb.io/skip-ipv6-dad", Becomes::Record),
    ],
    addresses: &["purelb.io/addresses"],
    classes: &["purelb.io/purelb", "purelb.io/purelbv2"],
};

/// Fields without a counterpart, and the nearest thing to do.
const UNCONVERTED: &[(&str, &str)] = &[
    (
        "spec.local.skipIPv6DAD",
        "Windlass probes an address before its first use. Set spec.onAddressInUse: Claim of the VirtualIPPool to use it although \
         another host has it",
    ),
    ("spec.local.multiPool", MULTI),
    ("spec.remote.multiPool", MULTI),
    ("spec.local.balancePools", BALANCE),
    ("spec.remote.balancePools", BALANCE),
    ("spec.local.dummyInterface", DUMMY),
    ("spec.local.extlbint", DUMMY),
    (
        "spec.local.garpConfig",
        "Windlass sends gratuitous ARP at each takeover at its own intervals. No action is needed",
    ),
    (
        "spec.local.addressConfig",
        "Windlass adds no address to an interface, so the CNI cannot mistake it for a node's address. No action is needed",
    ),
    (
        "spec.local.addressGuard",
        "the guard of Windlass accepts only ports of the address' Services, on every interface (docs/dev/guard.md). Run the \
         agent with --guard=false to disable it",
    ),
    (
        "spec.local.interfaces",
        "PureLB uses the subnets of these interfaces; Windlass uses each interface whose subnet holds the address. Name the \
         interfaces in spec.interfaces of an Announcement to use no other",
    ),
];
const MULTI: &str = "a Service gets one address, not one of each range. Name several in its annotation windlass.dev/addresses";
const BALANCE: &str = "the VirtualIPPool gives its lowest free address. Set spec.allocationOrder, or write one VirtualIPPool for \
                       each range";
const DUMMY: &str = "Windlass does not announce by routing, so it needs no such interface. Keep PureLB for addresses that are routed";

/// Converts every object of PureLB in `text`.
pub(super) fn convert(text: &str) -> Conversion {
    let input = Input::read(text, PROGRAM.name);
    input.each(UNCONVERTED, |object, place| {
        match object.kind() {
            "ServiceGroup" if object.is_of("purelb.io") => group(object, &input.others, place)?,
            "LBNodeAgent" if object.is_of("purelb.io") => agent(object, place)?,
            _ => return Ok(Outcome::Foreign),
        }
        Ok(Outcome::Read)
    });
    input.finish(&PROGRAM, &[])
}

fn group(object: &Object<'_>, all: &[Value], place: &Place<'_>) -> Result<(), FieldError> {
    let name = name(object, "metadata.name")?;
    for (field, giver) in [("external", "another program"), ("netbox", "Netbox")] {
        if object.value()["spec"].get(field).is_some_and(|value| !value.is_null()) {
            place.refuse(format!(
                "with spec.{field}, {giver} assigns the addresses{}; write a VirtualIPPool with a separate range",
                set_fields(object)
            ));
            object.mark("spec");
            return Ok(());
        }
    }
    let is_remote = object.part("spec.local").is_none() && object.part("spec.remote").is_some();
    let of = if is_remote { "spec.remote" } else { "spec.local" };
    let Some(pools) = object.part(of) else { return Err(FieldError::Missing { field: of.to_owned() }) };
    let Some(listed) = listed(&pools, place)? else {
        object.mark("spec");
        return Ok(());
    };
    let namespaces = fields::texts(object, "spec.namespaces")?;
    let enforced = fields::boolean(object, "spec.enforceNamespaces", false)?;
    let is_default = fields::boolean(object, "spec.namespaceDefault", false)?;
    let is_restricted = !namespaces.is_empty();
    if (is_default || enforced) && !is_restricted {
        place.warn(
            "spec.enforceNamespaces and spec.namespaceDefault have no effect, because spec.namespaces is empty. Name the \
             namespaces there",
        );
    }
    let is_given = if is_restricted {
        rivals(object, &namespaces, all).is_empty() || is_default
    } else {
        name == DEFAULT
    };
    let auto_assign = is_given && !is_remote;
    // PureLB gives Services of these namespaces that name no group addresses of this one alone.
    let when_full = if auto_assign && is_restricted { WhenFull::Wait } else { WhenFull::UseOthers };
    let draft = Draft {
        name,
        listed,
        ends_usable: false,
        restrictions: "spec",
        spec: VirtualIPPoolSpec { auto_assign, when_full, namespaces, ..VirtualIPPoolSpec::default() },
    };
    if place.pool(draft).is_none() {
        return Ok(());
    }
    if is_restricted && !enforced {
        place.warn(
            "spec.enforceNamespaces is false: PureLB allows Services of other namespaces to name the group; the VirtualIPPool \
             does not. Add their namespaces to its spec.namespaces",
        );
    }
    if is_remote {
        place.is_bgp_alone("PureLB announces spec.remote by routing (BGP)");
    }
    Ok(())
}

/// The addresses that a group lists; `None` if PureLB gives none of them, which is reported.
fn listed(pools: &Object<'_>, place: &Place<'_>) -> Result<Option<Vec<Listed>>, FieldError> {
    let mut listed = Vec::new();
    for pool in parts(pools)? {
        let field = pool.path("pool");
        let Some(text) = fields::text(&pool, "pool")? else { return Err(FieldError::Missing { field }) };
        let subnet = fields::text(&pool, "subnet")?.unwrap_or_default();
        if let (Ok(range), Ok(within)) = (Range::read(text), Range::read(subnet))
            && !range.without(&[within]).is_empty()
        {
            place.refuse(format!(
                "{field} {text:?} is not within its subnet {subnet:?}, so PureLB assigns no address of the group; correct the \
                 range or the subnet"
            ));
            return Ok(None);
        }
        if let Some(aggregation) =
            fields::text(&pool, "aggregation")?.filter(|is| !matches!(*is, "" | "default"))
        {
            place.warn(format!(
                "{} {aggregation:?} is for routing protocols; Windlass announces single addresses by ARP and NDP: make sure that \
                 they are in a subnet of the nodes, and keep PureLB for the others",
                pool.path("aggregation")
            ));
        }
        listed.push(Listed { field, text: text.to_owned(), without_ends: false });
    }
    Ok(Some(listed))
}

/// The pools of a group: `v4pool`, `v6pool`, lists of them, and the one of `v1` that has its fields in `spec.local`.
fn parts<'a>(group: &Object<'a>) -> Result<Vec<Object<'a>>, FieldError> {
    let mut pools: Vec<Object<'a>> = Vec::new();
    if group.part("pool").is_some() {
        pools.extend(group.part(""));
    }
    for field in ["v4pool", "v4Pool", "v6pool", "v6Pool"] {
        pools.extend(group.part(field));
    }
    for field in ["v4pools", "v4Pools", "v6pools", "v6Pools"] {
        pools.append(&mut group.parts(field)?);
    }
    Ok(pools)
}

/// Other groups that serve one of these namespaces by name.
fn rivals<'a>(object: &Object<'_>, namespaces: &[String], all: &'a [Value]) -> Vec<&'a Value> {
    let serves = |other: &&Value| {
        let theirs = fields::texts(&Object::new(other), "spec.namespaces").unwrap_or_default();
        other["kind"] == "ServiceGroup"
            && other["metadata"]["name"] != object.value()["metadata"]["name"]
            && theirs.iter().any(|one| namespaces.contains(one))
    };
    all.iter().filter(serves).collect()
}

fn agent(object: &Object<'_>, place: &Place<'_>) -> Result<(), FieldError> {
    let name = name(object, "metadata.name")?;
    let nodes = fields::label_selector(object, "spec.nodeSelector")?;
    let mut spec =
        AnnouncementSpec { node_selectors: nodes.into_iter().collect(), ..AnnouncementSpec::default() };
    // Of v2 and of v1.
    for field in ["spec.local.localInterface", "spec.local.localint"] {
        let expression = fields::text(object, field)?.filter(|name| !matches!(*name, "" | "default"));
        let patterns = |expression| interfaces::patterns(expression, field, place);
        spec.interfaces.extend(expression.into_iter().flat_map(patterns));
    }
    if !spec.interfaces.is_empty() {
        spec.interfaces.extend(fields::texts(object, "spec.local.interfaces")?);
    }
    // The interface of every PureLB, which is none of Windlass'.
    for field in ["spec.local.dummyInterface", "spec.local.extlbint"] {
        if object.part(field).is_some_and(|part| part.value() == "kube-lb0") {
            object.mark(field);
        }
    }
    if !spec.node_selectors.is_empty() {
        place.warn(
            "PureLB applies these settings to the nodes that spec.nodeSelector selects, and the defaults to the others. With \
             spec.nodeSelectors of an Announcement, only the selected nodes announce. Check that this is intended",
        );
    }
    place.announcement(&name, &spec);
    Ok(())
}

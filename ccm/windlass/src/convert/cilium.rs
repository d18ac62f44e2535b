//! Cilium's CiliumLoadBalancerIPPools and CiliumL2AnnouncementPolicies, of `cilium.io/v2` and `v2alpha1`
//! (`pkg/k8s/apis/cilium.io/v2/lbipam_types.go`, `v2alpha1/l2announcement_types.go`).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde_json::Value;
use windlass_api::{AnnouncementSpec, VirtualIPPoolSpec};

use super::fields::{self, FieldError, name, origin};
use super::services::{self, Becomes, Program};
use super::write::{Draft, Listed, Writer};
use super::{Conversion, input, interfaces};

/// Stand for the Service's namespace and name in selectors of Services.
const NAMESPACE: &str = "io.kubernetes.service.namespace";
const NAME: &str = "io.kubernetes.service.name";
/// The label by which each namespace has its name.
const NAME_OF_NAMESPACE: &str = "kubernetes.io/metadata.name";

const ACROSS: Becomes = Becomes::Nothing(
    "windlass.dev/share-with names the namespaces; both sides name each other, and * is none",
);

const PROGRAM: Program = Program {
    annotations: &[
        ("lbipam.cilium.io/ips", Becomes::Ours("windlass.dev/addresses")),
        ("io.cilium/lb-ipam-ips", Becomes::Ours("windlass.dev/addresses")),
        ("lbipam.cilium.io/sharing-key", Becomes::Ours("windlass.dev/sharing-key")),
        ("io.cilium/lb-ipam-sharing-key", Becomes::Ours("windlass.dev/sharing-key")),
        ("lbipam.cilium.io/sharing-cross-namespace", ACROSS),
        ("io.cilium/lb-ipam-sharing-cross-namespace", ACROSS),
    ],
    addresses: &["lbipam.cilium.io/ips", "io.cilium/lb-ipam-ips"],
    classes: &["io.cilium/l2-announcer", "io.cilium/bgp-control-plane"],
};

/// Converts every object of Cilium in `text`.
pub(super) fn convert(text: &str) -> Conversion {
    let (objects, errors) = input::objects(text);
    let mut writer = Writer::new("Cilium", Vec::new(), errors);
    let (services, others): (Vec<Value>, Vec<Value>) =
        objects.into_iter().partition(|object| object["kind"] == "Service");
    let is_cilium = |object: &Value| {
        object["apiVersion"].as_str().is_some_and(|version| version.starts_with("cilium.io/"))
    };
    let is_policy = |object: &&Value| object["kind"] == "CiliumL2AnnouncementPolicy" && is_cilium(object);
    let policies = others.iter().filter(is_policy).count();
    for object in &others {
        let origin = origin(object);
        let result = match object["kind"].as_str() {
            Some("CiliumLoadBalancerIPPool") if is_cilium(object) => {
                pool(object, &origin, policies > 0, &mut writer)
            }
            Some("CiliumL2AnnouncementPolicy") if is_cilium(object) => {
                policy(object, &origin, policies > 1, &mut writer)
            }
            Some(_) | None => {
                writer
                    .warn(&origin, "neither a pool nor a policy of L2 announcements nor a Service, left out");
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

fn pool(object: &Value, origin: &str, has_policy: bool, writer: &mut Writer) -> Result<(), FieldError> {
    let without_ends = match fields::text(object, "spec.allowFirstLastIPs")? {
        None | Some("" | "Yes") => false,
        Some("No") => true,
        Some(other) => {
            writer.refuse(
                origin,
                &format!("spec.allowFirstLastIPs is {other:?}, and there are Yes and No; correct it"),
            );
            return Ok(());
        }
    };
    // Of versions before 1.15 `cidrs`.
    let mut listed = Vec::new();
    for list in ["blocks", "cidrs"] {
        for (index, block) in fields::list(object, &format!("spec.{list}"))?.iter().enumerate() {
            let field = format!("spec.{list}[{index}]");
            let text = |part| fields::text(block, part);
            let text = match (text("cidr")?.filter(|cidr| !cidr.is_empty()), text("start")?, text("stop")?) {
                (Some(cidr), None, None) => cidr.to_owned(),
                (None, Some(start), None) => start.to_owned(),
                (None, Some(start), Some(stop)) => format!("{start}-{stop}"),
                (Some(_), _, _) | (None, None, _) => {
                    writer.refuse(
                        &format!("{origin}: {field}"),
                        "it has neither a cidr alone nor a start; correct it",
                    );
                    continue;
                }
            };
            listed.push(Listed { without_ends: without_ends && text.contains('/'), field, text });
        }
    }
    let Some(selected) = selected(object, origin, writer)? else { return Ok(()) };
    let draft = Draft {
        origin: origin.to_owned(),
        name: name(object, "metadata.name")?,
        listed,
        ends_usable: false,
        restrictions: "spec.serviceSelector",
        spec: VirtualIPPoolSpec {
            disabled: fields::boolean(object, "spec.disabled", false)?,
            namespaces: selected.namespaces,
            namespace_selectors: selected.namespace_selectors,
            service_selectors: selected.services,
            ..VirtualIPPoolSpec::default()
        },
    };
    if writer.pool(draft).is_some() && !has_policy {
        writer.warn(
            origin,
            "the input has no CiliumL2AnnouncementPolicy, so Cilium announces nothing of it by ARP and NDP. Windlass does, and has no \
             BGP: see that the addresses are in a subnet of the nodes",
        );
    }
    Ok(())
}

fn policy(object: &Value, origin: &str, is_one_of_many: bool, writer: &mut Writer) -> Result<(), FieldError> {
    let name = name(object, "metadata.name")?;
    if fields::boolean(object, "spec.externalIPs", false)? {
        writer.warn(
            origin,
            "spec.externalIPs: Windlass announces addresses of spec.externalIPs of Services only if their VirtualIPPool has \
             allowExternalIPs: true",
        );
    }
    if !fields::boolean(object, "spec.loadBalancerIPs", false)? {
        writer.warn(origin, "spec.loadBalancerIPs is false, so it announces no address of a pool: no Announcement was made of it");
        return Ok(());
    }
    let Some(selected) = selected(object, origin, writer)? else { return Ok(()) };
    let selects = !(selected.services.is_empty()
        && selected.namespaces.is_empty()
        && selected.namespace_selectors.is_empty());
    let mut spec = AnnouncementSpec {
        namespaces: selected.namespaces,
        namespace_selectors: selected.namespace_selectors,
        service_selectors: selected.services,
        node_selectors: fields::label_selector(object, "spec.nodeSelector")?.into_iter().collect(),
        ..AnnouncementSpec::default()
    };
    for (index, expression) in fields::texts(object, "spec.interfaces")?.iter().enumerate() {
        let field = format!("spec.interfaces[{index}]");
        match interfaces::patterns(expression) {
            Ok((patterns, is_wider)) => {
                if is_wider {
                    let what = format!(
                        "{field} {expression:?} became {patterns:?}, which takes more names: see that it is right"
                    );
                    writer.warn(origin, &what);
                }
                spec.interfaces.extend(patterns);
            }
            Err(error) => {
                writer.refuse(origin, &format!("{field}: {error}"));
                return Ok(());
            }
        }
    }
    if selects {
        writer.warn(
            origin,
            "Cilium announces only Services that a policy selects; Windlass announces every Service with an address. Give the \
             VirtualIPPool selectors, or a Service the loadBalancerClass of another controller",
        );
    }
    if is_one_of_many {
        writer.warn(
            origin,
            "of several policies for a Service the nodes and interfaces of all announce it with Cilium; of several Announcements one \
             applies: see that they select different Services",
        );
    }
    if spec != AnnouncementSpec::default() {
        writer.announcement(origin, &name, &spec);
    }
    Ok(())
}

/// Which Services a `serviceSelector` selects.
#[derive(Default)]
struct Selected {
    namespaces: Vec<String>,
    namespace_selectors: Vec<LabelSelector>,
    services: Vec<LabelSelector>,
}

/// Reads `spec.serviceSelector`; `None`: it cannot be kept, which was told.
fn selected(object: &Value, origin: &str, writer: &mut Writer) -> Result<Option<Selected>, FieldError> {
    let field = "spec.serviceSelector";
    let Some(selector) = fields::label_selector(object, field)? else { return Ok(Some(Selected::default())) };
    let LabelSelector { match_labels, match_expressions } = selector;
    let is_in = |(key, value): (String, String)| LabelSelectorRequirement {
        key,
        operator: "In".to_owned(),
        values: Some(vec![value]),
    };
    let (special, labels): (Vec<_>, Vec<_>) =
        match_labels.unwrap_or_default().into_iter().partition(|(key, _)| key == NAMESPACE || key == NAME);
    let (of_names, expressions): (Vec<_>, Vec<_>) = special
        .into_iter()
        .map(is_in)
        .chain(match_expressions.unwrap_or_default())
        .partition(|one| one.key == NAMESPACE || one.key == NAME);
    if of_names.iter().any(|one| one.key == NAME) {
        let why = format!(
            "{field} selects Services by {NAME}, and Windlass knows labels only: label the Services and select them by that"
        );
        writer.refuse(origin, &why);
        return Ok(None);
    }
    let mut selected = Selected::default();
    match &of_names[..] {
        [] => {}
        [one] if one.operator == "In" => selected.namespaces = one.values.clone().unwrap_or_default(),
        several => {
            let named = several
                .iter()
                .cloned()
                .map(|one| LabelSelectorRequirement { key: NAME_OF_NAMESPACE.to_owned(), ..one });
            selected.namespace_selectors =
                vec![LabelSelector { match_expressions: Some(named.collect()), match_labels: None }];
        }
    }
    if !(labels.is_empty() && expressions.is_empty()) {
        selected.services = vec![LabelSelector {
            match_labels: (!labels.is_empty()).then(|| labels.into_iter().collect()),
            match_expressions: (!expressions.is_empty()).then_some(expressions),
        }];
    }
    Ok(Some(selected))
}

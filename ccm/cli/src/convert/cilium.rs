//! Cilium's CiliumLoadBalancerIPPools and CiliumL2AnnouncementPolicies, of `cilium.io/v2` and `v2alpha1`
//! (`pkg/k8s/apis/cilium.io/v2/lbipam_types.go`, `v2alpha1/l2announcement_types.go`).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use windlass_api::{AnnouncementSpec, VirtualIPPoolSpec};

use super::fields::{self, FieldError, Object, name};
use super::objects::{Input, Outcome};
use super::services::{Becomes, Program};
use super::write::{Draft, Listed, Place};
use super::{Conversion, interfaces};

/// Stand for the Service's namespace and name in selectors of Services.
const NAMESPACE: &str = "io.kubernetes.service.namespace";
const NAME: &str = "io.kubernetes.service.name";
/// The label by which each namespace has its name.
const NAME_OF_NAMESPACE: &str = "kubernetes.io/metadata.name";

const ACROSS: Becomes = Becomes::Nothing(
    "set windlass.dev/share-with on both Services to each other's namespace; * does not stand for all",
);

const PROGRAM: Program = Program {
    name: "Cilium",
    prefixes: &["lbipam.cilium.io/", "io.cilium/lb-ipam"],
    sharing: &[],
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

const BGP: &str = "Windlass does not speak BGP. Keep Cilium's BGP control plane for addresses that are in no subnet of the nodes";
/// Kinds of Cilium's BGP control plane.
const BGP_KINDS: [&str; 6] = [
    "CiliumBGPPeeringPolicy",
    "CiliumBGPClusterConfig",
    "CiliumBGPPeerConfig",
    "CiliumBGPAdvertisement",
    "CiliumBGPNodeConfig",
    "CiliumBGPNodeConfigOverride",
];

/// By what Cilium announces the addresses of the input's pools.
#[derive(Clone, Copy)]
struct Announced {
    policies: usize,
    by_bgp: bool,
}

/// Converts every object of Cilium in `text`.
pub(super) fn convert(text: &str) -> Conversion {
    let input = Input::read(text, PROGRAM.name);
    let is_policy = |object: &Object<'_>| {
        object.kind() == "CiliumL2AnnouncementPolicy"
            && fields::boolean(object, "spec.loadBalancerIPs", false).unwrap_or_default()
    };
    let cilium = || input.others.iter().map(Object::new).filter(|object| object.is_of("cilium.io"));
    let announced = Announced {
        policies: cilium().filter(is_policy).count(),
        by_bgp: cilium().any(|object| BGP_KINDS.contains(&object.kind())),
    };
    input.each(&[], |object, place| {
        match object.kind() {
            "CiliumLoadBalancerIPPool" if object.is_of("cilium.io") => pool(object, announced, place)?,
            "CiliumL2AnnouncementPolicy" if object.is_of("cilium.io") => {
                policy(object, announced.policies > 1, place)?;
            }
            kind if BGP_KINDS.contains(&kind) => {
                place.unconverted(object, BGP);
                return Ok(Outcome::Reported);
            }
            _ => return Ok(Outcome::Foreign),
        }
        Ok(Outcome::Read)
    });
    input.finish(&PROGRAM, &[])
}

/// The addresses that a pool lists; `None` if none can be read, which is reported.
fn listed(
    object: &Object<'_>,
    without_ends: bool,
    place: &Place<'_>,
) -> Result<Option<Vec<Listed>>, FieldError> {
    // Of versions before 1.15 `cidrs`.
    let (mut listed, mut has_errors) = (Vec::new(), false);
    for list in ["spec.blocks", "spec.cidrs"] {
        for block in object.parts(list)? {
            let text = |part| Ok(fields::text(&block, part)?.filter(|text| !text.is_empty()));
            let text = match (text("cidr")?, text("start")?, text("stop")?) {
                (Some(cidr), None, None) => cidr.to_owned(),
                (None, Some(start), None) => start.to_owned(),
                (None, Some(start), Some(stop)) => format!("{start}-{stop}"),
                (Some(_), _, _) | (None, None, _) => {
                    block.mark("");
                    has_errors = true;
                    place.part(&block.path("")).refuse(
                        "it has neither cidr alone nor start; write cidr, or start with an optional stop",
                    );
                    continue;
                }
            };
            let field = block.path("");
            listed.push(Listed { without_ends: without_ends && text.contains('/'), field, text });
        }
    }
    Ok(Some(listed).filter(|listed| !(listed.is_empty() && has_errors)))
}

fn pool(object: &Object<'_>, announced: Announced, place: &Place<'_>) -> Result<(), FieldError> {
    let without_ends = match fields::text(object, "spec.allowFirstLastIPs")? {
        None | Some("" | "Yes") => false,
        Some("No") => true,
        Some(other) => {
            object.mark("spec");
            place.refuse(format!("spec.allowFirstLastIPs is {other:?}; write Yes or No"));
            return Ok(());
        }
    };
    let (listed, selected) = (listed(object, without_ends, place)?, selected(object, place)?);
    let (Some(listed), Some(selected)) = (listed, selected) else {
        object.mark("spec");
        return Ok(());
    };
    let is_bgp_alone = announced.by_bgp && announced.policies == 0;
    let draft = Draft {
        name: name(object, "metadata.name")?,
        listed,
        ends_usable: false,
        restrictions: "spec.serviceSelector",
        spec: VirtualIPPoolSpec {
            auto_assign: !is_bgp_alone,
            disabled: fields::boolean(object, "spec.disabled", false)?,
            namespaces: selected.namespaces,
            namespace_selectors: selected.namespace_selectors,
            service_selectors: selected.services,
            ..VirtualIPPoolSpec::default()
        },
    };
    if place.pool(draft).is_none() || announced.policies > 0 {
        return Ok(());
    }
    if is_bgp_alone {
        place.is_bgp_alone("only BGP announces it");
    } else {
        place.warn(
            "the input has no CiliumL2AnnouncementPolicy with loadBalancerIPs: true, so Cilium announces no address of the pool by \
             ARP and NDP. Windlass announces by ARP and NDP, not by BGP: make sure that the addresses are in a subnet of the nodes",
        );
    }
    Ok(())
}

fn policy(object: &Object<'_>, is_one_of_many: bool, place: &Place<'_>) -> Result<(), FieldError> {
    let name = name(object, "metadata.name")?;
    if fields::boolean(object, "spec.externalIPs", false)? {
        place.warn(
            "spec.externalIPs is not converted: Windlass announces addresses of spec.externalIPs of Services only if their \
             VirtualIPPool has allowExternalIPs: true",
        );
    }
    if !fields::boolean(object, "spec.loadBalancerIPs", false)? {
        place.warn(
            "spec.loadBalancerIPs is false, so the policy announces no address of a pool and became no Announcement",
        );
        object.mark("spec");
        return Ok(());
    }
    let Some(selected) = selected(object, place)? else {
        object.mark("spec");
        return Ok(());
    };
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
        spec.interfaces.extend(interfaces::patterns(expression, &field, place));
    }
    if selects {
        place.warn(
            "Cilium announces only Services that a policy selects; Windlass announces every Service with an address. Give the \
             VirtualIPPool selectors, or a Service the loadBalancerClass of another controller",
        );
    }
    if is_one_of_many {
        place.warn(
            "if several policies select a Service, Cilium announces it on the nodes and interfaces of all. Of several \
             Announcements, Windlass applies one: make sure that they select different Services",
        );
    }
    place.announcement(&name, &spec);
    Ok(())
}

/// Services that a `serviceSelector` selects.
#[derive(Default)]
struct Selected {
    namespaces: Vec<String>,
    namespace_selectors: Vec<LabelSelector>,
    services: Vec<LabelSelector>,
}

/// Reads `spec.serviceSelector`; `None`: it cannot be kept, which was reported.
fn selected(object: &Object<'_>, place: &Place<'_>) -> Result<Option<Selected>, FieldError> {
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
        place.refuse(format!(
            "{field} selects Services by {NAME}, and Windlass selects by labels only: label the Services and select that label"
        ));
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

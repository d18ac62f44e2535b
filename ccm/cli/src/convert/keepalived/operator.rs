//! keepalived-operator (redhat-cop): a `KeepalivedGroup` is a set of nodes that hold the addresses of the Services that name it, which
//! are those of `spec.externalIPs` and of the status (`config/templates/keepalived-template.yaml`).

use serde_json::{Value, json};
use windlass_api::{AnnouncementSpec, Transport, VirtualIPPoolSpec, VridRange};

use super::super::fields::{self, FieldError, Object, name, origin};
use super::super::objects::{Input, Outcome};
use super::super::write::{Draft, Listed, Place};
use super::conf;

/// Names the group of a Service, as `<namespace>/<name>`.
const GROUP: &str = "keepalived-operator.redhat-cop.io/keepalivedgroup";

/// Fields without a counterpart, and the nearest thing to do.
const UNCONVERTED: &[(&str, &str)] = &[
    (
        "spec.verbatimConfig",
        "it is keepalived's own configuration. spec.vrrp of an Announcement has the settings of Windlass",
    ),
    (
        "spec.passwordAuth",
        "VRRP version 3 has no passwords. Set spec.vrrp.authentication of an Announcement to sign adverts (docs/dev/auth.md)",
    ),
    ("spec.daemonsetAnnotations", OPERATION),
    ("spec.daemonsetPodAnnotations", OPERATION),
    ("spec.daemonsetPodPriorityClassName", OPERATION),
    ("spec.image", OPERATION),
];
const OPERATION: &str =
    "it configures the operator's own pods. Set the same on the DaemonSet windlass-agent if you need it";

/// Annotations of Services without a counterpart, and the nearest thing to do.
const ANNOTATIONS: [(&str, &str); 2] = [
    (
        "keepalived-operator.redhat-cop.io/spreadvips",
        "it gives each address its own virtual router; Windlass always spreads addresses over the nodes, also the addresses of \
         one Service",
    ),
    (
        "keepalived-operator.redhat-cop.io/verbatimconfig",
        "it is keepalived's own configuration. spec.vrrp of an Announcement with spec.serviceSelectors has the settings of \
         Windlass",
    ),
];

/// True of a group.
pub(super) fn is_group(object: &Object<'_>) -> bool {
    object.kind() == "KeepalivedGroup" && object.is_of("redhatcop.redhat.io")
}

/// Converts all groups, with the addresses of their Services.
pub(super) fn convert(input: &Input) {
    input.each(UNCONVERTED, |object, place| {
        if is_group(object) {
            group(object, &input.services, place)?;
            return Ok(Outcome::Read);
        }
        Ok(if conf(object.value()).is_some() { Outcome::Reported } else { Outcome::Foreign })
    });
}

fn group(object: &Object<'_>, services: &[Value], place: &Place<'_>) -> Result<(), FieldError> {
    let name = name(object, "metadata.name")?;
    let full_name = match fields::text(object, "metadata.namespace")? {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.clone(),
    };
    let listed = listed(&full_name, services, place)?;
    let spec = announcement(object, place)?;
    if listed.is_empty() {
        place.refuse(format!(
            "no Service of the input names this group, and a group has the addresses of the Services that name it. Add them to \
             the input (`kubectl get services -A -o yaml`), with the annotation {GROUP}: {full_name:?}"
        ));
        return Ok(());
    }
    let draft = Draft {
        name,
        listed,
        ends_usable: true,
        restrictions: "spec",
        spec: VirtualIPPoolSpec { auto_assign: false, ..VirtualIPPoolSpec::default() },
    };
    place.pool_with(draft, spec);
    Ok(())
}

/// The addresses of the Services that name the group; what becomes of these Services is reported.
fn listed(full_name: &str, services: &[Value], place: &Place<'_>) -> Result<Vec<Listed>, FieldError> {
    let mut listed: Vec<Listed> = Vec::new();
    for value in services {
        let (its, service) = (place.at(origin(value)), Object::new(value));
        let annotations = fields::labels(&service, "metadata.annotations")?;
        // A group without a namespace is found by its name.
        let is_its = annotations.get(GROUP).is_some_and(|group| {
            group == full_name || (!full_name.contains('/') && group.rsplit('/').next() == Some(full_name))
        });
        if !is_its {
            continue;
        }
        for (key, said) in ANNOTATIONS {
            if let Some(text) = annotations.get(key).filter(|text| *text != "false") {
                its.warn(format!("annotation {key} ({text:?}) is not converted: {said}"));
            }
        }
        let external = fields::texts(&service, "spec.externalIPs")?;
        let mut addresses = external.clone();
        for entry in service.parts("status.loadBalancer.ingress")? {
            addresses.extend(fields::text(&entry, "ip")?.map(str::to_owned));
        }
        let named = addresses.join(",");
        for address in addresses {
            if !listed.iter().any(|one| one.text == address) {
                listed.push(Listed { field: its.origin().to_owned(), text: address, without_ends: false });
            }
        }
        if !external.is_empty() {
            its.warn(format!(
                "after you delete the group, change the Service to type: LoadBalancer with windlass.dev/addresses: {named:?}, \
                 and remove spec.externalIPs"
            ));
        }
    }
    Ok(listed)
}

/// Returns the spec of the Announcement for the group's addresses.
fn announcement(object: &Object<'_>, place: &Place<'_>) -> Result<AnnouncementSpec, FieldError> {
    let labels = fields::labels(object, "spec.nodeSelector")?;
    let selector = json!({ "spec": { "nodeSelector": { "matchLabels": labels } } });
    let nodes = fields::label_selector(&Object::new(&selector), "spec.nodeSelector")?;
    let mut spec =
        AnnouncementSpec { node_selectors: nodes.into_iter().collect(), ..AnnouncementSpec::default() };
    let interface = fields::text(object, "spec.interface")?.filter(|name| !name.is_empty());
    match fields::text(object, "spec.interfaceFromIP")?.filter(|address| !address.is_empty()) {
        Some(address) => {
            place.warn(format!(
                "spec.interfaceFromIP {address:?} is not converted: with it, each node uses the interface towards that address \
                 and ignores spec.interface. Windlass uses the interface whose subnet holds the Service's address. If that is \
                 another one, name interfaces in spec.interfaces of an Announcement"
            ));
        }
        None => spec.interfaces.extend(interface.map(str::to_owned)),
    }
    if fields::boolean(object, "spec.unicastEnabled", false)? {
        spec.vrrp.transport = Transport::Unicast;
    }
    let listed = fields::list(object, "spec.blacklistRouterIDs")?.iter();
    let blacklist: Vec<u8> = listed.filter_map(|vrid| u8::try_from(vrid.as_u64()?).ok()).collect();
    if !blacklist.is_empty() {
        let range = longest_without(&blacklist);
        place.note(format!(
            "spec.blacklistRouterIDs {blacklist:?} became spec.vrrp.vridRange {} to {}, the longest range without them",
            range.first, range.last
        ));
        spec.vrrp.vrid_range = Some(range);
    }
    Ok(spec)
}

/// The longest range of VRIDs without these.
fn longest_without(blacklist: &[u8]) -> VridRange {
    let free: Vec<u8> = (1..=u8::MAX).filter(|vrid| !blacklist.contains(vrid)).collect();
    let runs = free.chunk_by(|one, next| one.checked_add(1) == Some(*next));
    let longest = runs.max_by_key(|run| run.len()).unwrap_or_default();
    VridRange {
        first: longest.first().copied().unwrap_or(1),
        last: longest.last().copied().unwrap_or(u8::MAX),
    }
}

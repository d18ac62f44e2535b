//! keepalived-operator (redhat-cop): a `KeepalivedGroup` is a set of nodes that hold the addresses of the Services that name it, which
//! are those of `spec.externalIPs` and of the status (`config/templates/keepalived-template.yaml`).

use serde_json::Value;
use windlass_api::{AnnouncementSpec, VirtualIPPoolSpec};

use super::super::fields::{self, FieldError, name, origin};
use super::super::write::{Draft, Listed, Writer};

/// Names the group of a Service, as `<namespace>/<name>`.
const GROUP: &str = "keepalived-operator.redhat-cop.io/keepalivedgroup";

/// Whether an object is a group.
pub(super) fn is_group(object: &Value) -> bool {
    object["kind"] == "KeepalivedGroup"
        && object["apiVersion"].as_str().is_some_and(|version| version.starts_with("redhatcop.redhat.io/"))
}

/// Converts all groups, with the addresses of their Services.
pub(super) fn convert(objects: &[Value], writer: &mut Writer) {
    for object in objects {
        let origin = origin(object);
        if is_group(object) {
            if let Err(error) = group(object, &origin, objects, writer) {
                writer.refuse(&origin, &error.to_string());
            }
        } else if !matches!(object["kind"].as_str(), Some("Service" | "ConfigMap")) {
            writer.warn(&origin, "neither a KeepalivedGroup nor a Service nor a ConfigMap, left out");
        }
    }
}

fn group(object: &Value, origin: &str, objects: &[Value], writer: &mut Writer) -> Result<(), FieldError> {
    let name = name(object, "metadata.name")?;
    let namespace = fields::text(object, "metadata.namespace")?.unwrap_or_default();
    let full_name = format!("{namespace}/{name}");
    let mut listed: Vec<Listed> = Vec::new();
    for service in objects.iter().filter(|object| object["kind"] == "Service") {
        if fields::labels(service, "metadata.annotations")?.get(GROUP) != Some(&full_name) {
            continue;
        }
        let its = super::origin(service);
        let external = fields::texts(service, "spec.externalIPs")?;
        let mut addresses = external.clone();
        for entry in fields::list(service, "status.loadBalancer.ingress")? {
            addresses.extend(fields::text(entry, "ip")?.map(str::to_owned));
        }
        let named = addresses.join(",");
        for address in addresses {
            if !listed.iter().any(|one| one.text == address) {
                listed.push(Listed { field: its.clone(), text: address, without_ends: false });
            }
        }
        if !external.is_empty() {
            let what = format!(
                "make it type: LoadBalancer with windlass.dev/addresses: {named:?} once the group is gone, and take spec.externalIPs out"
            );
            writer.warn(&its, &what);
        }
    }
    let draft = Draft {
        origin: origin.to_owned(),
        name: name.clone(),
        listed,
        ends_usable: true,
        restrictions: "spec",
        spec: VirtualIPPoolSpec { auto_assign: false, ..VirtualIPPoolSpec::default() },
    };
    let Some(pool) = writer.pool(draft) else {
        writer.warn(
            origin,
            "its addresses are those of Services that name it: give them in the same input (kubectl get services -A -o yaml)",
        );
        return Ok(());
    };
    let labels = fields::labels(object, "spec.nodeSelector")?;
    let selector = serde_json::json!({ "spec": { "nodeSelector": { "matchLabels": labels } } });
    let spec = AnnouncementSpec {
        pools: vec![pool.clone()],
        node_selectors: fields::label_selector(&selector, "spec.nodeSelector")?.into_iter().collect(),
        interfaces: fields::text(object, "spec.interface")?
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .into_iter()
            .collect(),
        ..AnnouncementSpec::default()
    };
    if fields::at(object, "spec.verbatimConfig").is_some()
        || fields::at(object, "spec.passwordAuth").is_some()
    {
        writer.warn(
            origin,
            "spec.verbatimConfig and spec.passwordAuth are keepalived's own; spec.vrrp of an Announcement has what Windlass can be told",
        );
    }
    if !spec.interfaces.is_empty() || !spec.node_selectors.is_empty() {
        writer.announcement(origin, &pool, &spec);
    }
    Ok(())
}

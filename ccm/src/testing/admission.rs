//! Validation and defaults of the API server, as far as the controllers depend on them.

use serde_json::{Value, json};

/// The rules of the API server that the controllers live with.
pub(super) fn admit(
    current: &Value,
    next: &mut Value,
    body: &Value,
    verb: &str,
    subresource: &str,
) -> Result<(), (u16, String)> {
    let asked = body.pointer("/metadata/resourceVersion").filter(|version| !version.is_null());
    if asked.is_some_and(|version| *version != current["metadata"]["resourceVersion"]) {
        return Err((409, "the object has been modified".to_owned()));
    }
    let uid = body.pointer("/metadata/uid").filter(|uid| !uid.is_null());
    if let Some(uid) = uid.filter(|uid| **uid != current["metadata"]["uid"]) {
        // The UID of an update is a precondition; a patch would change the field.
        let precondition = (409, format!("Precondition failed: UID in precondition: {uid}"));
        let immutable = (422, format!("metadata.uid: Invalid value: {uid}: field is immutable"));
        return Err(if verb == "update" { precondition } else { immutable });
    }
    let count = |object: &Value| {
        object.pointer("/metadata/finalizers").map_or(0, |list| list.as_array().map_or(0, Vec::len))
    };
    if !current["metadata"]["deletionTimestamp"].is_null() && count(next) > count(current) {
        return Err((422, "no new finalizers can be added if the object is being deleted".to_owned()));
    }
    let has_status = is_custom(current) || matches!(current["kind"].as_str(), Some("Service" | "Node"));
    match subresource {
        "status" if has_status => next["spec"] = current["spec"].clone(),
        _ if has_status => next["status"] = current["status"].clone(),
        _ => {}
    }
    if current["kind"] == "VirtualIP" {
        an_owner_stays(current, next)?;
    }
    let provider_id = &current["spec"]["providerID"];
    if current["kind"] == "Node" && !provider_id.is_null() && *provider_id != next["spec"]["providerID"] {
        return Err((422, "node updates may not change providerID".to_owned()));
    }
    if let Some(ingress) = next.pointer_mut("/status/loadBalancer/ingress").and_then(Value::as_array_mut) {
        if current["spec"]["type"] != "LoadBalancer" && !ingress.is_empty() {
            return Err((
                422,
                "status.loadBalancer.ingress may only be used when type is LoadBalancer".to_owned(),
            ));
        }
        for entry in ingress {
            if entry["ipMode"].is_null() {
                entry["ipMode"] = json!("VIP");
            }
        }
    }
    Ok(())
}

/// As the CRD's own rule has it.
fn an_owner_stays(current: &Value, next: &Value) -> Result<(), (u16, String)> {
    let owners = |object: &Value| object["spec"]["owners"].as_array().cloned().unwrap_or_default();
    let before = owners(current);
    if owners(next).iter().any(|one| before.iter().any(|old| old["uid"] == one["uid"])) {
        return Ok(());
    }
    Err((422, "one owner of a VirtualIP must stay: delete the VirtualIP to free its address".to_owned()))
}

pub(super) fn is_custom(object: &Value) -> bool {
    object["apiVersion"].as_str().is_some_and(|version| version.starts_with("windlass.dev/"))
}

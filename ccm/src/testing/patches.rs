//! Patches as the API server applies them, as far as the tests need them.

use serde_json::{Map, Value};

/// JSON merge patch (RFC 7396).
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (field, change) in changes {
        if change.is_null() {
            target.as_object_mut().expect("an object").remove(field);
        } else {
            merge(&mut target[field], change);
        }
    }
}

/// Strategic merge patch of a Service's status subresource: finalizers merge, conditions merge by type, all other lists
/// are atomic. Directives other than the two for finalizers and `$patch: delete` of a condition are refused, so that a
/// wrong patch shows.
pub(crate) fn strategic(target: &mut Value, patch: &Value) -> Result<(), String> {
    let mut patch = patch.clone();
    if let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut) {
        let mut finalizers = strings(target.pointer("/metadata/finalizers"));
        let added = strings(metadata.remove("finalizers").as_ref());
        let removed = strings(metadata.remove("$deleteFromPrimitiveList/finalizers").as_ref());
        let order = metadata.remove("$setElementOrder/finalizers");
        if let Some(order) = order.map(|order| strings(Some(&order)))
            && added.iter().any(|finalizer| !order.contains(finalizer))
        {
            return Err("The order in patch list doesn't match $setElementOrder list".to_owned());
        }
        for finalizer in added {
            if !finalizers.contains(&finalizer) {
                finalizers.push(finalizer);
            }
        }
        finalizers.retain(|finalizer| !removed.contains(finalizer));
        target["metadata"]["finalizers"] = finalizers.into();
    }
    if let Some(status) = patch.get_mut("status").and_then(Value::as_object_mut)
        && let Some(Value::Array(changes)) = status.remove("conditions")
    {
        merge_conditions(&mut target["status"]["conditions"], &changes)?;
    }
    if let Some(directive) = directive(&patch) {
        return Err(format!("unexpected directive {directive}"));
    }
    merge(target, &patch);
    Ok(())
}

fn merge_conditions(conditions: &mut Value, changes: &[Value]) -> Result<(), String> {
    let mut merged = conditions.as_array().cloned().unwrap_or_default();
    for change in changes {
        let kind = change["type"].as_str().ok_or("map: does not contain declared merge key: type")?;
        let known = merged.iter().position(|condition| condition["type"] == kind);
        match (change["$patch"].as_str(), known) {
            (Some("delete"), Some(at)) => drop(merged.remove(at)),
            (Some("delete"), None) => {}
            (Some(other), _) => return Err(format!("unexpected directive $patch: {other}")),
            (None, Some(at)) => merge(&mut merged[at], change),
            (None, None) => merged.push(change.clone()),
        }
    }
    *conditions = merged.into();
    Ok(())
}

fn directive(patch: &Value) -> Option<String> {
    let object = patch.as_object()?;
    object.iter().find_map(
        |(field, value)| {
            if field.starts_with('$') { Some(field.clone()) } else { directive(value) }
        },
    )
}

fn strings(value: Option<&Value>) -> Vec<String> {
    value
        .and_then(Value::as_array)
        .map(|items| items.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        .unwrap_or_default()
}

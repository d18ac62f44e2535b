//! Identification of the program that holds a lease: a candidate waits for another of its own kind, and reports a foreign program to the
//! admin. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Name that the API server records for a client that does not identify itself.
const NAMELESS: &str = "unknown";

/// Returns the program that renewed the lease last, by the name that the API server records for the writer of a field
/// (`metadata.managedFields`): with client-go the name of the program, as `k3s`. `None`: there is no record.
pub fn program(metadata: &ObjectMeta) -> Option<&str> {
    let notes = metadata.managed_fields.iter().flatten().filter(|note| {
        note.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer("/f:spec/f:renewTime").is_some())
    });
    let last = notes.max_by_key(|note| note.time.as_ref().map(|time| time.0))?;
    last.manager.as_deref().filter(|name| !name.is_empty() && *name != NAMELESS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // shows: ccm-contract E-06
    #[test]
    fn the_program_is_the_last_that_renewed_the_lease() {
        let note = |manager: &str, time: &str, fields: &serde_json::Value| json!({ "manager": manager, "operation": "Update", "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields });
        let renewal = json!({ "f:spec": { "f:holderIdentity": {}, "f:renewTime": {} } });
        let label = json!({ "f:metadata": { "f:labels": {} } });
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:10Z");
        let rows = [
            (json!([]), None),
            (json!([note("k3s", early, &renewal)]), Some("k3s")),
            (json!([note("k3s", late, &renewal), note("windlass", early, &renewal)]), Some("k3s")),
            (json!([note("k3s", early, &renewal), note("kubectl", late, &label)]), Some("k3s")),
            (json!([note("kubectl", late, &label)]), None),
            (json!([note("unknown", late, &renewal)]), None),
            (json!([note("", late, &renewal)]), None),
        ];
        for (notes, expected) in rows {
            let metadata: ObjectMeta = serde_json::from_value(json!({ "managedFields": notes })).unwrap();
            assert_eq!(program(&metadata), expected, "{notes}");
        }
    }
}

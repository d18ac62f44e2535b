//! Lines of a watch and error responses, as the API server writes them.

use serde_json::{Value, json};

/// A line of a watch, its fields in the order in which the API server writes them.
pub(super) fn line(kind: &str, object: &Value) -> String {
    format!(r#"{{"type":"{kind}","object":{object}}}"#)
}

pub(super) fn failure(code: u16, message: &str) -> Value {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        422 => "Invalid",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message,
            "reason": reason, "metadata": {} })
}

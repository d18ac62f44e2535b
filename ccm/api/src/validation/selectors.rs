//! Lists of label selectors.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// Up to 32 label selectors as Kubernetes writes them, of which one that matches is enough. Bounded, and with the rules
/// that Kubernetes checks where it uses selectors itself: a custom resource has to bring its own.
pub(crate) fn selectors(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "maxItems": 32, "items": selector() })
}

/// One label selector.
pub(super) fn selector() -> Value {
    let label = json!({ "type": "string", "maxLength": 63, "x-kubernetes-validations": [{
        "rule": "self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",
        "messageExpression": "'\"' + self + '\" cannot be the value of a label: it has letters, digits, \"-\", \"_\" and \
            \".\" only, and begins and ends with a letter or digit'",
    }] });
    json!({
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {
                "matchLabels": {
                    "description": "Labels that an object must have, all of them.",
                    "type": "object",
                    "maxProperties": 16,
                    "additionalProperties": label.clone(),
                    "x-kubernetes-validations": [{
                        "rule": format!("self.all(key, {})", is_label_name("key")),
                        // (The message cannot name it: the keys of a map have no greatest length.)
                        "message": "a key of matchLabels cannot be the name of a label: write it as app, or as \
                            example.com/app",
                    }],
                },
                "matchExpressions": {
                    "description": "Conditions on labels, all of which an object must meet.",
                    "type": "array",
                    "maxItems": 16,
                    "items": {
                        "type": "object",
                        "required": ["key", "operator"],
                        "properties": {
                            "key": { "description": "Name of the label.", "type": "string", "maxLength": 317 },
                            "operator": {
                                "description": "In, NotIn, Exists or DoesNotExist.",
                                "type": "string",
                                "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
                            },
                            "values": {
                                "description": "Values that In and NotIn compare with; none for the others.",
                                "type": "array",
                                "maxItems": 32,
                                "items": label,
                            },
                        },
                        "x-kubernetes-validations": [
                            {
                                "rule": is_label_name("self.key"),
                                "messageExpression": "'label \"' + self.key + '\" cannot exist: write a name as app, or \
                                    example.com/app'",
                            },
                            {
                                "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
                                "messageExpression": "'operator ' + self.operator + ' on label \"' + self.key + '\": In and \
                                    NotIn need values, Exists and DoesNotExist have none'",
                            },
                        ],
                    },
                },
            },
    })
}

/// Returns the expression that `key` is `name` or `prefix/name`, as label names are.
fn is_label_name(key: &str) -> String {
    format!(
        "{key}.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$')"
    )
}

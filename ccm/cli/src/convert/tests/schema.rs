//! What the API server's schema of a custom resource says of an object, without its CEL rules.

use std::sync::LazyLock;

use serde_json::Value;

static DEFINITIONS: LazyLock<Value> =
    LazyLock::new(|| serde_json::to_value(windlass_api::all_crds()).expect("JSON"));

/// Fails if the object has a field that the definition `crd` does not have, or a value outside its bounds.
pub(super) fn check(crd: &str, object: &Value) {
    let definitions = DEFINITIONS.as_array().expect("a list");
    let definition = definitions.iter().find(|definition| definition["metadata"]["name"] == crd).expect(crd);
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    follow("spec", schema, &object["spec"]);
    let name = object["metadata"]["name"].as_str().expect("a name");
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let label = |label: &str| {
        !label.is_empty() && label.chars().all(legal) && !label.starts_with('-') && !label.ends_with('-')
    };
    assert!(name.len() <= 253 && name.split('.').all(label), "name {name:?}");
}

fn follow(path: &str, schema: &Value, value: &Value) {
    let number = |bound: &str| schema[bound].as_f64();
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let inner = [&schema["properties"][name], &schema["additionalProperties"]];
                let inner = inner.into_iter().find(|schema| schema.is_object());
                follow(
                    &format!("{path}.{name}"),
                    inner.unwrap_or_else(|| panic!("{path}.{name} is unknown")),
                    value,
                );
            }
            for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                assert!(fields.contains_key(name), "{path}.{name} is missing");
            }
        }
        Value::Array(items) => {
            assert_eq!(schema["type"], "array", "{path}");
            let count = u64::try_from(items.len()).expect("a count");
            assert!(schema["minItems"].as_u64().is_none_or(|least| count >= least), "{path}: {count}");
            assert!(schema["maxItems"].as_u64().is_none_or(|most| count <= most), "{path}: {count}");
            for (index, item) in items.iter().enumerate() {
                follow(&format!("{path}[{index}]"), &schema["items"], item);
                let is_set = schema["x-kubernetes-list-type"] == "set";
                assert!(!is_set || !items[..index].contains(item), "{path}: {item} twice");
            }
        }
        Value::String(text) => {
            assert_eq!(schema["type"], "string", "{path}");
            let length = u64::try_from(text.chars().count()).expect("a length");
            assert!(schema["minLength"].as_u64().is_none_or(|least| length >= least), "{path}: {text:?}");
            assert!(schema["maxLength"].as_u64().is_none_or(|most| length <= most), "{path}: {text:?}");
            let allowed = schema["enum"].as_array();
            assert!(allowed.is_none_or(|allowed| allowed.contains(value)), "{path}: {text:?}");
        }
        Value::Number(count) => {
            assert_eq!(schema["type"], "integer", "{path}");
            let count = count.as_f64().expect("a number");
            assert!(number("minimum").is_none_or(|least| count >= least), "{path}: {count}");
            assert!(number("maximum").is_none_or(|most| count <= most), "{path}: {count}");
        }
        Value::Bool(_) => assert_eq!(schema["type"], "boolean", "{path}"),
        Value::Null => panic!("{path} is null"),
    }
}

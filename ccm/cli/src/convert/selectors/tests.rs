use serde_json::{Value, json};

use super::*;

fn checked(selector: Value) -> Result<(), SelectorError> {
    check(&serde_json::from_value(selector).expect("a selector"))
}

#[test]
fn what_kubernetes_takes_is_taken() {
    for selector in [
        json!({}),
        json!({ "matchLabels": { "app": "web", "example.com/tier_1": "", "a.b-c/D.e": "1.0-x_Y" } }),
        json!({ "matchExpressions": [
            { "key": "app", "operator": "In", "values": ["web"] },
            { "key": "app", "operator": "NotIn", "values": ["", "x"] },
            { "key": "app", "operator": "Exists" },
            { "key": "kubernetes.io/metadata.name", "operator": "DoesNotExist", "values": [] },
        ] }),
    ] {
        assert_eq!(checked(selector.clone()), Ok(()), "{selector}");
    }
}

#[test]
fn what_an_ip_pool_would_refuse_is_refused_with_its_reason() {
    let expression = |key: &str, operator: &str, values: &[&str]| json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] });
    let long = "a".repeat(64);
    let labels: serde_json::Map<String, Value> =
        (0..17).map(|number| (format!("l{number}"), json!("v"))).collect();
    for (selector, error) in [
        (json!({ "matchLabels": { "": "v" } }), SelectorError::Name(String::new())),
        (json!({ "matchLabels": { "Example.com/a": "v" } }), SelectorError::Name("Example.com/a".to_owned())),
        (json!({ "matchLabels": { "a/b/c": "v" } }), SelectorError::Name("a/b/c".to_owned())),
        (json!({ "matchLabels": { "a": "-v" } }), SelectorError::Value("-v".to_owned())),
        (json!({ "matchLabels": { "a": long } }), SelectorError::Value(long.clone())),
        (json!({ "matchLabels": labels }), SelectorError::TooManyParts(17)),
        (expression("a b", "Exists", &[]), SelectorError::Name("a b".to_owned())),
        (expression("a", "Like", &["v"]), SelectorError::Operator("Like".to_owned())),
        (expression("a", "In", &[]), SelectorError::Values("In".to_owned(), 0)),
        (expression("a", "Exists", &["v"]), SelectorError::Values("Exists".to_owned(), 1)),
        (expression("a", "In", &["ü"]), SelectorError::Value("ü".to_owned())),
        (expression("a", "In", &["v"; 33]), SelectorError::TooManyValues(33)),
    ] {
        assert_eq!(checked(selector), Err(error));
    }
}

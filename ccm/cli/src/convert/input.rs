//! The objects in a text of several YAML documents, as people and `kubectl get -o yaml` write them. A document that is
//! no YAML stops no other.

use serde_json::Value;

/// Values that a document may have: 10,000 Services with all that `kubectl get -o yaml` prints of them, and a good deal more.
const MAX_VALUES: usize = 8_000_000;
/// Lists within lists are followed this deep.
const MAX_NESTING: usize = 4;

/// The objects, those in lists one by one; and what is wrong with documents that cannot be read.
pub(super) fn objects(text: &str) -> (Vec<Value>, Vec<String>) {
    objects_within(MAX_VALUES, text)
}

fn objects_within(max_values: usize, text: &str) -> (Vec<Value>, Vec<String>) {
    let (mut objects, mut errors) = (Vec::new(), Vec::new());
    for (line, document) in documents(text) {
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_nodes: max_values, max_events: max_values.saturating_mul(4) },
        };
        match serde_saphyr::from_str_with_options::<Value>(&document, options) {
            Ok(value) => flatten(value, MAX_NESTING, &mut objects),
            Err(_) if template(&document).is_some() => errors.push(format!(
                "the document that begins in line {line} is a template: it holds {:?}. It was left out: render it, for example \
                 with `helm template`, and convert the result",
                template(&document).unwrap_or_default()
            )),
            Err(error) => errors.push(format!(
                "the document that begins in line {line} {} and was left out: {}",
                if is_too_much(&error.to_string()) { "is too large" } else { "is not YAML" },
                mistake(line, &error.to_string())
            )),
        }
    }
    (objects, errors)
}

/// The first placeholder in a text, as Helm (`{{ … }}`) and envsubst or Flux (`${…}`) fill them in.
pub(super) fn template(text: &str) -> Option<&str> {
    [("{{", "}}"), ("${", "}")].into_iter().find_map(|(begin, end)| {
        let from = text.find(begin)?;
        let length = text.get(from..)?.find(end)? + end.len();
        text.get(from..from + length).filter(|found| found.len() <= 80 && !found.contains('\n'))
    })
}

/// The documents that hold something, each with the number of its first line. `---` at the beginning of a line always
/// begins a document, and `...` ends one (YAML 1.2.2 §9.1).
fn documents(text: &str) -> Vec<(usize, String)> {
    let mut documents = vec![(1, String::new())];
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, line) in text.lines().enumerate() {
        let marks = |marker: &str| {
            let rest = line.strip_prefix(marker)?;
            (rest.is_empty() || rest.starts_with([' ', '\t'])).then_some(rest)
        };
        let rest = match (marks("---"), marks("...")) {
            (Some(rest), _) | (None, Some(rest)) => {
                documents.push((index + 1, String::new()));
                rest
            }
            (None, None) => line,
        };
        if let Some((_, document)) = documents.last_mut() {
            document.push_str(rest);
            document.push('\n');
        }
    }
    documents.retain(|(_, document)| {
        document
            .lines()
            .map(str::trim_start)
            .any(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with('%'))
    });
    documents
}

fn flatten(value: Value, depth: usize, objects: &mut Vec<Value>) {
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match value {
        Value::Array(items) if depth > 0 => {
            for item in items {
                flatten(item, depth - 1, objects);
            }
        }
        Value::Object(mut list) if is_list && depth > 0 => {
            let items = list.remove("items").unwrap_or_default();
            flatten(items, depth - 1, objects);
        }
        Value::Null => {}
        Value::Array(_) | Value::Object(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            objects.push(value);
        }
    }
}

/// Returns true if the document may be valid YAML, but exceeds a limit of the parser.
fn is_too_much(error: &str) -> bool {
    error.contains("budget breached") || error.contains("recursion limit")
}

/// Describes the mistake in a document whose first line is `line` of the whole text. `error` counts the lines of the document.
fn mistake(line: usize, error: &str) -> String {
    let first = error.lines().next().unwrap_or("it cannot be read");
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let counted = first.strip_prefix("line ").and_then(|rest| {
        let (number, rest) = rest.split_once(' ')?;
        Some((number.parse::<usize>().ok()? + line - 1, rest))
    });
    let Some((number, rest)) = counted else { return first.to_owned() };
    if is_too_much(rest) {
        return format!(
            "line {number}: it is nested too deeply or has too many values; convert fewer pools at a time"
        );
    }
    format!("line {number} {rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_values_are_refused_with_a_remedy_and_ten_thousand_services_are_read() {
        let many: String = (0..500).map(|_| "- {a: 1}\n").collect();
        let (_, errors) = objects_within(1000, &many);
        assert!(errors[0].contains("too many values; convert fewer pools at a time"), "{errors:?}");
        let service = "- {apiVersion: v1, kind: Service, metadata: {name: a, namespace: b, labels: {a: b}}, spec: {type: LoadBalancer, \
                       ports: [{port: 80, protocol: TCP, targetPort: 80, nodePort: 30000}]}, status: {}}\n";
        let (services, errors) = objects(&format!("kind: List\nitems:\n{}", service.repeat(10_000)));
        assert_eq!((services.len(), errors), (10_000, vec![]));
    }

    #[test]
    fn a_template_is_named_as_one() {
        let (_, errors) = objects("kind: ConfigMap\ndata: {{ .Values.data }}\n");
        assert!(errors[0].contains("is a template: it holds \"{{ .Values.data }}\""), "{errors:?}");
        assert_eq!(template("a: ${RANGE}/24"), Some("${RANGE}"));
        assert_eq!(template("{a: {b: c}}"), None);
    }
}

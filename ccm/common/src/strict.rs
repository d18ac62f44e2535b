//! Writes that the API server accepts as a whole or rejects. By default it drops a field that its definition does not know, without an
//! error: the definitions may be those of an older version, and the field may restrict the clients of an address.

use std::collections::BTreeSet;

use http::Request;
use http::header::CONTENT_TYPE;
use kube::api::PatchParams;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_ccm::lenient::Lenient;

/// Messages of the API server about a field that it does not know, and about one in a server-side apply.
const REFUSALS: [&str; 2] = ["strict decoding error", "field not declared in schema"];
const REMEDY: &str = "; the definitions of Windlass' resources are of an older version than this program: \
    kubectl apply -f manifests/crds";

/// Returns parameters for a patch that the API server validates strictly.
pub fn params() -> PatchParams {
    PatchParams::default().validation_strict()
}

/// Creates an object. (kube cannot ask for that with a `create`.)
pub async fn create<K: Resource + Clone + Serialize + DeserializeOwned>(
    api: &Api<Lenient<K>>,
    object: &K,
) -> Result<Lenient<K>, kube::Error> {
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let request = Request::post(format!("{}?fieldValidation=Strict", api.resource_url()))
        .header(CONTENT_TYPE, "application/json")
        .body(body)
        .map_err(kube::Error::HttpError)?;
    api.clone().into_client().request(request).await
}

/// Returns the remedy if this is the reason that a write failed, else an empty text.
pub fn remedy(error: &str) -> &'static str {
    if is_for_unknown_field(error) { REMEDY } else { "" }
}

/// Returns true if a write failed because the definitions do not know a field of it.
pub fn is_for_unknown_field(error: &str) -> bool {
    REFUSALS.iter().any(|refusal| error.contains(refusal))
}

/// Returns the fields of `spec` that the definition does not know, by this error of a server-side apply.
pub fn unknown_fields<'a>(error: &str, spec: impl Iterator<Item = &'a String>) -> BTreeSet<String> {
    let is_unknown =
        |field: &&String| error.contains(&format!(".spec.{field}: field not declared in schema"));
    spec.filter(is_unknown).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_definitions_do_not_know_is_said_to_be_of_an_older_version_and_nothing_else_is() {
        let unknown = r#"VirtualIP in version "v1alpha1" cannot be handled: strict decoding error: unknown field "spec.sources""#;
        assert!(remedy(unknown).contains("kubectl apply -f manifests/crds"));
        assert_eq!(remedy("the object has been modified"), "");
    }

    #[test]
    fn of_the_fields_of_an_object_those_are_left_out_that_the_definition_does_not_know_and_none_for_what_is_within()
     {
        let fields = ["capabilities", "capability", "interfaces"].map(str::to_owned);
        let prefix = "failed to create typed patch object (/n1; windlass.dev/v1alpha1, Kind=NodeNetwork): ";
        let rows = [
            (".spec.capabilities: field not declared in schema", vec!["capabilities"]),
            (
                "errors:\n  .spec.capabilities: field not declared in schema\n  .spec.capability: field not declared in schema",
                vec!["capabilities", "capability"],
            ),
            (".spec.interfaces[0].speed: field not declared in schema", vec![]),
            (".spec.interfaces.speed: field not declared in schema", vec![]),
            (".spec.interfaces: expected list, got &{string}", vec![]),
        ];
        for (said, expected) in rows {
            let unknown = unknown_fields(&format!("{prefix}{said}"), fields.iter());
            assert_eq!(unknown.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{said}");
        }
    }
}

//! Writes that the API server takes as a whole or not at all. Of a field that its definition does not know it would otherwise leave
//! just that out, without an error: the definitions may be those of an older version, and the field may say who may use an address.

use http::Request;
use http::header::CONTENT_TYPE;
use kube::api::PatchParams;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_ccm::lenient::Lenient;

/// What the API server says of a field that it does not know.
const REFUSAL: &str = "strict decoding error";
const REMEDY: &str = "; the definitions of Windlass' resources are of an older version than this controller: \
    kubectl apply -f manifests/crds";

/// Of a patch.
pub(crate) fn params() -> PatchParams {
    PatchParams::default().validation_strict()
}

/// Creates an object. (kube cannot ask for that with a `create`.)
pub(crate) async fn create<K: Resource + Clone + Serialize + DeserializeOwned>(
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

/// What helps if this is why a write failed.
pub(crate) fn remedy(error: &str) -> &'static str {
    if error.contains(REFUSAL) { REMEDY } else { "" }
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
}

//! The YAML of every custom resource definition; shared by the example that writes it and the test that compares it.

use std::path::PathBuf;

/// Where the YAML is kept.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../manifests/crds")
}

/// File name and content, in a fixed order.
pub(crate) fn files() -> Vec<(String, String)> {
    windlass_api::all_crds()
        .into_iter()
        .map(|crd| {
            let name =
                format!("{}.yaml", crd.metadata.name.as_deref().expect("a CRD derived by kube has a name"));
            let body = serde_saphyr::to_string(&crd).expect("a CRD is plain data");
            let head = "# Generated from ccm/api by `make crds`; do not edit.\n";
            (name, format!("{head}{}\n", body.trim_end()))
        })
        .collect()
}

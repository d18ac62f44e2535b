//! The committed custom resource definitions against the Rust types.

#[path = "../../examples/crds/render.rs"]
mod render;

use std::fs;

#[test]
fn committed_yaml_is_what_the_types_generate() {
    let mut expected = Vec::new();
    for (name, yaml) in render::files() {
        let path = render::folder().join(&name);
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == yaml, "{} is stale: run `make crds` and commit it", path.display());
        expected.push(name);
    }
    let mut kept: Vec<String> = fs::read_dir(render::folder())
        .expect("manifests/crds")
        .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()) && name.contains("windlass.dev"))
        .collect();
    kept.sort();
    expected.sort();
    assert_eq!(kept, expected, "manifests/crds holds a definition that no type generates");
}

#[test]
fn every_definition_is_cluster_scoped_of_one_group_and_documented() {
    for crd in windlass_api::all_crds() {
        let name = crd.metadata.name.expect("named");
        assert_eq!((crd.spec.group.as_str(), crd.spec.scope.as_str()), ("windlass.dev", "Cluster"), "{name}");
        let version = &crd.spec.versions[0];
        assert_eq!(
            (version.name.as_str(), version.served, version.storage),
            ("v1alpha1", true, true),
            "{name}"
        );
        let schema = version.schema.as_ref().and_then(|s| s.open_api_v3_schema.as_ref()).expect("schema");
        let spec = &schema.properties.as_ref().expect("properties")["spec"];
        for (field, schema) in spec.properties.as_ref().expect("fields") {
            assert!(schema.description.is_some(), "{name}: spec.{field} has no description");
        }
    }
}

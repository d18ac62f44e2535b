use std::os::unix::fs::symlink;

use kube::core::ObjectMeta;
use serde_json::Value;

use super::file::ConfigError;
use super::glob::Glob;
use super::*;

type Labels<'a> = &'a [(&'a str, &'a str)];

const EXAMPLE: &str = include_str!("../../../../../manifests/examples/cloud-config.yaml");

fn read(body: &str) -> Result<CloudConfig, String> {
    CloudConfig::read(&format!("apiVersion: windlass.dev/v1alpha1\nkind: CloudConfig\n{body}"))
}

fn node(name: &str, labels: Labels<'_>) -> Node {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let metadata = ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    Node { metadata, ..Node::default() }
}

fn known(zone: &str, region: &str, instance_type: &str, labels: Labels<'_>) -> NodeMetadata {
    NodeMetadata {
        zone: zone.to_owned(),
        region: region.to_owned(),
        instance_type: instance_type.to_owned(),
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
    }
}

/// The file within the example's ConfigMap.
fn example() -> CloudConfig {
    let map: Value = serde_saphyr::from_str(EXAMPLE).expect("YAML");
    CloudConfig::read(map["data"]["cloud-config.yaml"].as_str().expect("the file")).expect("a good file")
}

#[test]
fn the_example_says_what_its_comments_say() {
    let config = example();
    let rack_1 = config.metadata_of(&node("rack1-n7", &[("node.example.com/model", "r650")]));
    assert_eq!(rack_1, known("rack-1", "berlin", "r650", &[("example.com/uplink", "10g")]));
    let labelled = config.metadata_of(&node("x", &[("example.com/rack", "rack-9")]));
    assert_eq!(labelled, known("rack-9", "berlin", "", &[]));
    let gpu = config.metadata_of(&node("rack1-gpu", &[("example.com/gpu", "true")]));
    assert_eq!(gpu.instance_type, "gpu", "what stands above counts");
    assert_eq!(config.delete_after("rack1-n7"), None, "nothing is deleted unless it is listed");
    assert!(!config.is_shut_down("rack1-n7"));
}

#[test]
fn for_each_value_the_first_entry_that_matches_and_has_it_counts() {
    let config = read(
        "nodeMetadata:\n\
         - {nodes: [a-1], zone: z1, labels: {one: a}}\n\
         - {nodes: ['a-*', 'c*'], zoneFromLabel: zone, region: r, labels: {one: b, two: b}}\n\
         - {nodeSelector: {kind: big, more: 'yes'}, instanceType: large}\n\
         - {zone: rest}\n",
    )
    .expect("a good file");
    let rows: [(&str, Labels<'_>, NodeMetadata); 6] = [
        ("a-1", &[("zone", "z9")], known("z1", "r", "", &[("one", "a"), ("two", "b")])),
        ("a-2", &[("zone", "z9")], known("z9", "r", "", &[("one", "b"), ("two", "b")])),
        ("a-2", &[("zone", "")], known("rest", "r", "", &[("one", "b"), ("two", "b")])),
        ("b", &[("kind", "big"), ("more", "yes")], known("rest", "", "large", &[])),
        ("b", &[("kind", "big")], known("rest", "", "", &[])),
        ("c", &[], known("rest", "r", "", &[("one", "b"), ("two", "b")])),
    ];
    for (name, labels, expected) in rows {
        assert_eq!(config.metadata_of(&node(name, labels)), expected, "{name} {labels:?}");
    }
    assert_eq!(CloudConfig::default().metadata_of(&node("a-1", &[])), NodeMetadata::default());
}

#[test]
fn a_star_stands_for_any_characters() {
    let rows = [
        ("n1", "n1", true),
        ("n1", "n11", false),
        ("*", "anything", true),
        ("rack1-*", "rack1-", true),
        ("rack1-*", "rack10", false),
        ("*.example.com", "n1.example.com", true),
        ("*.example.com", "example.com", false),
        ("a*b*c", "a1b2b3c", true),
        ("a*b*c", "acb", false),
        ("ab*ba", "aba", false),
        ("a**b", "ab", true),
    ];
    for (glob, name, matches) in rows {
        assert_eq!(Glob::try_from(glob.to_owned()).expect(glob).matches(name), matches, "{glob} {name}");
    }
}

#[test]
fn lists_of_machines_are_read() {
    let config = read("nodeLifecycle: {deleteNodes: [n1], deleteAfter: 1h30m, shutdownNodes: [n2, n3]}")
        .expect("good");
    assert_eq!(config.delete_after("n1"), Some(Duration::from_mins(90)));
    assert_eq!(config.delete_after("n2"), None);
    assert!(config.is_shut_down("n3") && !config.is_shut_down("n1"));
    let short = read("nodeLifecycle: {deleteNodes: [n1]}").expect("good");
    assert_eq!(short.delete_after("n1"), Some(Duration::from_hours(1)), "by default");
}

#[test]
fn what_is_wrong_is_said_with_line_and_field() {
    let rows = [
        (
            "nodeMetadata:\n- zone: rack 1\n",
            "line 4 (- zone: rack 1): ",
            "\"rack 1\" cannot be the value of a label",
        ),
        ("nodeMetadata:\n- zones: a\n", "line 4", "zones"),
        ("nodeMetadata:\n- zone: a\n  zoneFromLabel: b\n", "line ", "has both zone and zoneFromLabel"),
        ("nodeMetadata:\n- nodes: [Rack]\n", "line 4", "\"Rack\" matches no node"),
        ("nodeMetadata:\n- nodes: n1\n", "line 4", "sequence"),
        ("nodeMetadata:\n- nodeSelector: {a b: c}\n", "line 4", "\"a b\" cannot be the name of a label"),
        (
            "nodeMetadata:\n- labels:\n    topology.kubernetes.io/zone: a\n",
            "line 5",
            "Kubernetes' own domains",
        ),
        ("nodeMetadata:\n- labels: {a: ''}\n", "line 4", "\"\" cannot be the value of a label"),
        ("nodeLifecycle:\n  deleteNodes: ['n*']\n", "line 4", "* is not understood"),
        ("nodeLifecycle:\n  deleteNodes: [n_1]\n", "line 4", "can be the name of no node"),
        ("nodeLifecycle:\n  deleteAfter: 10s\n", "line 4", "at least one minute"),
        ("nodeLifecycle:\n  deleteAfter: soon\n", "line 4", "at least one minute"),
        ("nodeLifecycle:\n  deleteAfter: -2h\n", "line 4", "at least one minute"),
        ("nodeLifecycle:\n  deleteNode: [n1]\n", "line 4", "deleteNode"),
        ("pools: []\n", "line 3", "pools"),
        ("nodeMetadata: [\n", "line ", ""),
    ];
    for (body, line, reason) in rows {
        let error = read(body).expect_err(body);
        assert!(error.contains(line) && error.contains(reason), "{body}\n→ {error}");
        assert!(!error.contains('\n'), "one line: {error}");
    }
    let whole = [
        ("", "apiVersion"),
        ("kind: CloudConfig\n", "apiVersion"),
        ("apiVersion: windlass.dev/v1\nkind: CloudConfig\n", "apiVersion is \"windlass.dev/v1\""),
        ("apiVersion: windlass.dev/v1alpha1\nkind: VirtualIPPool\n", "kind is \"VirtualIPPool\""),
        ("[global]\nproject=x\n", ""),
    ];
    for (text, reason) in whole {
        let error = CloudConfig::read(text).expect_err(text);
        assert!(error.contains(reason), "{text}\n→ {error}");
    }
}

/// What the next minute shows.
async fn look(file: &mut ConfigFile) -> Option<Result<CloudConfig, ConfigError>> {
    tokio::time::timeout(Duration::from_mins(1), file.changed()).await.ok()
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_is_read_again_and_a_broken_one_is_told_once() {
    let folder = std::env::temp_dir().join(format!("windlass-cloud-config-{}", std::process::id()));
    let write = |version: &str, zone: &str| {
        let version = folder.join(version);
        std::fs::create_dir_all(&version).expect("a folder");
        let text =
            format!("apiVersion: windlass.dev/v1alpha1\nkind: CloudConfig\nnodeMetadata:\n- zone: {zone}\n");
        std::fs::write(version.join("cloud-config.yaml"), text).expect("a file");
        // As a kubelet changes a mounted ConfigMap.
        let link = folder.join("next");
        symlink(&version, &link).expect("a link");
        std::fs::rename(&link, folder.join("data")).expect("another link");
    };
    let path = folder.join("data/cloud-config.yaml");
    let missing = ConfigFile::open(&path).expect_err("no file").to_string();
    assert!(
        missing.starts_with("cannot read --cloud-config /") && missing.contains("No such file"),
        "{missing}"
    );

    write("1", "a b");
    let broken = ConfigFile::open(&path).expect_err("no label").to_string();
    assert!(broken.contains("cannot be used: ") && broken.contains("line 4"), "{broken}");

    write("2", "a");
    let (mut file, config) = ConfigFile::open(&path).expect("a good file");
    let zone = |config: &CloudConfig| config.metadata_of(&node("n1", &[])).zone;
    assert_eq!(zone(&config), "a");
    assert!(look(&mut file).await.is_none());
    write("3", "b");
    let changed = look(&mut file).await.expect("news").expect("a good file");
    assert_eq!(zone(&changed), "b");
    assert!(look(&mut file).await.is_none());

    write("4", "b c");
    assert!(matches!(look(&mut file).await, Some(Err(ConfigError::Invalid { .. }))));
    assert!(look(&mut file).await.is_none(), "told once");
    std::fs::remove_dir_all(&folder).expect("no folder");
    assert!(matches!(look(&mut file).await, Some(Err(ConfigError::Unreadable(_)))));
    assert!(look(&mut file).await.is_none(), "told once");
    write("5", "d");
    assert_eq!(zone(&look(&mut file).await.expect("news").expect("a good file")), "d");
    std::fs::remove_dir_all(&folder).expect("no folder");
}

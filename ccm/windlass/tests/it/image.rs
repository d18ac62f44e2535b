//! The archives of images, made without a container engine, and what it says that it is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::repository::root;
use crate::support::Folder;

/// The arguments of `manifests/image/pack` after the archive.
fn pack(archive: &Path, name: &str, images: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(root().join("manifests/image/pack"));
    command.arg(archive).arg(name).env_remove("SOURCE_DATE_EPOCH");
    for (architecture, content) in images {
        command.arg(architecture).arg(content);
    }
    command.output().unwrap()
}

/// A folder of what an image holds.
fn content(folder: &Folder, name: &str, binary: &str) -> PathBuf {
    let content = folder.path().join(name);
    fs::create_dir(&content).unwrap();
    fs::write(content.join("windlass"), binary).unwrap();
    fs::write(content.join("sbom"), "the documents").unwrap();
    content
}

fn packed(folder: &Folder, name: &str, images: &[(&str, &Path)]) -> PathBuf {
    let archive = folder.path().join(format!("{name}.tar"));
    let output = pack(&archive, "windlass:dev", images);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    archive
}

fn run(program: &str, args: &[&str], archive: &Path) -> Vec<u8> {
    let output = Command::new(program).args(args).arg(archive).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn member(archive: &Path, name: &str) -> Vec<u8> {
    let output = Command::new("tar").args(["-xOf"]).arg(archive).arg(name).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn json(archive: &Path, name: &str) -> Value {
    serde_json::from_slice(&member(archive, name)).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    let mut child = Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let sum = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    sum.split_whitespace().next().unwrap().to_owned()
}

/// What a descriptor of the archive leads to, which is what it says.
fn blob(archive: &Path, descriptor: &Value, media_type: &str) -> Vec<u8> {
    assert_eq!(descriptor["mediaType"], format!("application/vnd.oci.image.{media_type}"));
    let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let bytes = member(archive, &format!("blobs/sha256/{digest}"));
    assert_eq!(sha256(&bytes), digest);
    assert_eq!(descriptor["size"], bytes.len());
    bytes
}

/// Checks the image that a manifest's descriptor leads to, and returns the names of its configuration and its layer in the archive.
fn assert_image(archive: &Path, descriptor: &Value, architecture: &str, binary: &str) -> [String; 2] {
    assert_eq!(descriptor["platform"], json!({"architecture": architecture, "os": "linux"}));
    let manifest: Value = serde_json::from_slice(&blob(archive, descriptor, "manifest.v1+json")).unwrap();
    let config: Value =
        serde_json::from_slice(&blob(archive, &manifest["config"], "config.v1+json")).unwrap();
    assert_eq!(config["config"]["Entrypoint"], json!(["/windlass"]));
    assert_eq!([&config["architecture"], &config["os"]], [architecture, "linux"]);
    assert_eq!(config["created"], "1970-01-01T00:00:00Z");
    let compressed = blob(archive, &manifest["layers"][0], "layer.v1.tar+gzip");
    assert_eq!(manifest["layers"].as_array().map(Vec::len), Some(1));

    let folder = Folder::new();
    let layer = folder.path().join("layer.tar.gz");
    fs::write(&layer, compressed).unwrap();
    let unpacked = run("gzip", &["-dc"], &layer);
    assert_eq!(config["rootfs"]["diff_ids"], json!([format!("sha256:{}", sha256(&unpacked))]));
    let listing = String::from_utf8(run("tar", &["-tvzf"], &layer)).unwrap();
    let lines: Vec<_> = listing.lines().collect();
    let [document, program] = lines[..] else { panic!("{listing}") };
    assert!(document.starts_with("-rw-r--r-- 0/0") && document.ends_with(" sbom"), "{listing}");
    assert!(program.starts_with("-rwxr-xr-x 0/0") && program.ends_with(" windlass"), "{listing}");
    assert_eq!(member(&layer, "windlass"), binary.as_bytes());
    assert_eq!(member(&layer, "sbom"), b"the documents");
    [&manifest["config"], &manifest["layers"][0]]
        .map(|one| one["digest"].as_str().unwrap().replace(':', "/"))
        .map(|name| format!("blobs/{name}"))
}

#[test]
fn the_archive_of_one_image_is_an_oci_layout_that_docker_reads_too() {
    let folder = Folder::new();
    let archive = packed(&folder, "one", &[("amd64", &content(&folder, "content", "the binary"))]);
    assert_eq!(json(&archive, "oci-layout"), json!({"imageLayoutVersion": "1.0.0"}));
    let image = &json(&archive, "index.json")["manifests"][0];
    let [config, layer] = assert_image(&archive, image, "amd64", "the binary");
    let names = json!({
        "io.containerd.image.name": "docker.io/library/windlass:dev",
        "org.opencontainers.image.ref.name": "dev",
    });
    assert_eq!(image["annotations"], names);
    let expected = json!([{"Config": config, "RepoTags": ["windlass:dev"], "Layers": [layer]}]);
    assert_eq!(json(&archive, "manifest.json"), expected);
}

#[test]
fn images_of_two_architectures_are_behind_one_name() {
    let folder = Folder::new();
    let (first, second) = (content(&folder, "first", "of amd64"), content(&folder, "second", "of arm64"));
    let archive = packed(&folder, "two", &[("amd64", &first), ("arm64", &second)]);
    let top = json(&archive, "index.json");
    assert_eq!(top["manifests"].as_array().map(Vec::len), Some(1));
    assert_eq!(top["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], "dev");
    let index: Value =
        serde_json::from_slice(&blob(&archive, &top["manifests"][0], "index.v1+json")).unwrap();
    assert_eq!(index["manifests"].as_array().map(Vec::len), Some(2));
    assert_image(&archive, &index["manifests"][0], "amd64", "of amd64");
    assert_image(&archive, &index["manifests"][1], "arm64", "of arm64");
}

#[test]
fn a_name_is_written_out_as_containerd_has_it() {
    let folder = Folder::new();
    let content = content(&folder, "content", "x");
    for (name, expected) in [
        ("windlass:dev", "docker.io/library/windlass:dev"),
        ("me/windlass:1", "docker.io/me/windlass:1"),
        ("localhost/windlass:1", "localhost/windlass:1"),
        ("registry.example/windlass:1", "registry.example/windlass:1"),
        ("registry:5000/a/windlass:1", "registry:5000/a/windlass:1"),
    ] {
        let archive = folder.path().join("image.tar");
        assert!(pack(&archive, name, &[("amd64", &content)]).status.success(), "{name}");
        let annotations = &json(&archive, "index.json")["manifests"][0]["annotations"];
        assert_eq!(annotations["io.containerd.image.name"], expected);
    }
}

#[test]
fn the_same_binary_gives_the_same_bytes_and_another_gives_others() {
    let folder = Folder::new();
    let read = |name: &str, binary: &str| {
        let content = content(&folder, name, binary);
        fs::read(packed(&folder, name, &[("amd64", &content)])).unwrap()
    };
    let first = read("first", "same");
    assert_eq!(first, read("second", "same"));
    assert_ne!(first, read("third", "other"));
}

#[test]
fn what_is_no_image_is_refused_and_leaves_nothing_behind() {
    let folder = Folder::new();
    let content = content(&folder, "content", "x");
    let archive = folder.path().join("image.tar");
    for (name, architecture, content, reason) in [
        ("windlass:dev", "amd64", folder.path(), "build it first"),
        ("windlass:dev", "riscv64", &content, "amd64 and arm64 are known"),
        ("not a \"tag\"", "amd64", &content, "no image name"),
        ("registry:5000/windlass", "amd64", &content, "has no tag"),
    ] {
        let output = pack(&archive, name, &[(architecture, content)]);
        assert!(!output.status.success(), "{name} {architecture}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(reason), "{name} {architecture}: {said}");
    }
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["content"]);
}

/// What only the lab switches on in packages that the binary has, too; `cargo metadata` knows the features of the whole workspace.
const OF_THE_LAB: [&str; 4] = ["bit-vec", "json-patch", "time-macros", "x509-parser"];

/// `name version` of all packages that are built for the binary as `cargo metadata` has it, without our own.
fn built_in(metadata: &Value) -> BTreeSet<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let by_id = |list: Vec<Value>| -> BTreeMap<String, Value> {
        list.into_iter().map(|one| (text(&one["id"]), one)).collect()
    };
    let packages = by_id(list(&metadata["packages"]));
    let nodes = by_id(list(&metadata["resolve"]["nodes"]));
    let root = packages.values().find(|package| package["name"] == "windlass").unwrap();
    let mut found = BTreeSet::new();
    let mut open = vec![text(&root["id"])];
    while let Some(id) = open.pop() {
        if OF_THE_LAB.contains(&packages[&id]["name"].as_str().unwrap()) || !found.insert(id.clone()) {
            continue;
        }
        let is_built = |one: &Value| list(&one["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev");
        open.extend(
            list(&nodes[&id]["deps"]).iter().filter(|one| is_built(one)).map(|one| text(&one["pkg"])),
        );
    }
    let found = found.iter().map(|id| &packages[id]).filter(|package| !package["source"].is_null());
    found.map(|package| format!("{} {}", text(&package["name"]), text(&package["version"]))).collect()
}

// shows: threats T-25
#[test]
fn bill_of_materials_and_notices_name_every_dependency_of_the_binary_with_its_licence() {
    for target in ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"] {
        let folder = Folder::new();
        let inventory = root().join("manifests/image/inventory");
        let output = Command::new(inventory).arg(folder.path()).arg(target).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let bill: Value = serde_json::from_str(&read("sbom.cdx.json")).unwrap();
        let notices = read("THIRD-PARTY-NOTICES.txt");

        let metadata = Command::new(env!("CARGO"))
            .args(["metadata", "--locked", "--format-version", "1", "--filter-platform", target])
            .current_dir(root())
            .output()
            .unwrap();
        let built_in = built_in(&serde_json::from_slice(&metadata.stdout).unwrap());
        assert!(built_in.len() > 100, "the test looks at too little: {built_in:?}");

        assert_eq!(bill["bomFormat"], "CycloneDX");
        assert_eq!(bill["metadata"]["component"]["name"], "windlass");
        let components = bill["components"].as_array().unwrap();
        let mut foreign = BTreeSet::new();
        for component in components {
            let name = component["name"].as_str().unwrap();
            let package = format!("{name} {}", component["version"].as_str().unwrap());
            let licence = component["licenses"][0]["expression"].as_str().unwrap();
            assert!(
                !licence.is_empty() && !licence.contains('/'),
                "{package}: '{licence}' is no SPDX expression"
            );
            let is_crate = component["purl"].as_str().is_some_and(|purl| purl.starts_with("pkg:cargo/"));
            if is_crate && !name.starts_with("windlass-") {
                assert_eq!(component["hashes"][0]["content"].as_str().map(str::len), Some(64), "{package}");
                foreign.insert(package);
            }
        }
        let missing: Vec<_> = built_in.difference(&foreign).collect();
        assert!(missing.is_empty(), "{target}: not in the bill of materials: {missing:?}");
        let invented: Vec<_> = foreign.difference(&built_in).collect();
        assert!(invented.is_empty(), "{target}: in the bill of materials, and not built in: {invented:?}");
        for name in [
            "rust-std",
            "glibc",
            "windlass-vrrp",
            "windlass-kernel",
            "windlass-dataplane",
            "windlass-engine",
            "windlass-ipam",
            "windlass-api",
        ] {
            assert!(components.iter().any(|component| component["name"] == name), "{name}");
        }

        for package in &foreign {
            assert!(notices.lines().any(|line| line.starts_with(&format!("{package}: "))), "{package}");
        }
        for (owner, text) in
            [("ring", "Copyright 2015-2025 Brian Smith"), ("tokio", "Copyright (c) Tokio Contributors")]
        {
            assert!(notices.contains(text), "the text of {owner} is not there");
        }
        let once = "This is free and unencumbered software released into the public domain.";
        assert_eq!(notices.matches(once).count(), 1, "several packages have this text, which is there once");
        let size = notices.len() + read("sbom.cdx.json").len();
        assert!(size < 700_000, "{size} bytes of documents are more than the image should carry");
    }
}

// shows: threats T-26
#[test]
fn sums_that_overflow_are_found_in_all_packages_of_the_binary_that_are_our_own() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    for name in [
        "windlass",
        "windlass-api",
        "windlass-ccm",
        "windlass-cli",
        "windlass-common",
        "windlass-controller",
        "windlass-dataplane",
        "windlass-engine",
        "windlass-ipam",
        "windlass-kernel",
        "windlass-node",
        "windlass-vrrp",
    ] {
        let setting = format!("[profile.release.package.{name}]\noverflow-checks = true\n");
        assert!(manifest.contains(&setting), "the root Cargo.toml lacks\n{setting}");
    }
}

// shows: threats T-32
/// The tests' own profile always unwinds, whatever it says: what a release gives up when a thread panics they show only if it does, too.
#[test]
fn releases_unwind_when_a_thread_panics_as_the_tests_do() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let profiles = manifest.split("\n[").filter(|section| section.starts_with("profile."));
    let settings: Vec<&str> =
        profiles.flat_map(str::lines).filter(|line| line.starts_with("panic")).collect();
    assert!(manifest.contains("\n[profile.release]\n"), "the profile that images are built with");
    assert_eq!(
        settings,
        Vec::<&str>::new(),
        "the profiles of the root Cargo.toml leave panics as they are in tests"
    );
    // Profiles come from the environment and from cargo's settings, too: the binary itself refuses to be built.
    let output = Command::new("rustc")
        .args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "-Cpanic=abort", "-o", "/dev/null"])
        .arg(root().join("ccm/windlass/src/main.rs"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("Windlass is to be built with panics that unwind"), "{said}");
}

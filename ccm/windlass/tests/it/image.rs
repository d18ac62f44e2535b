//! The image archive, made without a container engine, and what it says that it is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::Folder;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pack(binary: &Path, archive: &Path, tag: &str, documents: &[PathBuf]) -> Output {
    let script = workspace().join("manifests/image/pack");
    Command::new(script).arg(binary).arg(archive).args([tag, "amd64"]).args(documents).output().unwrap()
}

fn packed(folder: &Folder, name: &str, content: &str) -> PathBuf {
    let binary = PathBuf::from(folder.file(name, content));
    let archive = folder.path().join(format!("{name}.tar"));
    let documents = [PathBuf::from(folder.file("sbom", "the documents"))];
    let output = pack(&binary, &archive, "windlass:dev", &documents);
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

fn sha256(file: &Path) -> String {
    let sum = String::from_utf8(run("sha256sum", &[], file)).unwrap();
    sum.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn the_archive_names_its_parts_by_their_digests_and_holds_the_binary_executable() {
    let folder = Folder::new();
    let archive = packed(&folder, "one", "the binary");
    let manifest: serde_json::Value = serde_json::from_slice(&member(&archive, "manifest.json")).unwrap();
    assert_eq!(manifest[0]["RepoTags"], serde_json::json!(["windlass:dev"]));
    let config_name = manifest[0]["Config"].as_str().unwrap();
    let config_bytes = member(&archive, config_name);
    let config: serde_json::Value = serde_json::from_slice(&config_bytes).unwrap();
    assert_eq!(config["config"]["Entrypoint"], serde_json::json!(["/windlass"]));
    assert_eq!(config["os"], "linux");
    let config_file = folder.path().join("config");
    std::fs::write(&config_file, config_bytes).unwrap();
    assert_eq!(format!("{}.json", sha256(&config_file)), config_name);

    let layer = folder.path().join("layer.tar");
    std::fs::write(&layer, member(&archive, manifest[0]["Layers"][0].as_str().unwrap())).unwrap();
    assert_eq!(config["rootfs"]["diff_ids"], serde_json::json!([format!("sha256:{}", sha256(&layer))]));
    let listing = String::from_utf8(run("tar", &["-tvf"], &layer)).unwrap();
    let lines: Vec<_> = listing.lines().collect();
    let [document, binary] = lines[..] else { panic!("{listing}") };
    assert!(document.starts_with("-rw-r--r-- 0/0") && document.ends_with(" sbom"), "{listing}");
    assert!(binary.starts_with("-rwxr-xr-x 0/0") && binary.ends_with(" windlass"), "{listing}");
    assert_eq!(member(&layer, "windlass"), b"the binary");
    assert_eq!(member(&layer, "sbom"), b"the documents");
}

#[test]
fn the_same_binary_gives_the_same_bytes_and_another_gives_others() {
    let folder = Folder::new();
    let first = std::fs::read(packed(&folder, "first", "same")).unwrap();
    let second = std::fs::read(packed(&folder, "second", "same")).unwrap();
    let third = std::fs::read(packed(&folder, "third", "other")).unwrap();
    assert_eq!(first, second);
    assert_ne!(first, third);
}

#[test]
fn a_missing_file_and_a_bad_tag_are_refused_and_leave_nothing_behind() {
    let folder = Folder::new();
    let archive = folder.path().join("image.tar");
    let missing = folder.path().join("missing");
    let output = pack(&missing, &archive, "windlass:dev", &[]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("build it first"));
    let binary = PathBuf::from(folder.file("binary", "x"));
    let output = pack(&binary, &archive, "not a \"tag\"", &[]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("no image name"));
    let output = pack(&binary, &archive, "windlass:dev", &[missing]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("run manifests/image/inventory first"));
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["binary"]);
}

/// What only the lab switches on in packages that the binary has, too; `cargo metadata` knows the features of the whole workspace.
const OF_THE_LAB: [&str; 3] = ["bit-vec", "time-macros", "x509-parser"];

/// `name version` of all packages that are built for the binary as `cargo metadata` has it, without our own.
fn built_in(metadata: &serde_json::Value) -> BTreeSet<String> {
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let by_id = |list: Vec<serde_json::Value>| -> BTreeMap<String, serde_json::Value> {
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
        let is_built =
            |one: &serde_json::Value| list(&one["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev");
        open.extend(
            list(&nodes[&id]["deps"]).iter().filter(|one| is_built(one)).map(|one| text(&one["pkg"])),
        );
    }
    let found = found.iter().map(|id| &packages[id]).filter(|package| !package["source"].is_null());
    found.map(|package| format!("{} {}", text(&package["name"]), text(&package["version"]))).collect()
}

#[test]
fn bill_of_materials_and_notices_name_every_dependency_of_the_binary_with_its_licence() {
    for target in ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"] {
        let folder = Folder::new();
        let inventory = workspace().join("manifests/image/inventory");
        let output = Command::new(inventory).arg(folder.path()).arg(target).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let bill: serde_json::Value = serde_json::from_str(&read("sbom.cdx.json")).unwrap();
        let notices = read("THIRD-PARTY-NOTICES.txt");

        let metadata = Command::new(env!("CARGO"))
            .args(["metadata", "--locked", "--format-version", "1", "--filter-platform", target])
            .current_dir(workspace())
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
        for name in ["rust-std", "glibc", "windlass-vrrp", "windlass-engine", "windlass-ipam", "windlass-api"]
        {
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

#[test]
fn sums_that_overflow_are_found_in_all_packages_of_the_binary_that_are_our_own() {
    let manifest = std::fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
    for name in
        ["windlass", "windlass-api", "windlass-ccm", "windlass-engine", "windlass-ipam", "windlass-vrrp"]
    {
        let setting = format!("[profile.release.package.{name}]\noverflow-checks = true\n");
        assert!(manifest.contains(&setting), "the root Cargo.toml lacks\n{setting}");
    }
}

/// The tests' own profile always unwinds, whatever it says: what a release gives up when a thread panics they show only if it does, too.
#[test]
fn releases_unwind_when_a_thread_panics_as_the_tests_do() {
    let manifest = std::fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
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
        .arg(workspace().join("ccm/windlass/src/main.rs"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("Windlass is to be built with panics that unwind"), "{said}");
}

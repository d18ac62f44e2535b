//! The image archive, made without a container engine.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::Folder;

fn pack(binary: &Path, archive: &Path, tag: &str) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/image/pack");
    Command::new(script).arg(binary).arg(archive).args([tag, "amd64"]).output().unwrap()
}

fn packed(folder: &Folder, name: &str, content: &str) -> PathBuf {
    let binary = PathBuf::from(folder.file(name, content));
    let archive = folder.path().join(format!("{name}.tar"));
    let output = pack(&binary, &archive, "windlass:dev");
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
    assert!(listing.starts_with("-rwxr-xr-x 0/0") && listing.trim_end().ends_with(" windlass"), "{listing}");
    assert_eq!(member(&layer, "windlass"), b"the binary");
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
fn a_missing_binary_and_a_bad_tag_are_refused_and_leave_nothing_behind() {
    let folder = Folder::new();
    let archive = folder.path().join("image.tar");
    let missing = folder.path().join("missing");
    let output = pack(&missing, &archive, "windlass:dev");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("build it first"));
    let binary = PathBuf::from(folder.file("binary", "x"));
    let output = pack(&binary, &archive, "not a \"tag\"");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("no image name"));
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["binary"]);
}

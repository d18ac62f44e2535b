//! What a release is made of (`docs/dev/release.md`), and the commands of `docs/install.md` that verify and unpack it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};
use windlass_e2e::{windlass_binary, workspace};

use crate::setup::code_lines;

const IMAGE: &str = "registry.example/windlass:9.9.9";

/// A folder that goes with its owner.
pub(crate) struct Release(PathBuf);

impl Release {
    fn new(name: &str) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("windlass-release-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    /// `install.yaml` and `crds.yaml`, of an image that is nowhere.
    pub(crate) fn manifests() -> anyhow::Result<Self> {
        let release = Self::new("manifests")?;
        release.run("manifests", &[IMAGE])?;
        Ok(release)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Runs a script of `manifests/release` for this folder.
    fn run(&self, script: &str, arguments: &[&str]) -> anyhow::Result<()> {
        let script = workspace().join("manifests/release").join(script);
        succeed(Command::new(script).arg(&self.0).args(arguments)).map(drop)
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a command prints that ends well.
fn succeed(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {said}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// Architecture of this machine, as images have it.
fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

#[test]
fn a_release_is_verified_and_unpacked_by_the_commands_of_the_page() -> anyhow::Result<()> {
    let release = Release::new("page")?;
    let content = release.file("content");
    fs::create_dir(&content)?;
    fs::copy(windlass_binary()?, content.join("windlass"))?;
    fs::copy(workspace().join("LICENSE"), content.join("LICENSE"))?;
    fs::write(content.join("sbom.cdx.json"), "{\"bomFormat\": \"CycloneDX\"}\n")?;
    let content_path = content.to_str().context("a path that is no UTF-8")?;
    release.run("archives", &[env!("CARGO_PKG_VERSION"), IMAGE, architecture(), content_path])?;
    fs::remove_dir_all(&content)?;
    release.run("sums", &[])?;

    let lines = code_lines("docs/install.md")?;
    let first = lines.iter().position(|line| line.starts_with("sha256sum --check"));
    let last = lines.iter().position(|line| line.ends_with("windlass version"));
    let (first, last) = first.zip(last).context("the page's commands are others")?;
    let commands = lines.get(first..=last).context("in this order")?.join("\n");
    let commands = format!("set -e\n{}", commands.replace("amd64", architecture()));
    let said = succeed(Command::new("sh").args(["-c", &commands]).current_dir(&release.0))?;
    let version = concat!("windlass ", env!("CARGO_PKG_VERSION"), "\n");
    ensure!(said.contains(".tar.gz: OK\n") && said.contains(version), "{said}");

    // Changed on the way, it is told.
    let bill = format!("windlass-{}-linux-{}.cdx.json", env!("CARGO_PKG_VERSION"), architecture());
    fs::write(release.file(&bill), "{}")?;
    let check = Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(&release.0).output()?;
    ensure!(!check.status.success(), "it is not told");
    Ok(())
}

#[test]
fn every_file_that_a_release_makes_is_on_the_page() -> anyhow::Result<()> {
    let page = fs::read_to_string(workspace().join("docs/dev/release.md"))?;
    for name in ["linux-amd64.tar.gz", "linux-amd64.cdx.json", "oci.tar"] {
        let name = format!("`windlass-{}-{name}`", env!("CARGO_PKG_VERSION"));
        ensure!(page.contains(&name), "{name} is not on docs/dev/release.md");
    }
    for name in ["install.yaml", "crds.yaml", "SHA256SUMS"] {
        ensure!(page.contains(&format!("`{name}`")), "{name} is not on docs/dev/release.md");
    }
    Ok(())
}

/// Checks what kubectl said of an `install.yaml` where the manifests themselves had been applied: nothing differs but the image.
pub(crate) fn assert_only_the_image_differs(said: &str) -> anyhow::Result<()> {
    // kubectl calls an admission policy configured whenever it is applied, as the API server adds to the items of its lists.
    let is_policy = |line: &&str| line.starts_with("validatingadmissionpolicy.");
    let changed = said.lines().filter(|line| !line.ends_with(" unchanged") && !is_policy(line));
    let changed: Vec<&str> = changed.collect();
    let expected =
        ["deployment.apps/windlass-controller configured", "daemonset.apps/windlass-agent configured"];
    ensure!(changed.len() == expected.len(), "{said}");
    for line in expected {
        ensure!(changed.contains(&line), "{line:?} is missing in {said}");
    }
    ensure!(said.lines().count() > 20, "that is not all: {said}");
    Ok(())
}

#[test]
fn a_release_is_not_made_with_a_tag_of_its_own_nor_for_an_unknown_machine() -> anyhow::Result<()> {
    for (name, value, reason) in [
        ("IMAGE", "registry.example/windlass:1", "leave the tag out"),
        ("ARCHITECTURES", "riscv64", "amd64 and arm64 are known"),
    ] {
        let script = workspace().join("manifests/release/build");
        let output = Command::new(script).env(name, value).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1) && said.contains(reason), "{name}={value}: {said}");
    }
    Ok(())
}

/// What stands for a binary that does not start, and one that is for another machine.
#[test]
fn a_binary_that_is_not_the_release_is_refused() -> anyhow::Result<()> {
    let starts = |binary: &Path, arch: &str, version: &str| -> anyhow::Result<String> {
        let mut command = Command::new(workspace().join("manifests/release/starts"));
        let output = command.arg(binary).args([arch, version, "0a1b"]).output()?;
        ensure!(!output.status.success(), "{} for {arch} is taken", binary.display());
        Ok(String::from_utf8(output.stderr)?)
    };
    let binary = windlass_binary()?;
    let said = starts(&binary, architecture(), "0.0.0")?;
    ensure!(said.contains("does not say \"version\": \"0.0.0\""), "{said}");
    let other = if architecture() == "amd64" { "arm64" } else { "amd64" };
    let said = starts(&binary, other, env!("CARGO_PKG_VERSION"))?;
    ensure!(said.contains(&format!("no program for {other}")), "{said}");
    let said = starts(Path::new("/bin/false"), architecture(), env!("CARGO_PKG_VERSION"))?;
    ensure!(said.contains("does not start"), "{said}");
    Ok(())
}

//! The scripts behind the commands: what they say when something is missing. Nothing is built, nothing is installed.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context as _, ensure};
use windlass_e2e::workspace;

/// What the scripts use of any system; a test decides whether there is more.
const BASICS: &str = "bash cat cut dirname env flock head id mkdir rm sed setsid sha256sum sort uname";

/// A machine with few programs: a folder of them, and an empty cache.
struct Machine(PathBuf);

impl Machine {
    fn new(name: &str) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("windlass-commands-{}-{name}", std::process::id()));
        fs::create_dir_all(folder.join("bin"))?;
        let machine = Self(folder);
        for program in BASICS.split(' ') {
            let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
                .map(|folder| folder.join(program))
                .find(|path| path.is_file());
            let found = found.with_context(|| format!("this machine has no {program}"))?;
            symlink(found, machine.0.join("bin").join(program))?;
        }
        Ok(machine)
    }

    /// Adds a program that is a shell script.
    fn program(&self, path: &str, script: &str) -> anyhow::Result<()> {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().context("no folder")?)?;
        fs::write(&path, format!("#!/bin/sh\n{script}\n"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    fn run(&self, script: &str) -> anyhow::Result<Output> {
        let mut command = Command::new(workspace().join(script));
        command.env("PATH", self.0.join("bin")).env("WINDLASS_CACHE", self.0.join("cache"));
        command.env_remove("KUBEBUILDER_ASSETS").output().with_context(|| format!("starting {script}"))
    }

    /// Runs a script that fails with one line that has all these parts.
    fn refuses(&self, script: &str, parts: &[&str]) -> anyhow::Result<()> {
        let output = self.run(script)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1), "{script}: {}: {said}", output.status);
        ensure!(said.lines().count() == 1, "{script} says more than a sentence:\n{said}");
        for part in parts {
            ensure!(said.contains(part), "{script}: {part:?} is missing in: {said}");
        }
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn without_cargo_rustup_is_named() -> anyhow::Result<()> {
    Machine::new("cargo")?.refuses("e2e/tools/prepare", &["no cargo in PATH", "https://rustup.rs"])
}

#[test]
fn without_go_its_version_and_place_are_named() -> anyhow::Result<()> {
    Machine::new("go")?.refuses("e2e/tools/build", &["no go in PATH", "Go 1.", "https://go.dev"])
}

#[test]
fn a_go_that_is_too_old_is_named_with_its_version() -> anyhow::Result<()> {
    let machine = Machine::new("old-go")?;
    // As Go 1.19 within a module that it cannot read, and outside.
    machine.program("bin/go", r#"[ "$PWD" = / ] || exit 1; echo go1.19.8"#)?;
    machine.refuses("e2e/tools/build", &["1.19.8", "too old", "https://go.dev"])
}

#[test]
fn a_failed_build_names_the_program_and_leaves_no_part_of_it() -> anyhow::Result<()> {
    let machine = Machine::new("failed-build")?;
    // Writes something to the file after -o, as a build that is broken off does.
    machine.program(
        "bin/go",
        r#"if [ "$1" = env ]; then echo go1.99.0; exit; fi; until [ "$1" = -o ]; do shift; done; echo x >"$2"; echo no room >&2; exit 1"#,
    )?;
    for program in ["sleep", "mv"] {
        symlink(Path::new("/bin").join(program), machine.0.join("bin").join(program))?;
    }
    let output = machine.run("e2e/tools/build")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1), "{}: {said}", output.status);
    ensure!(said.contains("no room") && said.contains("building kube-apiserver failed"), "{said}");
    let tools = fs::read_dir(machine.0.join("cache/tools"))?.flatten().find(|entry| entry.path().is_dir());
    let tools = tools.context("no folder was made")?.path();
    ensure!(fs::read_dir(&tools)?.count() == 0, "{} is not empty", tools.display());
    Ok(())
}

// shows: threats T-25
#[test]
fn advisories_are_checked_where_they_can_be_had_and_elsewhere_it_says_so_and_goes_on() -> anyhow::Result<()> {
    let machine = Machine::new("advisories")?;
    machine.program("bin/timeout", r#"shift; exec "$@""#)?;
    machine.program("bin/make", r#"echo "make $*"; exit 7"#)?;
    machine.program("bin/git", "exit 128")?;
    let output = machine.run("e2e/tools/advisories")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {said}", output.status);
    ensure!(said.contains("NOT checked") && said.contains("make deny ADVISORIES=1"), "{said}");
    ensure!(output.stdout.is_empty(), "it went on to check");
    machine.program("bin/git", "exit 0")?;
    let output = machine.run("e2e/tools/advisories")?;
    ensure!(output.status.code() == Some(7), "what the check says counts: {}", output.status);
    ensure!(output.stdout == b"make deny ADVISORIES=1\n", "{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

#[test]
fn every_script_is_one_that_its_shell_can_read() -> anyhow::Result<()> {
    for folder in ["e2e/tools", "manifests/image", "manifests/release", "manifests/chart", ".ci"] {
        for entry in fs::read_dir(workspace().join(folder))?.flatten() {
            // (A folder among them has modules of another version.)
            let is_script = entry.file_type()?.is_file() && fs::read(entry.path())?.starts_with(b"#!");
            if !is_script {
                continue;
            }
            let output = Command::new("bash").arg("-n").arg(entry.path()).output()?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{}: {said}", entry.path().display());
        }
    }
    Ok(())
}

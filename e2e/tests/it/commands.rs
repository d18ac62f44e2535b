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

/// Clone of a repository with the scripts that build the binary, beside a stub of cargo that records the commit that it gets.
struct Clone(Machine);

impl Clone {
    const TARGET: &str = "x86_64-unknown-linux-gnu";

    fn new(name: &str) -> anyhow::Result<Self> {
        let clone = Self(Machine::new(name)?);
        for script in ["binary", "commit"] {
            let script = format!("manifests/image/{script}");
            let to = clone.folder().join(&script);
            fs::create_dir_all(to.parent().context("no folder")?)?;
            fs::copy(workspace().join(&script), to)?;
        }
        // Like the build it leaves a binary, in the folder that follows --target-dir.
        clone.0.program(
            "stubs/cargo",
            &format!(
                r#"echo "${{WINDLASS_COMMIT-none}} ${{SOURCE_DATE_EPOCH-none}}" >"$BUILDS"
until [ "$1" = --target-dir ]; do shift; done
mkdir -p "$2/{0}/release"; echo built >"$2/{0}/release/windlass"; chmod +x "$2/{0}/release/windlass""#,
                Self::TARGET
            ),
        )?;
        for stub in ["readelf", "rustc", "cc", "aarch64-linux-gnu-gcc", "x86_64-linux-gnu-gcc"] {
            clone.0.program(&format!("stubs/{stub}"), "true")?;
        }
        Ok(clone)
    }

    fn folder(&self) -> PathBuf {
        self.0.0.join("clone")
    }

    /// A command with the stubs, without the settings of this process and of this user's git.
    fn command(&self, program: &Path) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command.current_dir(self.folder());
        command.env("PATH", format!("{}:{path}", self.0.0.join("stubs").display()));
        command.env("HOME", &self.0.0).env("WINDLASS_CACHE", self.0.0.join("cache"));
        command.env("BUILDS", self.0.0.join("builds"));
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CEILING_DIRECTORIES", &self.0.0);
        let settings =
            ["WINDLASS_COMMIT", "SOURCE_DATE_EPOCH", "WINDLASS_IMAGE", "CARGO_TARGET_DIR", "CC", "GIT_DIR"];
        for name in settings.into_iter().chain(["GIT_WORK_TREE", "GIT_INDEX_FILE", "XDG_CONFIG_HOME"]) {
            command.env_remove(name);
        }
        command
    }

    fn git(&self, args: &[&str]) -> anyhow::Result<String> {
        let mut command = self.command(Path::new("git"));
        command.args(["-c", "user.name=a", "-c", "user.email=a@example.com"]).args(args);
        let output = command.output().context("git")?;
        ensure!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// Writes a file and commits all; returns the commit and its time.
    fn commit(&self, file: &str) -> anyhow::Result<String> {
        self.write(file, "committed")?;
        self.git(&["add", "."])?;
        self.git(&["commit", "--quiet", "--message", file])?;
        self.git(&["log", "-1", "--format=%H %ct"])
    }

    fn write(&self, file: &str, text: &str) -> anyhow::Result<()> {
        let path = self.folder().join(file);
        fs::create_dir_all(path.parent().context("no folder")?)?;
        Ok(fs::write(path, text)?)
    }

    /// Runs the script. Returns the commit and the time that cargo got; nothing where it was not called.
    fn build(&self, settings: &[(&str, &str)]) -> anyhow::Result<String> {
        let builds = self.0.0.join("builds");
        fs::write(&builds, "")?;
        let mut command = self.command(&self.folder().join("manifests/image/binary"));
        let output = command.arg(Self::TARGET).envs(settings.iter().copied()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {said}", output.status);
        let built = String::from_utf8(output.stdout)?;
        ensure!(fs::read_to_string(built.trim())? == "built\n", "{built} is no binary: {said}");
        Ok(fs::read_to_string(builds)?.trim().to_owned())
    }
}

#[test]
fn a_binary_is_built_with_the_last_commit_of_the_clone_that_changed_its_sources() -> anyhow::Result<()> {
    let clone = Clone::new("version")?;
    let built = clone.build(&[])?;
    ensure!(built == "none none", "without a repository, as in an archive of the sources: {built}");
    clone.write(".gitignore", "/target\n")?;
    clone.git(&["init", "--quiet"])?;
    let first = clone.commit("vrrp/src/lib.rs")?;
    let given = [("WINDLASS_COMMIT", "given"), ("SOURCE_DATE_EPOCH", "1")];
    for (what, settings, expected) in [
        ("in a clone", &[][..], first.as_str()),
        ("the same commit again: taken from the cache", &[], ""),
        ("a commit that is given", &given, "given 1"),
    ] {
        let built = clone.build(settings)?;
        ensure!(built == expected, "{what}: {built:?}, not {expected:?}");
    }
    for unrelated in ["docs/page.md", "vrrp/src/tests.rs", "vrrp/tests/it/main.rs"] {
        clone.commit(unrelated)?;
        let built = clone.build(&[])?;
        ensure!(built.is_empty(), "{unrelated} is no part of the binary, which is built again: {built}");
    }
    clone.write("ccm/src/lib.rs", "not committed")?;
    let (commit, time) = first.split_once(' ').context("a commit and its time")?;
    let built = clone.build(&[])?;
    ensure!(built == format!("{commit}-dirty {time}"), "with changes that are not committed: {built}");
    let second = clone.commit("ccm/src/lib.rs")?;
    let built = clone.build(&[])?;
    ensure!(built == second && built != first, "after another commit: {built}");
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

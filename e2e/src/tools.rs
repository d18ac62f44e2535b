//! Finds the lab's programs, and checks if this machine can run a lab.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail, ensure};
use serde::Serialize;
use serde_json::Value;

/// Programs that come from the distribution's packages (`e2e/tools/packages` installs them), with the package's name.
const FROM_PACKAGES: [(&str, &str); 9] = [
    ("etcd", "etcd-server"),
    ("nft", "nftables"),
    ("ip", "iproute2"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("openssl", "openssl"),
    ("curl", "curl"),
    ("arping", "iputils-arping"),
    ("bash", "bash"),
];
/// Programs that only real nodes need.
const FOR_KUBELETS: [(&str, &str); 3] = [("runc", "runc"), ("conntrack", "conntrack"), ("tar", "tar")];
/// Folder of the CNI plugins on Debian and Ubuntu.
pub(crate) const CNI_PLUGINS: &str = "/usr/lib/cni";

/// The folder of the Kubernetes programs.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// Finds the programs, building those of Kubernetes on first use (about 10 minutes on 2 cores, progress on standard
    /// error), and checks what the machine must have.
    pub(crate) fn find(light: bool) -> anyhow::Result<Self> {
        ensure!(nix::unistd::Uid::effective().is_root(), NOT_ROOT);
        let kubelets = if light { &[] } else { FOR_KUBELETS.as_slice() };
        let missing: Vec<String> = FROM_PACKAGES
            .iter()
            .chain(kubelets)
            .filter(|(program, _)| !on_path(program))
            .map(|(program, package)| format!("{program} (package {package})"))
            .collect();
        ensure!(missing.is_empty(), "the lab needs {}: run e2e/tools/packages", missing.join(", "));
        if !light {
            let plugin = Path::new(CNI_PLUGINS).join("host-local");
            ensure!(
                plugin.exists(),
                "the lab needs {} (package containernetworking-plugins): run e2e/tools/packages",
                plugin.display()
            );
            let systems = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
            ensure!(
                systems.contains("overlay"),
                "this kernel has no overlayfs, which nodes with containers need"
            );
        }
        Ok(Self { folder: built(&[])? })
    }

    /// Path of one of the Kubernetes programs.
    pub(crate) fn path(&self, program: &str) -> String {
        self.folder.join(program).display().to_string()
    }

    /// The folder of all of them.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Builds a set of programs where that is not done yet, and returns their folder.
fn built(set: &[&str]) -> anyhow::Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/build");
    let output = Command::new(&script)
        .args(set)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting {}", script.display()))?;
    ensure!(output.status.success(), "{} failed; its lines above say why", script.display());
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// Helm, built on first use.
pub fn helm() -> anyhow::Result<PathBuf> {
    Ok(built(&["helm"])?.join("helm"))
}

/// flannel's daemon, built on first use.
pub(crate) fn flanneld() -> anyhow::Result<PathBuf> {
    Ok(built(&["flannel"])?.join("flanneld"))
}

/// The lab's kubectl, built on first use: for what needs no lab.
pub fn kubectl() -> anyhow::Result<PathBuf> {
    Ok(built(&[])?.join("kubectl"))
}

/// Reason why the lab does not run for an ordinary user.
pub(crate) const NOT_ROOT: &str = "the lab makes network, PID and mount namespaces and needs root: run it with sudo (keep HOME, the tools are cached there)";

/// Cargo's target folder of this workspace.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => workspace().join("target"),
    }
}

/// Folder of the image and its binary: `make image` writes there, wherever cargo's target folder is.
fn image() -> PathBuf {
    workspace().join("target/image")
}

/// The image that `make image` makes.
pub fn image_archive() -> PathBuf {
    image().join("windlass.tar")
}

/// Gives a file or folder that root has written to the user whose checkout this is, so that it is in nobody's way.
pub fn give_back(path: &Path) -> anyhow::Result<()> {
    let owner = std::fs::metadata(workspace()).context("reading the folder of the workspace")?;
    if owner.uid() == nix::unistd::Uid::effective().as_raw() || !path.exists() {
        return Ok(());
    }
    let owner = format!("{}:{}", owner.uid(), owner.gid());
    let output =
        Command::new("chown").args(["--recursive", "--no-dereference", &owner]).arg(path).output()?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "giving {} to its user: {}", path.display(), complaints.trim());
    Ok(())
}

/// Writes a benchmark's rows to `target/bench/NAME.json` and returns that path.
pub fn write_rows(name: &str, rows: &impl Serialize) -> anyhow::Result<PathBuf> {
    let folder = target().join("bench");
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let file = folder.join(format!("{name}.json"));
    std::fs::write(&file, serde_json::to_string_pretty(rows)? + "\n")
        .with_context(|| format!("writing {}", file.display()))?;
    give_back(&folder)?;
    Ok(file)
}

/// The same, beside rows in the file that are not `ours`: those of another benchmark.
pub fn write_rows_beside(
    name: &str,
    rows: &[impl Serialize],
    is_ours: impl Fn(&Value) -> bool,
) -> anyhow::Result<PathBuf> {
    let file = target().join(format!("bench/{name}.json"));
    let mut all = rows.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
    if let Ok(bytes) = std::fs::read(&file) {
        let earlier: Vec<Value> =
            serde_json::from_slice(&bytes).with_context(|| format!("reading {}", file.display()))?;
        all.extend(earlier.into_iter().filter(|row| !is_ours(row)));
    }
    write_rows(name, &all)
}

/// The folder of the workspace.
pub fn workspace() -> PathBuf {
    let e2e = Path::new(env!("CARGO_MANIFEST_DIR"));
    e2e.parent().unwrap_or(e2e).to_path_buf()
}

/// The windlass binary: `$WINDLASS_BIN`, or the static one of `make image`, or the debug build.
pub fn windlass_binary() -> anyhow::Result<PathBuf> {
    if let Some(named) = std::env::var_os("WINDLASS_BIN").map(PathBuf::from) {
        ensure!(named.is_file(), "WINDLASS_BIN is {}, which is no file", named.display());
        return Ok(std::path::absolute(named)?);
    }
    let places = [image().join("windlass"), target().join("debug/windlass")];
    match places.iter().find(|place| place.is_file()) {
        Some(found) => Ok(found.clone()),
        None => {
            bail!("no windlass binary: run 'make image' or 'cargo build -p windlass', or set WINDLASS_BIN")
        }
    }
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

//! A parent cgroup per lab, in each hierarchy the machine has (v1 or v2), so that what containers leave can be found
//! and removed. Control groups are the one thing that a namespace's end does not take along.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use nix::unistd::Pid;

const MOUNT: &str = "/sys/fs/cgroup";
const ALL_LABS: &str = "windlass-lab";

/// The lab's cgroup, `/windlass-lab/<name>-<pid of the owner>` in each hierarchy.
#[derive(Debug)]
pub(crate) struct Cgroup {
    name: String,
}

impl Cgroup {
    /// Names the cgroup of a lab and removes those of labs whose owner is dead. Folders are made by [`Self::of_runtime`].
    pub(crate) fn make(lab: &str) -> anyhow::Result<Self> {
        for hierarchy in hierarchies() {
            for folder in folders(&hierarchy.join(ALL_LABS)) {
                let name = folder.file_name().unwrap_or_default().to_string_lossy();
                let owner = name.rsplit_once('-').and_then(|(_, pid)| pid.parse::<u32>().ok());
                if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                    remove_tree(&folder);
                }
            }
        }
        Ok(Self { name: format!("{lab}-{}", Pid::this()) })
    }

    /// Makes the cgroup of a node's container runtime in each hierarchy and returns the folders. Containers, whose
    /// kubelet gives them no parent, get cgroups beside (v2) or below (v1) that of their runtime.
    pub(crate) fn of_runtime(&self, node: &str) -> anyhow::Result<Vec<PathBuf>> {
        hierarchies()
            .into_iter()
            .map(|hierarchy| {
                let mut folder = hierarchy;
                for level in [ALL_LABS, &self.name, node, "runtime"] {
                    let parent = folder.clone();
                    folder.push(level);
                    fs::create_dir_all(&folder)
                        .with_context(|| format!("making the cgroup {}", folder.display()))?;
                    inherit_cpuset(&parent, &folder);
                }
                Ok(folder)
            })
            .collect()
    }

    /// The processes of a node's container runtime and its containers.
    pub(crate) fn processes(&self, node: &str) -> Vec<Pid> {
        let mut found = Vec::new();
        for hierarchy in hierarchies() {
            collect(&hierarchy.join(ALL_LABS).join(&self.name).join(node), &mut found);
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let limit = Instant::now() + Duration::from_secs(5);
        loop {
            let mut gone = true;
            for hierarchy in hierarchies() {
                gone &= remove_tree(&hierarchy.join(ALL_LABS).join(&self.name));
                // Succeeds for the last lab only.
                let _ = fs::remove_dir(hierarchy.join(ALL_LABS));
            }
            if gone || Instant::now() > limit {
                return;
            }
            // A cgroup is busy until the kernel has buried its last process.
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The mounted hierarchies: those of v1 by controller, or the one of v2.
fn hierarchies() -> Vec<PathBuf> {
    if Path::new(MOUNT).join("cgroup.controllers").exists() {
        return vec![PathBuf::from(MOUNT)];
    }
    let v1 = folders(Path::new(MOUNT)).into_iter();
    v1.filter(|folder| !folder.is_symlink() && folder.join("cgroup.procs").exists()).collect()
}

/// A new cpuset of v1 takes no process before it has processors and memory; it gets its parent's.
fn inherit_cpuset(parent: &Path, child: &Path) {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        if let (Ok(own), Ok(inherited)) =
            (fs::read_to_string(child.join(file)), fs::read_to_string(parent.join(file)))
            && own.trim().is_empty()
        {
            // What fails here shows when a process is put into it.
            let _ = fs::write(child.join(file), inherited.trim());
        }
    }
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(of) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// Removes a cgroup and those below it; tells whether it is gone.
fn remove_tree(folder: &Path) -> bool {
    for below in folders(folder) {
        remove_tree(&below);
    }
    fs::remove_dir(folder).is_ok() || !folder.exists()
}

fn collect(folder: &Path, found: &mut Vec<Pid>) {
    for below in folders(folder) {
        collect(&below, found);
    }
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    found.extend(text.lines().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw));
}

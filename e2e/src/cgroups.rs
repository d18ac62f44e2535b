//! A cgroup per lab, in each hierarchy the machine has (v1 or v2), which is the root of the lab's cgroup namespace: what
//! containers leave can be found and removed. Cgroups are the one thing that a namespace's end does not take along.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use nix::unistd::Pid;

const MOUNT: &str = "/sys/fs/cgroup";
const ALL_LABS: &str = "windlass-lab";
/// Cgroup of all processes of a lab that do not run in a container.
const DAEMONS: &str = "daemons";

/// The lab's cgroup, `/windlass-lab/<name>-<pid of the owner>` in each hierarchy. The light variant runs no containers and
/// makes none: its processes keep what the owner may do (real-time scheduling needs a share that a new cgroup lacks).
#[derive(Debug)]
pub(crate) struct Cgroup {
    name: String,
    /// In each hierarchy.
    folders: Vec<PathBuf>,
}

impl Cgroup {
    /// Makes the cgroup of a lab that runs containers, and removes those of labs whose owner is dead.
    pub(crate) fn make(lab: &str, light: bool) -> anyhow::Result<Self> {
        let mut dead: Vec<String> = hierarchies()
            .iter()
            .flat_map(|hierarchy| folders(&hierarchy.join(ALL_LABS)))
            .filter_map(|folder| Some(folder.file_name()?.to_str()?.to_owned()))
            .filter(|name| {
                let owner = name.rsplit_once('-').and_then(|(_, pid)| pid.parse::<u32>().ok());
                owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
            })
            .collect();
        dead.sort_unstable();
        dead.dedup();
        for name in dead {
            remove(&name);
        }
        let _locked = lock().context("locking /sys/fs/cgroup against other labs")?;
        let mut cgroup = Self { name: format!("{lab}-{}", Pid::this()), folders: Vec::new() };
        for hierarchy in if light { Vec::new() } else { hierarchies() } {
            let mut folder = hierarchy;
            for level in [ALL_LABS, &cgroup.name, DAEMONS] {
                let parent = folder.clone();
                folder.push(level);
                fs::create_dir_all(&folder)
                    .with_context(|| format!("making the cgroup {}", folder.display()))?;
                inherit_cpuset(&parent, &folder);
            }
            folder.pop();
            cgroup.folders.push(folder);
        }
        Ok(cgroup)
    }

    /// The folders of the cgroup that is the root of the lab's cgroup namespace, one per hierarchy.
    pub(crate) fn roots(&self) -> &[PathBuf] {
        &self.folders
    }

    /// Moves a process from the root to a cgroup below it. In v2, a cgroup with processes of its own cannot divide resources
    /// among those below it, which runc asks of it.
    pub(crate) fn move_below(&self, pid: Pid) -> anyhow::Result<()> {
        for root in &self.folders {
            let file = root.join(DAEMONS).join("cgroup.procs");
            fs::write(&file, pid.to_string())
                .with_context(|| format!("writing {pid} to {}", file.display()))?;
        }
        Ok(())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Removes the cgroup of a lab whose processes are dead or dying, everywhere.
fn remove(name: &str) {
    let limit = Instant::now() + Duration::from_secs(10);
    loop {
        let mut gone = true;
        let locked = lock();
        for hierarchy in hierarchies() {
            gone &= remove_tree(&hierarchy.join(ALL_LABS).join(name));
            // Succeeds for the last lab only.
            let _ = fs::remove_dir(hierarchy.join(ALL_LABS));
        }
        drop(locked);
        if gone || Instant::now() > limit {
            return;
        }
        // A cgroup is busy until the kernel has buried its last process, which takes the lab's memory with it.
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Held while cgroups are made or removed: the folder of all labs must not go while another lab makes its own in it.
fn lock() -> std::io::Result<File> {
    let file = File::open(MOUNT)?;
    file.lock()?;
    Ok(file)
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

/// Removes a cgroup and its descendants; returns true if it is gone.
fn remove_tree(folder: &Path) -> bool {
    for below in folders(folder) {
        remove_tree(&below);
    }
    fs::remove_dir(folder).is_ok() || !folder.exists()
}

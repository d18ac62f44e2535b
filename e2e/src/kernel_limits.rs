//! Limits that all network namespaces of a machine share, raised while many nodes are in namespaces of one.

use std::{fs, path::PathBuf};

use anyhow::Context as _;

/// Neighbours that all nodes together know, for each to know each other; 1024 by itself. Beyond it the kernel refuses adverts, too.
const NEIGHBOURS: &str = "65536";
/// Packets that wait for a processor: an advert comes to each node at once. 1000 by itself.
const BACKLOG: &str = "100000";
const SETTINGS: [(&str, &str); 7] = [
    ("ipv4/neigh/default/gc_thresh3", NEIGHBOURS),
    ("ipv4/neigh/default/gc_thresh2", NEIGHBOURS),
    ("ipv4/neigh/default/gc_thresh1", NEIGHBOURS),
    ("ipv6/neigh/default/gc_thresh3", NEIGHBOURS),
    ("ipv6/neigh/default/gc_thresh2", NEIGHBOURS),
    ("ipv6/neigh/default/gc_thresh1", NEIGHBOURS),
    ("core/netdev_max_backlog", BACKLOG),
];

/// Raised as long as it lives, if it is not forgotten by a process that is killed.
pub struct KernelLimits {
    before: Vec<(PathBuf, String)>,
}

impl KernelLimits {
    /// Raises them. To be called outside of the lab: only the machine's own network namespace shows them.
    pub fn raise() -> anyhow::Result<Self> {
        let mut limits = Self { before: Vec::new() };
        for (name, value) in SETTINGS {
            let path = PathBuf::from("/proc/sys/net").join(name);
            // A kernel without IPv6.
            if name.starts_with("ipv6/") && !path.exists() {
                continue;
            }
            let before = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            fs::write(&path, value).with_context(|| format!("writing {value} to {}", path.display()))?;
            limits.before.push((path, before));
        }
        Ok(limits)
    }
}

impl Drop for KernelLimits {
    fn drop(&mut self) {
        for (path, before) in self.before.iter().rev() {
            if let Err(error) = fs::write(path, before) {
                eprintln!("lab: {} stays at its raised value: {error}", path.display());
            }
        }
    }
}

//! Whether this node has a kube-proxy, remembered beside the state: silence means something only where somebody spoke before.
//!
//! A node without one (Cilium and others replace it) is never judged by it. One whose kube-proxy answered before it was rebooted
//! has no rules until kube-proxy is back, and must not be preferred until then. After a restart of the agent alone they are there.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::check::{Check, Patience};

/// Holds the boot id of the last time that kube-proxy answered.
const FILE: &str = "kube-proxy-answered";
/// Linux says here which boot this is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What is remembered.
#[derive(Debug)]
pub(super) struct KubeProxyMemory {
    file: PathBuf,
    boot: String,
    /// The boot in which it answered last.
    answered_in: Option<String>,
}

impl KubeProxyMemory {
    /// What the folder of the state has.
    pub(super) fn open(folder: &Path) -> Self {
        Self::of_boot(folder, fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned())
    }

    pub(super) fn of_boot(folder: &Path, boot: String) -> Self {
        let file = folder.join(FILE);
        let answered_in = fs::read_to_string(&file).ok().map(|text| text.trim().to_owned());
        Self { file, boot, answered_in }
    }

    /// The check as it begins.
    pub(super) fn check(&self, patience: Patience, now: Instant) -> Check {
        match &self.answered_in {
            None => Check::new(patience),
            Some(boot) if *boot == self.boot => Check::passing(patience),
            Some(_) => Check::failing(patience, "it has not answered since this machine was started", now),
        }
    }

    /// kube-proxy is there.
    pub(super) fn note_answer(&mut self) {
        if self.answered_in.as_ref() == Some(&self.boot) {
            return;
        }
        if let Err(error) = fs::write(&self.file, &self.boot) {
            tracing::warn!(file = %self.file.display(), %error,
                "cannot note that kube-proxy answered: after a reboot this node will not wait for it");
        }
        self.answered_in = Some(self.boot.clone());
    }
}

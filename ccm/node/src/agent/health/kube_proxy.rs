//! Record, stored beside the state, that kube-proxy answered on this node: silence counts only after a first answer.
//!
//! A node without kube-proxy (Cilium and others replace it) is never judged by it. A node whose kube-proxy answered before a reboot has no
//! rules until kube-proxy is back, and must not be preferred until then. After a restart of the agent alone the rules are still there.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::check::{Check, Patience};

/// Name of the file with the boot id of kube-proxy's last answer.
const FILE: &str = "kube-proxy-answered";
/// Kernel file with the id of the current boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Stored boot id of kube-proxy's last answer.
#[derive(Debug)]
pub(super) struct KubeProxyMemory {
    file: PathBuf,
    boot: String,
    /// Boot in which it answered last.
    answered_in: Option<String>,
}

impl KubeProxyMemory {
    /// Reads the file in the folder of the state.
    pub(super) fn open(folder: &Path) -> Self {
        Self::of_boot(folder, fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned())
    }

    pub(super) fn of_boot(folder: &Path, boot: String) -> Self {
        let file = folder.join(FILE);
        let answered_in = fs::read_to_string(&file).ok().map(|text| text.trim().to_owned());
        Self { file, boot, answered_in }
    }

    /// Returns the initial check.
    pub(super) fn check(&self, patience: Patience, now: Instant) -> Check {
        match &self.answered_in {
            None => Check::new(patience),
            Some(boot) if *boot == self.boot => Check::passing(patience),
            Some(_) => Check::failing(patience, "it has not answered since this machine was started", now),
        }
    }

    /// Records that kube-proxy answered.
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

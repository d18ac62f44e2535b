//! Failing checks of Announcements, stored beside the state. Without them an agent that restarts on a node that cannot serve would take its
//! addresses there until the checks have failed again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use windlass_api::NodeCheck;

/// Holds the checks as JSON.
const FILE: &str = "failed-checks.json";

/// Failing checks and the file that stores them.
#[derive(Debug)]
pub(super) struct FailedMemory {
    file: PathBuf,
    failed: BTreeSet<NodeCheck>,
}

impl FailedMemory {
    /// Reads the file in the folder of the state. An unreadable file counts as empty.
    pub(super) fn open(folder: &Path) -> Self {
        let file = folder.join(FILE);
        let failed = fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok());
        Self { file, failed: failed.unwrap_or_default() }
    }

    /// Returns the checks that failed when the file was written.
    pub(super) fn failed(&self) -> &BTreeSet<NodeCheck> {
        &self.failed
    }

    /// Replaces and stores the set of failing checks.
    pub(super) fn set(&mut self, failed: BTreeSet<NodeCheck>) {
        if self.failed == failed {
            return;
        }
        let written = serde_json::to_vec(&failed)
            .map_err(std::io::Error::from)
            .and_then(|text| fs::write(&self.file, text));
        if let Err(error) = written {
            tracing::warn!(file = %self.file.display(), %error,
                "cannot note which checks fail: an agent that is restarted finds out again");
        }
        self.failed = failed;
    }
}

//! The checks of Announcements that fail, remembered beside the state: an agent that is restarted on a node that cannot serve would
//! take its addresses there until it has found out again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use windlass_api::NodeCheck;

/// Holds the checks as JSON.
const FILE: &str = "failed-checks.json";

/// What is remembered.
#[derive(Debug)]
pub(super) struct FailedMemory {
    file: PathBuf,
    failed: BTreeSet<NodeCheck>,
}

impl FailedMemory {
    /// What the folder of the state has. A file that cannot be read says nothing.
    pub(super) fn open(folder: &Path) -> Self {
        let file = folder.join(FILE);
        let failed = fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok());
        Self { file, failed: failed.unwrap_or_default() }
    }

    /// The checks that failed when it was written.
    pub(super) fn failed(&self) -> &BTreeSet<NodeCheck> {
        &self.failed
    }

    /// These fail.
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

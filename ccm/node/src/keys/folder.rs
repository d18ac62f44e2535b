//! Reads the folder of the keys, and logs each of its faults once.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_ccm::files::WatchedFile;

use super::{FolderContent, Keys};

/// Folder in which the Secret is mounted, and the keys read from it.
#[derive(Debug)]
pub(crate) struct KeyFolder {
    path: PathBuf,
    keys: Arc<Keys>,
    /// Current warnings, each of which was logged once.
    told: BTreeSet<String>,
}

impl KeyFolder {
    /// Reads the folder for the first time. A missing folder is no fault: signing is optional.
    pub(crate) fn open(path: PathBuf) -> Self {
        let mut folder = Self { path, keys: Arc::default(), told: BTreeSet::new() };
        folder.refresh(&BTreeSet::new());
        folder
    }

    /// Returns the keys that this node has.
    pub(crate) fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    /// Reads the folder again; `used`: keys with which this node's virtual routers sign. Returns true if the keys changed. Reading a few
    /// small files takes no time that matters.
    pub(crate) fn refresh(&mut self, used: &BTreeSet<u8>) -> bool {
        let content = read(&self.path);
        let new = self.keys.renewed(&content, used);
        for id in self.keys.replaced(&new, used) {
            tracing::warn!(id, folder = %self.path.display(),
                "a VRRP key in use has another secret now: nodes that do not have it yet become Active, too, until they do; \
                 give a new secret an id of its own");
        }
        let warnings = new.warnings(&self.path, &content, used);
        for warning in warnings.difference(&self.told) {
            tracing::warn!("{warning}");
        }
        self.told = warnings;
        let is_new = new != *self.keys;
        if is_new {
            let ids: Vec<u8> = new.known.keys().map(|id| id.get()).collect();
            tracing::info!(?ids, folder = %self.path.display(), "this node has these VRRP keys");
            self.keys = Arc::new(new);
        }
        is_new
    }
}

pub(super) fn read(folder: &Path) -> FolderContent {
    match entries(folder) {
        Ok(content) => content,
        Err(error) if error.kind() == ErrorKind::NotFound => FolderContent::default(),
        Err(error) => FolderContent::unreadable(error.to_string()),
    }
}

fn entries(folder: &Path) -> io::Result<FolderContent> {
    let mut content = FolderContent::default();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let file = WatchedFile::open(entry.path());
        content.add(&name.to_string_lossy(), file.content().map_err(|error| error.reason));
    }
    Ok(content)
}

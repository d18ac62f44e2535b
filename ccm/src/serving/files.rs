//! Files that are read again when they change. Their content is compared, not their time: a Secret's files are links.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time between two looks.
pub(crate) const PERIOD: Duration = Duration::from_secs(10);

/// What another look at a file shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    /// Nothing new.
    Not,
    /// This content.
    To(Vec<u8>),
    /// It cannot be read; said once until it can.
    Unreadable(String),
}

/// A file and what was last seen of it.
#[derive(Debug)]
pub(crate) struct WatchedFile {
    path: PathBuf,
    seen: Option<Result<Vec<u8>, String>>,
}

impl WatchedFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, seen: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Looks at it.
    pub(crate) async fn read(&mut self) -> Changed {
        let found = tokio::fs::read(&self.path).await;
        let found = found.map_err(|error| format!("cannot read {}: {error}", self.path.display()));
        if self.seen.as_ref() == Some(&found) {
            return Changed::Not;
        }
        self.seen = Some(found.clone());
        match found {
            Ok(content) => Changed::To(content),
            Err(error) => Changed::Unreadable(error),
        }
    }

    /// What was last seen.
    pub(crate) fn seen(&self) -> Result<&[u8], String> {
        match &self.seen {
            Some(Ok(content)) => Ok(content),
            Some(Err(error)) => Err(error.clone()),
            None => Err(format!("{} was not read yet", self.path.display())),
        }
    }
}

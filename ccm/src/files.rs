//! Files that are read again when they change. Their content is compared, not their time: a mounted Secret or ConfigMap
//! changes by a symbolic link to another folder, which a watch on the file would not see.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Time between two reads of a file.
pub const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// No file is longer, in bytes: neither a Secret nor a ConfigMap can be.
const MOST: u64 = 1 << 20;

/// Error of a file that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {}: {reason}", path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// Error of the system, or fault of the file.
    pub reason: String,
}

/// A small file of this machine, and what was seen of it last.
#[derive(Debug)]
pub struct WatchedFile {
    path: PathBuf,
    seen: Result<Vec<u8>, FileError>,
}

impl WatchedFile {
    /// Reads the file for the first time.
    pub fn open(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { seen: read(&path), path }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the content of the last read.
    ///
    /// # Errors
    /// The error of the last read, if it failed.
    pub fn content(&self) -> Result<&[u8], FileError> {
        self.seen.as_deref().map_err(Clone::clone)
    }

    /// Reads it again; whether that shows anything new. That it cannot be read is new once.
    pub fn refresh(&mut self) -> bool {
        let found = read(&self.path);
        let is_new = found != self.seen;
        self.seen = found;
        is_new
    }

    /// Looks at it now and then; returns once there is something new. Dropped before, it misses nothing.
    pub async fn changed(&mut self) {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            if self.refresh() {
                return;
            }
        }
    }
}

/// Reading takes no time that matters: a pipe, which could make it wait for ever, is no file.
fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let wrong = |reason: String| FileError { path: path.to_owned(), reason };
    let text = |error: std::io::Error| wrong(error.to_string());
    if !std::fs::metadata(path).map_err(text)?.is_file() {
        return Err(wrong("it is no file".to_owned()));
    }
    let mut content = Vec::new();
    let length = File::open(path).map_err(text)?.take(MOST + 1).read_to_end(&mut content).map_err(text)?;
    if u64::try_from(length).is_ok_and(|length| length > MOST) {
        return Err(wrong(format!("it is longer than {MOST} bytes; is it the right file?")));
    }
    Ok(content)
}

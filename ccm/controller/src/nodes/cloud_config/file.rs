//! The file, read at the start and whenever it changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use windlass_ccm::files::{FileError, WatchedFile};

use super::CloudConfig;

/// Reason that the file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file does not exist, or cannot be read.
    #[error("cannot read --cloud-config {}: {}", .0.path.display(), .0.reason)]
    Unreadable(#[from] FileError),
    /// The content is invalid.
    #[error("--cloud-config {path} cannot be used: {reason}")]
    Invalid { path: PathBuf, reason: String },
}

/// A file that was read.
#[derive(Debug)]
pub struct ConfigFile(WatchedFile);

impl ConfigFile {
    /// Reads the file for the first time.
    pub fn open(path: &Path) -> Result<(Self, CloudConfig), ConfigError> {
        let file = WatchedFile::open(path);
        let config = parse(&file)?;
        Ok((Self(file), config))
    }

    /// Watches the file until `token` is cancelled, and hands over each new valid content; an error is logged once.
    pub(crate) async fn follow(mut self, take: impl Fn(Arc<CloudConfig>), token: CancellationToken) {
        loop {
            let changed = tokio::select! {
                () = token.cancelled() => return,
                changed = self.changed() => changed,
            };
            match changed {
                Ok(config) => {
                    tracing::info!(path = %self.0.path().display(), "the cloud config has changed, and is in force");
                    take(Arc::new(config));
                }
                Err(error) => {
                    tracing::error!(%error, "the last cloud config that was good stays in force");
                }
            }
        }
    }

    /// Waits for the file to change and returns its new configuration.
    pub(super) async fn changed(&mut self) -> Result<CloudConfig, ConfigError> {
        self.0.changed().await;
        parse(&self.0)
    }
}

fn parse(file: &WatchedFile) -> Result<CloudConfig, ConfigError> {
    let invalid = |reason: String| ConfigError::Invalid { path: file.path().to_owned(), reason };
    let text = str::from_utf8(file.content()?).map_err(|error| invalid(format!("it is no text: {error}")))?;
    CloudConfig::read(text).map_err(invalid)
}

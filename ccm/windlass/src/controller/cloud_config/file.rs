//! The file, read at the start and whenever it changes.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::CloudConfig;

/// How often the file is looked at. A mounted ConfigMap changes by a symbolic link to another folder, which a watch on the
/// file would not see.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// No file is longer, in bytes: a ConfigMap cannot be.
const MOST: u64 = 1 << 20;

/// Why the file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    /// It is not there, or not ours to read.
    #[error("cannot read --cloud-config {path}: {reason}")]
    Unreadable { path: PathBuf, reason: String },
    /// It does not say what it should.
    #[error("--cloud-config {path} cannot be used: {reason}")]
    Invalid { path: PathBuf, reason: String },
}

/// A file that was read.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    path: PathBuf,
    /// What was seen last: its text, or why there was none.
    seen: Result<String, ConfigError>,
}

impl ConfigFile {
    /// Reads the file for the first time.
    pub(crate) fn open(path: &Path) -> Result<(Self, CloudConfig), ConfigError> {
        let text = text_of(path)?;
        let config = parse(path, &text)?;
        Ok((Self { path: path.to_owned(), seen: Ok(text) }, config))
    }

    /// Looks at the file until `token` is cancelled, and hands over what is new and can be used; what cannot is told once.
    pub(crate) async fn follow(mut self, take: impl Fn(Arc<CloudConfig>), token: CancellationToken) {
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = token.cancelled() => return,
                _ = look.tick() => {}
            }
            match self.look() {
                None => {}
                Some(Ok(config)) => {
                    tracing::info!(path = %self.path.display(), "the cloud config has changed, and is in force");
                    take(Arc::new(config));
                }
                Some(Err(error)) => {
                    tracing::error!(%error, "the last cloud config that was good stays in force");
                }
            }
        }
    }

    /// Reads the file again; `None`: it is as it was.
    pub(super) fn look(&mut self) -> Option<Result<CloudConfig, ConfigError>> {
        let seen = text_of(&self.path);
        if seen == self.seen {
            return None;
        }
        self.seen.clone_from(&seen);
        Some(seen.and_then(|text| parse(&self.path, &text)))
    }
}

fn parse(path: &Path, text: &str) -> Result<CloudConfig, ConfigError> {
    CloudConfig::read(text).map_err(|reason| ConfigError::Invalid { path: path.to_owned(), reason })
}

/// A small file of this machine: reading it takes no time that matters.
fn text_of(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |reason: String| ConfigError::Unreadable { path: path.to_owned(), reason };
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let mut text = String::new();
    let length =
        file.take(MOST + 1).read_to_string(&mut text).map_err(|error| unreadable(error.to_string()))?;
    if u64::try_from(length).is_ok_and(|length| length > MOST) {
        return Err(unreadable(format!("it is longer than {MOST} bytes; is it the right file?")));
    }
    Ok(text)
}

//! Last known state on disk, from which a node announces while the API server is unavailable (static stability).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::desired::{Assignment, Desired};
use super::restricted::Restricted;
use super::sharing::SharedAddress;

#[cfg(test)]
mod tests;

/// Format of the file. A file of another version is set aside, not guessed at. A file with IPv4 routers only can also be read by agents
/// that support no other family.
const VERSION: u32 = 1;
/// Size limit (10,000 addresses take 1.2 MiB): a larger file was not written by an agent.
const SIZE_LIMIT: u64 = 64 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    /// Checked before the rest is read.
    #[serde(rename = "version")]
    _version: u32,
    /// Node that wrote the file: the disk of a cloned machine must not make two nodes answer alike.
    node: String,
    /// CRC-32 (IEEE 802.3) of `routers` and, if there are any, `restricted` and `shared` as compact JSON, in hexadecimal.
    crc32: String,
    routers: Vec<Assignment>,
    /// Left out where there are none. An agent that does not know the field sets the file aside and waits for the API server.
    #[serde(default)]
    restricted: Vec<Restricted>,
    /// The same.
    #[serde(default)]
    shared: Vec<Arc<SharedAddress>>,
}

/// Reason why a state file is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it is larger than {SIZE_LIMIT} bytes")]
    TooLarge,
    #[error("it is damaged: {0}")]
    Damaged(String),
    #[error("its format is version {0}, this agent knows version {VERSION}")]
    Version(u64),
    #[error("it was written on node {0}")]
    OtherNode(String),
}

/// The state file of one node.
#[derive(Debug, Clone)]
pub(crate) struct StateFile {
    folder: PathBuf,
    node: String,
}

impl StateFile {
    /// Returns the state file of this node, in this folder.
    pub(crate) fn new(folder: &Path, node: &str) -> Self {
        Self { folder: folder.to_owned(), node: node.to_owned() }
    }

    /// Creates the folder if needed and checks that it can be written, so that a fault is found now and not when the state is needed.
    pub(crate) fn prove_writable(&self) -> io::Result<()> {
        let probe = self.folder.join("state.json.probe");
        fs::create_dir_all(&self.folder)?;
        fs::write(&probe, "x")?;
        fs::remove_file(&probe)
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join("state.json")
    }

    /// Returns the state last written, `None` if there is no file.
    pub(crate) fn load(&self) -> Result<Option<Desired>, Unusable> {
        let path = self.path();
        // Looked at before it is opened: opening a pipe would wait for ever.
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if !metadata.is_file() {
            return Err(Unusable::NotAFile);
        }
        let mut bytes = Vec::new();
        File::open(&path)?.take(SIZE_LIMIT + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > SIZE_LIMIT {
            return Err(Unusable::TooLarge);
        }
        decode(&bytes, &self.node).map(Some)
    }

    /// Moves an unusable file aside for inspection, and returns its new path.
    pub(crate) fn set_aside(&self) -> io::Result<PathBuf> {
        let aside = self.folder.join("state.json.unusable");
        fs::rename(self.path(), &aside)?;
        Ok(aside)
    }

    /// Keeps the current file beside its replacement, for an admin to inspect, and returns its path.
    pub(crate) fn keep_previous(&self) -> io::Result<PathBuf> {
        let (previous, new) =
            (self.folder.join("state.json.previous"), self.folder.join("state.json.previous.new"));
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        fs::hard_link(self.path(), &new)?;
        fs::rename(&new, &previous)?;
        Ok(previous)
    }

    /// Replaces the state. After a crash at any moment the file is the old one or the new one, whole.
    pub(crate) fn store(&self, state: &Desired) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let new = self.folder.join("state.json.new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&encode(state, &self.node)?)?;
        file.sync_all()?;
        fs::rename(&new, self.path())?;
        // The rename itself is on disk only once the folder is.
        File::open(&self.folder)?.sync_all()
    }
}

/// Encodes the [`Envelope`], serializing its body once.
fn encode(state: &Desired, node: &str) -> io::Result<Vec<u8>> {
    let body = Body::of(&state.assignments, &state.restricted, &state.shared)?;
    let node = serde_json::to_string(node)?;
    let head = format!(r#"{{"version":{VERSION},"node":{node},"crc32":"{:08x}","routers":"#, body.sum());
    let mut file = [head.as_bytes(), &body.routers].concat();
    for (name, part) in [("restricted", &body.restricted), ("shared", &body.shared)] {
        if !part.is_empty() {
            file.extend(format!(r#","{name}":"#).into_bytes());
            file.extend(part);
        }
    }
    file.push(b'}');
    Ok(file)
}

/// Part of the file that the checksum covers.
struct Body {
    routers: Vec<u8>,
    /// Empty if there are none.
    restricted: Vec<u8>,
    /// Empty if there are none.
    shared: Vec<u8>,
}

impl Body {
    fn of(
        routers: &[Assignment],
        restricted: &[Restricted],
        shared: &[Arc<SharedAddress>],
    ) -> serde_json::Result<Self> {
        let restricted = if restricted.is_empty() { Vec::new() } else { serde_json::to_vec(restricted)? };
        let shared = if shared.is_empty() { Vec::new() } else { serde_json::to_vec(shared)? };
        Ok(Self { routers: serde_json::to_vec(routers)?, restricted, shared })
    }

    /// Returns the checksum, which detects damage, not malice.
    fn sum(&self) -> u32 {
        let mut sum = crc32fast::Hasher::new();
        sum.update(&self.routers);
        sum.update(&self.restricted);
        sum.update(&self.shared);
        sum.finalize()
    }
}

fn decode(bytes: &[u8], node: &str) -> Result<Desired, Unusable> {
    let damaged = |error: serde_json::Error| Unusable::Damaged(error.to_string());
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(damaged)?;
    // The version decides how the rest is to be read, so it is checked first and alone.
    match value.get("version").and_then(serde_json::Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => return Err(Unusable::Version(version)),
        None => return Err(Unusable::Damaged("it names no version".to_owned())),
    }
    let envelope: Envelope = serde_json::from_value(value).map_err(damaged)?;
    let body = Body::of(&envelope.routers, &envelope.restricted, &envelope.shared).map_err(damaged)?;
    let sum = format!("{:08x}", body.sum());
    if sum != envelope.crc32 {
        return Err(Unusable::Damaged(format!("its checksum is {sum}, it says {}", envelope.crc32)));
    }
    if envelope.node != node {
        return Err(Unusable::OtherNode(envelope.node));
    }
    for router in &envelope.routers {
        router.config().map_err(|reason| {
            Unusable::Damaged(format!("virtual router {}: {reason}", router.virtual_router))
        })?;
    }
    for one in &envelope.shared {
        one.table().map_err(|reason| Unusable::Damaged(format!("virtual IP {}: {reason}", one.address)))?;
    }
    let Envelope { routers, restricted, shared, .. } = envelope;
    Ok(Desired { assignments: routers, restricted, shared, ..Desired::default() })
}

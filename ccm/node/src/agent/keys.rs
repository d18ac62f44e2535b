//! The keys that sign adverts, as the Secret [`SECRET`] is mounted into the agent. Pure but for [`folder`], which reads it.
//!
//! What is missing, empty or broken takes away nothing that works: a key that a virtual router of this node signs with is known
//! until the agent ends, wherever its entry went. A virtual router whose key this node has never had is not run:
//! [`Desired::withhold`](super::desired::Desired::withhold).

mod folder;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use windlass_vrrp::Interval;
use windlass_vrrp::auth::{AntiReplay, AuthMode, Authentication, Key, KeyId, Keyring, Window};

pub(crate) use self::folder::KeyFolder;

#[cfg(test)]
mod tests;

/// Name of the Secret whose entries are the keys, each named by its id.
pub const SECRET: &str = "windlass-vrrp-keys";

/// What was read of the folder in which the Secret is mounted. An empty one is one of a cluster without keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FolderContent {
    keys: BTreeMap<KeyId, Key>,
    /// Why an entry is no key, by its name.
    faults: BTreeMap<String, String>,
    /// Why the folder cannot be read at all.
    unreadable: Option<String>,
}

impl FolderContent {
    /// A folder that cannot be read, and why.
    fn unreadable(why: String) -> Self {
        Self { unreadable: Some(why), ..Self::default() }
    }

    /// Reads this folder. One that is not there is one without entries.
    pub(crate) fn read(folder: &Path) -> Self {
        folder::read(folder)
    }

    /// The keys in it.
    pub(crate) fn keys(&self) -> &BTreeMap<KeyId, Key> {
        &self.keys
    }

    /// What is not in order with this folder: one sentence each, for people.
    pub(crate) fn faults(&self, folder: &Path) -> BTreeSet<String> {
        let folder = folder.display().to_string();
        let unreadable = self.unreadable.iter().map(|why| format!("{folder} cannot be read: {why}"));
        let entry = |(name, why)| format!("entry {name} of {folder} is no key: {why}");
        unreadable.chain(self.faults.iter().map(entry)).collect()
    }

    /// Takes in an entry: its name, and its content or why it cannot be read.
    pub(crate) fn add(&mut self, name: &str, content: Result<&[u8], String>) {
        // What the kubelet keeps its versions in.
        if name.starts_with('.') {
            return;
        }
        match key_id(name).and_then(|id| Ok((id, key(content?)?))) {
            Ok((id, key)) => {
                self.keys.insert(id, key);
            }
            Err(why) => {
                self.faults.insert(name.to_owned(), why);
            }
        }
    }

    /// Whether there is an entry of this id that is no key.
    fn is_broken(&self, id: KeyId) -> bool {
        self.faults.contains_key(&id.to_string())
    }
}

/// The id that an entry has by its name: a number as it is written in an Announcement, so that no two entries have one id.
fn key_id(name: &str) -> Result<KeyId, String> {
    let id = name.parse().ok().and_then(|number| KeyId::new(number).ok());
    id.filter(|id| id.to_string() == name)
        .ok_or_else(|| "its name is no key id: name it by a number from 1 to 255, as 1".to_owned())
}

/// The key that an entry is by its content. No reason tells anything of the content but its length.
fn key(content: &[u8]) -> Result<Key, String> {
    let text = str::from_utf8(content).map_err(|_| {
        "its content is no text: use 32 to 64 characters, for example 'openssl rand -hex 32'".to_owned()
    })?;
    text.parse().map_err(|error: windlass_vrrp::auth::InvalidKey| error.to_string())
}

/// The keys that this node has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    known: BTreeMap<KeyId, Key>,
}

impl Keys {
    /// Whether this node has the key of this id.
    pub(crate) fn has(&self, id: u8) -> bool {
        self.get(id).is_some()
    }

    /// Their ids, in order.
    pub(crate) fn ids(&self) -> Vec<u8> {
        self.known.keys().map(|id| id.get()).collect()
    }

    /// Those that a folder with these entries gives.
    #[cfg(test)]
    pub(crate) fn of_entries(entries: &[(&str, &str)]) -> Self {
        let mut content = FolderContent::default();
        for (name, text) in entries {
            content.add(name, Ok(text.as_bytes()));
        }
        Self::default().renewed(&content, &BTreeSet::new())
    }

    fn get(&self, id: u8) -> Option<(KeyId, &Key)> {
        let id = KeyId::new(id).ok()?;
        self.known.get(&id).map(|key| (id, key))
    }

    /// What a virtual router with this interval is told that signs with the key `id`: it takes what any of the keys signed, and
    /// nothing that none did. `None`: this node does not have the key.
    pub(crate) fn authentication(&self, id: u8, interval: Interval) -> Option<Authentication> {
        let (signing, key) = self.get(id)?;
        let mut others = self.known.iter().filter(|(id, _)| **id != signing);
        let keyring = Keyring::new(signing, key.clone());
        let keyring = others.try_fold(keyring, |ring, (id, key)| ring.with(*id, key.clone())).ok()?;
        let anti_replay = AntiReplay::Window(Window::for_interval(interval));
        Some(Authentication { keyring, mode: AuthMode::Enforce, anti_replay })
    }

    /// The keys from now on, where the folder has this `content` and virtual routers of this node sign with the keys `used`.
    ///
    /// What the folder has is true. A folder that lacks a key in use is not what it should be: then nothing that was known is
    /// forgotten, as the peers may be using the others. An entry that is broken keeps the key that it was.
    pub(crate) fn renewed(&self, content: &FolderContent, used: &BTreeSet<u8>) -> Self {
        let keep_all = content.unreadable.is_some() || self.kept(content, used).next().is_some();
        let kept = self.known.iter().filter(|(id, _)| keep_all || content.is_broken(**id));
        let all = kept.chain(&content.keys);
        Self { known: all.map(|(id, key)| (*id, key.clone())).collect() }
    }

    /// The keys in use that are known and not in the folder.
    fn kept<'a>(
        &'a self,
        content: &'a FolderContent,
        used: &'a BTreeSet<u8>,
    ) -> impl Iterator<Item = KeyId> + 'a {
        let known = used.iter().filter_map(|id| self.get(*id)).map(|(id, _)| id);
        known.filter(|id| !content.keys.contains_key(id))
    }

    /// The keys in use whose secret is another one in `new`: until all nodes have it, they do not believe each other.
    fn replaced<'a>(&'a self, new: &'a Self, used: &'a BTreeSet<u8>) -> impl Iterator<Item = u8> + 'a {
        used.iter().copied().filter(|id| match (self.get(*id), new.get(*id)) {
            (Some((_, old)), Some((_, new))) => old != new,
            (Some(_), None) | (None, Some(_) | None) => false,
        })
    }

    /// What is not in order: one sentence for each fault, for people.
    fn warnings(&self, folder: &Path, content: &FolderContent, used: &BTreeSet<u8>) -> BTreeSet<String> {
        let folder = folder.display();
        let unreadable = content.unreadable.iter().map(|why| {
            format!(
                "the VRRP keys in {folder} cannot be read: {why}; those known stay in use, repair the mount of Secret {SECRET}"
            )
        });
        let faults = content
            .faults
            .iter()
            .map(|(name, why)| format!("entry {name} of {folder} (Secret {SECRET}) is no VRRP key: {why}"));
        let kept = self.kept(content, used).map(|id| {
            format!(
                "VRRP key {id}, which virtual routers here sign with, is not in {folder} any more: it stays in use until the \
                 agent ends; put it back into Secret {SECRET}, or give the Announcement another key"
            )
        });
        let missing = used.iter().filter(|id| !self.has(**id)).map(|id| {
            format!(
                "VRRP key {id}, which virtual routers here sign with, is not in {folder}: they are not run until it is; add \
                 entry {id} to Secret {SECRET}"
            )
        });
        unreadable.chain(faults).chain(kept).chain(missing).collect()
    }
}

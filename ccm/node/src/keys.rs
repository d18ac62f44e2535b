//! Keys that sign adverts, from the Secret [`SECRET`] as mounted into the agent. Pure but for [`folder`], which reads it.
//!
//! A missing, empty or broken entry breaks nothing that works: a key that a virtual router of this node signs with stays known until the
//! agent exits. A virtual router whose key this node has never had is not run: [`Desired::withhold`](crate::agent::desired::Desired::withhold).

mod folder;
pub(crate) mod signing;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use windlass_vrrp::Interval;
use windlass_vrrp::auth::{AntiReplay, AuthMode, Authentication, Key, KeyId, Keyring, Window};

pub(crate) use self::folder::KeyFolder;

#[cfg(test)]
mod tests;

/// Name of the Secret whose entries are the keys, each named by its id.
pub const SECRET: &str = "windlass-vrrp-keys";

/// Content of the folder in which the Secret is mounted. It is empty in a cluster without keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FolderContent {
    keys: BTreeMap<KeyId, Key>,
    /// Faults of entries that are no key, by entry name.
    faults: BTreeMap<String, String>,
    /// Reason why the folder cannot be read at all.
    unreadable: Option<String>,
}

impl FolderContent {
    /// Returns the content of an unreadable folder.
    fn unreadable(why: String) -> Self {
        Self { unreadable: Some(why), ..Self::default() }
    }

    /// Reads this folder. A missing folder counts as empty.
    pub(crate) fn read(folder: &Path) -> Self {
        folder::read(folder)
    }

    /// Returns the keys in it.
    pub(crate) fn keys(&self) -> &BTreeMap<KeyId, Key> {
        &self.keys
    }

    /// Returns the folder's faults: one sentence each, for display.
    pub(crate) fn faults(&self, folder: &Path) -> BTreeSet<String> {
        let folder = folder.display().to_string();
        let unreadable = self.unreadable.iter().map(|why| format!("{folder} cannot be read: {why}"));
        let entry = |(name, why)| format!("entry {name} of {folder} is no key: {why}");
        unreadable.chain(self.faults.iter().map(entry)).collect()
    }

    /// Adds an entry by its name, and its content or the reason why it cannot be read.
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

    /// Returns true if the entry of this id is no key.
    fn is_broken(&self, id: KeyId) -> bool {
        self.faults.contains_key(&id.to_string())
    }
}

/// Returns the id that an entry's name gives: a number in its canonical form, so that no two entries have one id.
fn key_id(name: &str) -> Result<KeyId, String> {
    let id = name.parse().ok().and_then(|number| KeyId::new(number).ok());
    id.filter(|id| id.to_string() == name)
        .ok_or_else(|| "its name is no key id: name it by a number from 1 to 255, as 1".to_owned())
}

/// Parses an entry's content as a key. Errors reveal nothing of the content but its length.
fn key(content: &[u8]) -> Result<Key, String> {
    let text = str::from_utf8(content).map_err(|_| {
        "its content is no text: use 32 to 64 characters, for example 'openssl rand -hex 32'".to_owned()
    })?;
    text.parse().map_err(|error: windlass_vrrp::auth::InvalidKey| error.to_string())
}

/// Returns the authentication that signs with the key `signing` and accepts adverts signed with any known key; `None`: that key is not
/// known.
fn authentication(
    known: &BTreeMap<KeyId, Key>,
    signing: KeyId,
    interval: Interval,
) -> Option<Authentication> {
    let mut others = known.iter().filter(|(id, _)| **id != signing);
    let keyring = Keyring::new(signing, known.get(&signing)?.clone());
    let keyring = others.try_fold(keyring, |ring, (id, key)| ring.with(*id, key.clone())).ok()?;
    let anti_replay = AntiReplay::Window(Window::for_interval(interval));
    Some(Authentication { keyring, mode: AuthMode::Enforce, anti_replay })
}

/// Keys that this node has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    known: BTreeMap<KeyId, Key>,
}

impl Keys {
    /// Returns true if this node has the key of this id.
    pub(crate) fn has(&self, id: u8) -> bool {
        self.get(id).is_some()
    }

    /// Returns the ids, in order.
    pub(crate) fn ids(&self) -> Vec<u8> {
        self.known.keys().map(|id| id.get()).collect()
    }

    /// Returns the keys of a folder with these entries.
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

    /// Returns the authentication of a virtual router with this interval that signs with the key `id`: it accepts adverts signed with any
    /// of the keys, and no others. `None`: this node does not have the key.
    pub(crate) fn authentication(&self, id: u8, interval: Interval) -> Option<Authentication> {
        authentication(&self.known, KeyId::new(id).ok()?, interval)
    }

    /// Returns the keys to use from now on, given the folder's `content` and the keys `used` by this node's virtual routers.
    ///
    /// The folder's keys are used. If it lacks a key in use it is incomplete: then no known key is removed, as the peers may be using the
    /// others. A broken entry keeps its previous key.
    pub(crate) fn renewed(&self, content: &FolderContent, used: &BTreeSet<u8>) -> Self {
        let keep_all = content.unreadable.is_some() || self.kept(content, used).next().is_some();
        let kept = self.known.iter().filter(|(id, _)| keep_all || content.is_broken(**id));
        let all = kept.chain(&content.keys);
        Self { known: all.map(|(id, key)| (*id, key.clone())).collect() }
    }

    /// Returns the keys in use that are known and not in the folder.
    fn kept<'a>(
        &'a self,
        content: &'a FolderContent,
        used: &'a BTreeSet<u8>,
    ) -> impl Iterator<Item = KeyId> + 'a {
        let known = used.iter().filter_map(|id| self.get(*id)).map(|(id, _)| id);
        known.filter(|id| !content.keys.contains_key(id))
    }

    /// Returns the keys in use whose secret differs in `new`: until all nodes have it, they reject each other's adverts.
    fn replaced<'a>(&'a self, new: &'a Self, used: &'a BTreeSet<u8>) -> impl Iterator<Item = u8> + 'a {
        used.iter().copied().filter(|id| match (self.get(*id), new.get(*id)) {
            (Some((_, old)), Some((_, new))) => old != new,
            (Some(_), None) | (None, Some(_) | None) => false,
        })
    }

    /// Returns one sentence for each fault, for display.
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

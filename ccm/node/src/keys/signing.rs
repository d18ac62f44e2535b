//! The keys that sign adverts for virtual IPs: a folder with a file for each, named by its id. Pure but for [`KeysFolder`], which reads it.
//!
//! The key with the lowest id that is in the folder signs; adverts are accepted that any key signed which this process has known. So a
//! key is replaced without an outage by two steps, each on all nodes before the next: the new key, with a higher id, is put beside the
//! old one; the old one is taken out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use windlass_vrrp::Interval;
use windlass_vrrp::auth::{Authentication, Key, KeyId};

use super::{FolderContent, authentication};

/// The keys that this process knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SigningKeys {
    known: BTreeMap<KeyId, Key>,
    signs: Option<KeyId>,
}

impl SigningKeys {
    /// The key of this id that consists of one digit.
    #[cfg(test)]
    pub(crate) fn of(id: u8, digit: &str) -> Self {
        let mut content = FolderContent::default();
        content.add(&id.to_string(), Ok(digit.repeat(64).as_bytes()));
        Self::default().renewed(&content)
    }

    /// Returns the keys after the folder has this content. No key is removed: a folder that is empty or cannot be read keeps working keys.
    fn renewed(&self, content: &FolderContent) -> Self {
        let mut known = self.known.clone();
        known.extend(content.keys().iter().map(|(id, key)| (*id, key.clone())));
        Self { known, signs: content.keys().keys().next().copied().or(self.signs) }
    }

    /// Returns the authentication of adverts for a virtual router with this interval; `None` while there is no key.
    pub(crate) fn authentication(&self, interval: Interval) -> Option<Authentication> {
        authentication(&self.known, self.signs?, interval)
    }
}

/// The folder, and the keys that were read there.
#[derive(Debug)]
pub(crate) struct KeysFolder {
    path: PathBuf,
    keys: SigningKeys,
    /// The warnings that hold, each of which the log has once.
    told: BTreeSet<String>,
}

impl KeysFolder {
    /// Reads the folder for the first time.
    pub(crate) fn open(path: PathBuf) -> Self {
        let mut folder = Self { path, keys: SigningKeys::default(), told: BTreeSet::new() };
        folder.refresh();
        folder
    }

    pub(crate) fn keys(&self) -> &SigningKeys {
        &self.keys
    }

    /// Reads it again; whether other keys are known, or another one signs.
    pub(crate) fn refresh(&mut self) -> bool {
        let content = FolderContent::read(&self.path);
        let keys = self.keys.renewed(&content);
        let mut warnings = content.faults(&self.path);
        if keys.signs.is_none() {
            warnings.insert(format!(
                "{} has no key, and this node announces no virtual IP without one: write a key to a file named by its id, as \
                 'openssl rand -hex 32 > {}/1'",
                self.path.display(),
                self.path.display()
            ));
        }
        for warning in warnings.difference(&self.told) {
            tracing::warn!("{warning}");
        }
        self.told = warnings;
        let is_new = keys != self.keys;
        if is_new {
            let known: Vec<u8> = keys.known.keys().map(|id| id.get()).collect();
            let signs = keys.signs.map(KeyId::get);
            tracing::info!(?known, signs, folder = %self.path.display(), "keys that sign adverts");
            self.keys = keys;
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(keys: &[(&str, char)]) -> FolderContent {
        let mut content = FolderContent::default();
        for (id, digit) in keys {
            content.add(id, Ok(digit.to_string().repeat(64).as_bytes()));
        }
        content
    }

    fn signs(keys: &SigningKeys) -> Option<u8> {
        keys.signs.map(KeyId::get)
    }

    fn known(keys: &SigningKeys) -> Vec<u8> {
        keys.known.keys().map(|id| id.get()).collect()
    }

    #[test]
    fn the_lowest_key_of_the_folder_signs_and_none_is_forgotten() {
        let none = SigningKeys::default();
        assert_eq!(none.authentication(Interval::SECOND), None);
        let old = none.renewed(&content(&[("1", 'a')]));
        assert_eq!((signs(&old), known(&old)), (Some(1), vec![1]));
        let both = old.renewed(&content(&[("1", 'a'), ("2", 'b')]));
        assert_eq!((signs(&both), known(&both)), (Some(1), vec![1, 2]));
        let new = both.renewed(&content(&[("2", 'b')]));
        assert_eq!((signs(&new), known(&new)), (Some(2), vec![1, 2]));
        assert!(new.authentication(Interval::SECOND).is_some());
        let emptied = new.renewed(&content(&[]));
        assert_eq!(emptied, new);
    }
}

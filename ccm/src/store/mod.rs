//! Cache of the cluster's objects: one watch per kind and process, and one copy of each object, shared by all readers.
//!
//! | file | concept |
//! |---|---|
//! | this one | [`Store`]: the objects of one kind, as the watch and the answers to our own writes show them; no I/O |
//! | `informer` | [`Informer`]: a store that all controllers of a kind share, and its subscribers |
//! | `informers` | [`Informers`]: the informers of a process, each with the one watch that feeds it |
//!
//! A store that only the watch feeds lags behind our own writes, and decisions made from it are made twice. Writers therefore pass it the
//! answers to their writes, and the newer version counts.

mod informer;
mod informers;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

pub use self::informer::{Changes, Informer};
pub use self::informers::{Informers, WatchEnded, with_informers};
use crate::watch::Event;

#[cfg(test)]
mod tests;

/// Number of deleted objects that are recorded. The answer to a write is late by a few events, not by thousands.
const REMEMBERED: usize = 4096;

/// An object before and after; never both `None`.
#[derive(Debug)]
pub struct Change<K> {
    /// As it was known; `None`: it is new.
    pub old: Option<Arc<K>>,
    /// As it is known now; `None`: it is gone.
    pub new: Option<Arc<K>>,
}

impl<K> Clone for Change<K> {
    fn clone(&self) -> Self {
        Self { old: self.old.clone(), new: self.new.clone() }
    }
}

/// The objects of one kind by `name`, or `namespace/name` ([`key`]).
#[derive(Debug)]
pub struct Store<K> {
    objects: BTreeMap<String, Arc<K>>,
    listing: Option<Listing<K>>,
    gone: DeletedUids,
    synced: bool,
    revision: u64,
}

/// A list that is not complete yet.
#[derive(Debug)]
struct Listing<K> {
    objects: BTreeMap<String, Arc<K>>,
    /// Keys learnt since the list began from answers to our writes, which the list may be too old to contain.
    learnt: HashSet<String>,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            listing: None,
            gone: DeletedUids::default(),
            synced: false,
            revision: 0,
        }
    }
}

/// Key of an object in its store, as client-go's `MetaNamespaceKeyFunc` has it.
pub fn key(namespace: Option<&str>, name: &str) -> String {
    namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

/// `metadata.resourceVersion` as the number that it is (ordered since Kubernetes 1.35); 0 if it is none.
pub fn version(object: &impl Resource) -> u64 {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// Returns true if the API server removed the object with its last finalizer.
pub(crate) fn is_gone(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some() && metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
}

fn key_of(metadata: &ObjectMeta) -> String {
    key(metadata.namespace.as_deref(), metadata.name.as_deref().unwrap_or_default())
}

impl<K: Resource + PartialEq> Store<K> {
    /// Applies an event of the watch. A list replaces all known objects: an object that it lacks is gone.
    pub fn handle(&mut self, event: Event<Arc<K>>) -> Vec<Change<K>> {
        match event {
            Event::Init => self.listing = Some(Listing { objects: BTreeMap::new(), learnt: HashSet::new() }),
            Event::InitApply(object) => self.list(object),
            Event::InitUnreadable(metadata) => {
                let known = self.objects.get(&key_of(&metadata));
                if let Some(known) = known.filter(|known| known.meta().uid == metadata.uid).cloned() {
                    self.list(known);
                }
            }
            Event::InitDone => return self.end_list(),
            Event::Apply(object) => return self.apply(object).into_iter().collect(),
            Event::Delete(object) => return self.forget(&object).into_iter().collect(),
        }
        Vec::new()
    }

    fn list(&mut self, object: Arc<K>) {
        if let Some(listing) = &mut self.listing {
            listing.objects.insert(key_of(object.meta()), object);
        }
    }

    fn end_list(&mut self) -> Vec<Change<K>> {
        let Some(Listing { objects, learnt }) = self.listing.take() else { return Vec::new() };
        self.synced = true;
        let is_gone = |key: &&String| !objects.contains_key(*key) && !learnt.contains(*key);
        let gone: Vec<_> = self.objects.keys().filter(is_gone).cloned().collect();
        self.revision += u64::from(!gone.is_empty());
        let mut changes: Vec<_> =
            gone.iter().map(|key| Change { old: self.objects.remove(key), new: None }).collect();
        changes.extend(objects.into_iter().filter_map(|(key, object)| {
            if learnt.contains(&key) { self.apply(object) } else { self.replace(&key, object) }
        }));
        changes
    }

    /// Stores the API server's object, whatever is known: its database may be a restored one, and another definition may show other fields
    /// of the same version. `None`: it is the same.
    fn replace(&mut self, key: &str, object: Arc<K>) -> Option<Change<K>> {
        if version(&*object) > 0 && self.get(key).is_some_and(|known| *known == object) {
            return None;
        }
        if let Some(uid) = &object.meta().uid {
            self.gone.remove(uid);
        }
        Some(self.put(object))
    }

    /// Stores an object as the watch shows it. `None`: an object at least as new is known.
    fn apply(&mut self, object: Arc<K>) -> Option<Change<K>> {
        let known = self.objects.get(&key_of(object.meta()));
        let is_old = |known: &K| version(&*object) > 0 && version(known) >= version(&*object);
        if self.is_gone(&object) || known.is_some_and(|known| is_old(known)) {
            return None;
        }
        Some(self.put(object))
    }

    /// Stores the answer to a write of ours. `None`: the watch has shown it already, or something newer. The watch will not report it again
    /// as a change.
    pub fn learn(&mut self, object: Arc<K>) -> Option<Change<K>> {
        let known = self.objects.get(&key_of(object.meta()));
        let is_news = |known: &K| version(&*object) > version(known) || is_final_version(&*object, known);
        if version(&*object) == 0 || self.is_gone(&object) || !known.is_none_or(|known| is_news(known)) {
            return None;
        }
        if let Some(listing) = &mut self.listing {
            listing.learnt.insert(key_of(object.meta()));
        }
        Some(self.put(object))
    }

    fn put(&mut self, new: Arc<K>) -> Change<K> {
        self.revision += 1;
        let old = self.objects.insert(key_of(new.meta()), Arc::clone(&new));
        Change { old, new: Some(new) }
    }

    /// The object is gone. `None`: it was not known, or a newer one of that name is.
    pub fn forget(&mut self, object: &K) -> Option<Change<K>> {
        if let Some(uid) = &object.meta().uid {
            self.gone.insert(Arc::from(uid.as_str()));
        }
        let key = key_of(object.meta());
        if let Some(listing) = &mut self.listing {
            listing.learnt.insert(key.clone());
        }
        let known = self.objects.get(&key)?;
        if known.meta().uid != object.meta().uid && version(&**known) > version(object) {
            return None;
        }
        self.revision += 1;
        Some(Change { old: self.objects.remove(&key), new: None })
    }

    /// Returns true if this very object is known to be gone.
    pub fn is_gone(&self, object: &K) -> bool {
        object.meta().uid.as_ref().is_some_and(|uid| self.gone.contains(uid))
    }
}

impl<K> Store<K> {
    /// Returns true if a list was received completely: before that, absence means nothing.
    pub const fn is_synced(&self) -> bool {
        self.synced
    }

    /// A number that is another one after every change.
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// One object.
    pub fn get(&self, key: &str) -> Option<&Arc<K>> {
        self.objects.get(key)
    }

    /// All objects, by key.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<K>> {
        self.objects.values()
    }
}

/// Returns true if `one` shows the deletion of `other`: the answer to the write that removed the last finalizer still carries the
/// resourceVersion of the object that it removed.
fn is_final_version<K: Resource>(one: &K, other: &K) -> bool {
    version(one) == version(other)
        && one.meta().uid == other.meta().uid
        && is_gone(one.meta())
        && !is_gone(other.meta())
}

/// UIDs of objects that are gone: the answer to a write made before may come after, and must not bring them back.
#[derive(Debug, Default)]
struct DeletedUids {
    uids: HashSet<Arc<str>>,
    /// The same, latest last.
    in_order: VecDeque<Arc<str>>,
}

impl DeletedUids {
    fn insert(&mut self, uid: Arc<str>) {
        if !self.uids.insert(Arc::clone(&uid)) {
            return;
        }
        self.in_order.push_back(uid);
        if self.in_order.len() > REMEMBERED
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }

    fn remove(&mut self, uid: &str) {
        if self.uids.remove(uid) {
            self.in_order.retain(|one| &**one != uid);
        }
    }

    fn contains(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }
}

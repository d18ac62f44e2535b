//! What a watch has shown so far: the objects by key, and what changed with each event.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use crate::slim;
use crate::watch::Event;

/// One difference between what was known and what is.
#[derive(Debug)]
pub(crate) enum Change<O> {
    /// The object is new (`old` is `None`) or was modified.
    Applied {
        old: Option<Arc<O>>,
        new: Arc<O>,
    },
    Deleted(Arc<O>),
}

/// The objects of one kind.
#[derive(Debug)]
pub(crate) struct Store<K, O> {
    key_of: fn(&ObjectMeta) -> K,
    /// Drops what nobody reads of an object that is kept.
    slim: fn(&mut O),
    objects: BTreeMap<K, Arc<O>>,
    /// Objects of a list that is not complete yet.
    listing: Option<BTreeMap<K, Arc<O>>>,
    synced: bool,
}

impl Store<String, Node> {
    /// For Nodes, by name.
    pub(crate) fn of_nodes() -> Self {
        Self::new(|metadata| metadata.name.clone().unwrap_or_default(), slim::node)
    }
}

impl<K: Clone + Ord + Hash, O: Resource> Store<K, O> {
    pub(crate) fn new(key_of: fn(&ObjectMeta) -> K, slim: fn(&mut O)) -> Self {
        Self { key_of, slim, objects: BTreeMap::new(), listing: None, synced: false }
    }

    /// Whether a complete list was seen: before that, absence means nothing.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced
    }

    pub(crate) fn get(&self, key: &K) -> Option<&Arc<O>> {
        self.objects.get(key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<O>> {
        self.objects.values()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.objects.keys()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &Arc<O>)> {
        self.objects.iter()
    }

    /// Takes in an event of the watch. A list replaces what was known: what it lacks was deleted. An event that is
    /// older than what a write of ours returned is passed over.
    pub(crate) fn apply(&mut self, event: Event<O>) -> Vec<Change<O>> {
        match event {
            Event::Init => {
                self.listing = Some(BTreeMap::new());
                Vec::new()
            }
            Event::InitApply(object) => {
                let (key, object) = self.slim(object);
                self.listing.get_or_insert_default().insert(key, object);
                Vec::new()
            }
            Event::InitUnreadable(metadata) => {
                let key = (self.key_of)(&metadata);
                if let Some(known) = self.objects.get(&key).filter(|known| known.meta().uid == metadata.uid) {
                    self.listing.get_or_insert_default().insert(key, Arc::clone(known));
                }
                Vec::new()
            }
            Event::InitDone => {
                let mut old = std::mem::replace(&mut self.objects, self.listing.take().unwrap_or_default());
                self.synced = true;
                let mut changes: Vec<_> = self
                    .objects
                    .iter()
                    .map(|(key, new)| Change::Applied { old: old.remove(key), new: Arc::clone(new) })
                    .collect();
                changes.extend(old.into_values().map(Change::Deleted));
                changes
            }
            Event::Apply(object) => {
                let (key, new) = self.slim(object);
                let known = self.objects.get(&key).map(Arc::as_ref);
                if known.is_some_and(|known| is_newer(known, new.as_ref()) || ends(known, new.as_ref())) {
                    return Vec::new();
                }
                let old = self.objects.insert(key, Arc::clone(&new));
                vec![Change::Applied { old, new }]
            }
            Event::Delete(object) => {
                let key = (self.key_of)(object.meta());
                self.objects.remove(&key).map(Change::Deleted).into_iter().collect()
            }
        }
    }

    /// Takes in the answer to a write of ours, if the watch has not shown it or something newer already. The watch
    /// will not tell of it again as a change, so the caller must look at what is returned as at any other.
    pub(crate) fn learn(&mut self, object: O) -> Option<Change<O>> {
        let (key, new) = self.slim(object);
        let known = self.objects.get_mut(&key)?;
        if !is_newer(new.as_ref(), known.as_ref()) && !ends(new.as_ref(), known.as_ref()) {
            return None;
        }
        let old = std::mem::replace(known, Arc::clone(&new));
        Some(Change::Applied { old: Some(old), new })
    }

    fn slim(&self, mut object: O) -> (K, Arc<O>) {
        (self.slim)(&mut object);
        ((self.key_of)(object.meta()), Arc::new(object))
    }
}

/// Whether both are the same object and `one` was written later. ResourceVersions are ordered numbers since Kubernetes
/// 1.35; what is not a number is never newer, so that the watch decides.
fn is_newer(one: &impl Resource, other: &impl Resource) -> bool {
    let (Some(one_version), Some(other_version)) = (version(one), version(other)) else { return false };
    one.meta().uid == other.meta().uid && one_version > other_version
}

/// Whether `one` tells the end of `other`: the answer to the write that took the last finalizer away still carries the
/// resourceVersion of what it removed.
fn ends(one: &impl Resource, other: &impl Resource) -> bool {
    let written = version(one);
    written.is_some()
        && written == version(other)
        && one.meta().uid == other.meta().uid
        && is_gone(one.meta())
        && !is_gone(other.meta())
}

/// Whether the API server removed the object with its last finalizer.
pub(crate) fn is_gone(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some() && metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
}

fn version(object: &impl Resource) -> Option<u64> {
    object.meta().resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests;

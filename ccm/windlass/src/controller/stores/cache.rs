//! What is known of one kind of object: what the watch said and what our own writes were answered, whichever is newer.
//!
//! A reflector store would lag behind our own writes, and a plan made from it would be made twice.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt as _};

/// How many deleted objects are remembered. An answer to a write of ours is late by a few events, not by thousands.
const REMEMBERED: usize = 4096;

/// Objects of one kind by `name`, or `namespace/name`.
#[derive(Debug)]
pub(crate) struct Cache<K> {
    objects: BTreeMap<String, Arc<K>>,
    /// A list that is being received.
    incoming: BTreeMap<String, Arc<K>>,
    /// UIDs of objects that the watch said are gone: the answer to a write made before may come after, and must not bring
    /// them back.
    gone: HashSet<Arc<str>>,
    /// The same, latest last.
    gone_in_order: VecDeque<Arc<str>>,
    /// Whether a list was received completely.
    ready: bool,
    /// Counts the changes.
    revision: u64,
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            incoming: BTreeMap::new(),
            gone: HashSet::new(),
            gone_in_order: VecDeque::new(),
            ready: false,
            revision: 0,
        }
    }
}

/// Before and after; never both `None`.
#[derive(Debug)]
pub(crate) struct News<K> {
    pub(crate) old: Option<Arc<K>>,
    pub(crate) new: Option<Arc<K>>,
}

/// Key of an object in its cache.
pub(crate) fn key(namespace: Option<&str>, name: &str) -> String {
    namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

/// `metadata.resourceVersion` as the number it is (comparable since Kubernetes 1.35); 0 if there is none.
pub(crate) fn version(object: &impl Resource) -> u64 {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

impl<K: Resource + Debug> Cache<K> {
    fn key_of(object: &K) -> String {
        key(object.meta().namespace.as_deref(), &object.name_any())
    }

    /// Takes in an object as it is or was. `None`: it is no news.
    pub(crate) fn apply(&mut self, object: Arc<K>) -> Option<News<K>> {
        if self.is_gone(&object) {
            return None;
        }
        let key = Self::key_of(&object);
        let old = self.objects.get(&key);
        if old.is_some_and(|old| version(&**old) >= version(&*object) && version(&*object) > 0) {
            return None;
        }
        self.revision += 1;
        let old = self.objects.insert(key, Arc::clone(&object));
        Some(News { old, new: Some(object) })
    }

    /// The object is gone, unless a newer one of that name is known.
    pub(crate) fn delete(&mut self, object: &K) -> Option<News<K>> {
        if let Some(uid) = &object.meta().uid {
            self.remember_gone(Arc::from(uid.as_str()));
        }
        let key = Self::key_of(object);
        let old = self.objects.get(&key)?;
        if old.meta().uid != object.meta().uid && version(&**old) > version(object) {
            return None;
        }
        self.revision += 1;
        let old = self.objects.remove(&key);
        Some(News { old, new: None })
    }

    fn remember_gone(&mut self, uid: Arc<str>) {
        if !self.gone.insert(Arc::clone(&uid)) {
            return;
        }
        self.gone_in_order.push_back(uid);
        if self.gone_in_order.len() > REMEMBERED
            && let Some(oldest) = self.gone_in_order.pop_front()
        {
            self.gone.remove(&oldest);
        }
    }

    /// Whether the watch has said that this very object is gone.
    pub(crate) fn is_gone(&self, object: &K) -> bool {
        object.meta().uid.as_ref().is_some_and(|uid| self.gone.contains(uid.as_str()))
    }

    /// A list begins.
    pub(crate) fn list_begins(&mut self) {
        self.incoming.clear();
    }

    /// An object of the list.
    pub(crate) fn list_item(&mut self, object: Arc<K>) {
        self.incoming.insert(Self::key_of(&object), object);
    }

    /// An object of the list that cannot be read: what is known of it stays.
    pub(crate) fn list_unreadable(&mut self, metadata: &ObjectMeta) {
        let key = key(metadata.namespace.as_deref(), metadata.name.as_deref().unwrap_or_default());
        if let Some(known) = self.objects.get(&key).filter(|known| known.meta().uid == metadata.uid) {
            self.incoming.insert(key, Arc::clone(known));
        }
    }

    /// The list is complete: what it does not hold is gone.
    pub(crate) fn list_ends(&mut self) -> Vec<News<K>> {
        let incoming = std::mem::take(&mut self.incoming);
        self.revision += 1;
        let gone: Vec<_> = self.objects.keys().filter(|key| !incoming.contains_key(*key)).cloned().collect();
        let mut news: Vec<_> =
            gone.iter().map(|key| News { old: self.objects.remove(key), new: None }).collect();
        news.extend(incoming.into_values().filter_map(|object| self.apply(object)));
        self.ready = true;
        news
    }

    /// Whether a list was received completely.
    pub(crate) const fn is_ready(&self) -> bool {
        self.ready
    }

    /// A number that is another one after every change.
    pub(crate) const fn revision(&self) -> u64 {
        self.revision
    }

    /// One object.
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<K>> {
        self.objects.get(key)
    }

    /// All objects, by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<K>> {
        self.objects.values()
    }
}

#[cfg(test)]
mod tests;

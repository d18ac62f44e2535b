//! A store that all who work on a kind share, and who is told of its changes.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Resource;
use tokio::sync::mpsc;

use super::{Change, Store};
use crate::watch::Event;

/// The objects of one kind, as client-go's `SharedInformer` has them: everybody reads the same copy, and each subscriber is
/// told of every change in order. When somebody is told of a change, the store may know of later ones already.
pub struct Informer<K> {
    inner: Arc<Inner<K>>,
    /// Who is not told of what is learnt by this handle.
    subscriber: Option<u64>,
}

struct Inner<K> {
    /// Drops what nobody reads of an object that is kept.
    slim: fn(&mut K),
    known: Mutex<Known<K>>,
}

struct Known<K> {
    store: Store<K>,
    subscribers: Vec<Subscriber<K>>,
    /// How many there ever were.
    numbered: u64,
}

struct Subscriber<K> {
    number: u64,
    changes: mpsc::UnboundedSender<Vec<Change<K>>>,
}

/// The changes of one kind, for one subscriber.
pub struct Changes<K>(mpsc::UnboundedReceiver<Vec<Change<K>>>);

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), subscriber: self.subscriber }
    }
}

impl<K> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer").field("revision", &self.known().store.revision()).finish_non_exhaustive()
    }
}

impl<K> fmt::Debug for Changes<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("waiting", &self.0.len()).finish()
    }
}

/// Drops the managed fields.
impl<K: Resource> Default for Informer<K> {
    fn default() -> Self {
        Self::new(|object| object.meta_mut().managed_fields = None)
    }
}

impl<K> Informer<K> {
    /// One that knows nothing yet. `slim` drops what nobody reads of an object that is kept.
    pub fn new(slim: fn(&mut K)) -> Self {
        let known = Known { store: Store::default(), subscribers: Vec::new(), numbered: 0 };
        Self { inner: Arc::new(Inner { slim, known: Mutex::new(known) }), subscriber: None }
    }

    fn known(&self) -> MutexGuard<'_, Known<K>> {
        self.inner.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a list was received completely: before that, absence means nothing.
    pub fn is_synced(&self) -> bool {
        self.known().store.is_synced()
    }

    /// A number that is another one after every change.
    pub fn revision(&self) -> u64 {
        self.known().store.revision()
    }

    /// One object, by `name` or `namespace/name`.
    pub fn get(&self, key: &str) -> Option<Arc<K>> {
        self.known().store.get(key).cloned()
    }

    /// All objects, by key.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.known().store.iter().cloned().collect()
    }

    /// Everything that is known, and then every change; and a handle of which these changes do not tell what it learns, because
    /// its owner knows.
    pub fn subscribe(&self) -> (Self, Changes<K>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut known = self.known();
        let new = known.store.iter().map(|object| Change { old: None, new: Some(Arc::clone(object)) });
        let new: Vec<_> = new.collect();
        if known.store.is_synced() || !new.is_empty() {
            // The receiver is here.
            drop(sender.send(new));
        }
        known.numbered += 1;
        let number = known.numbered;
        known.subscribers.push(Subscriber { number, changes: sender });
        (Self { inner: Arc::clone(&self.inner), subscriber: Some(number) }, Changes(receiver))
    }
}

impl<K: Resource> Informer<K> {
    /// Takes in an event of the watch. All subscribers are told what it changes; of the end of a list also if it changes
    /// nothing.
    pub fn handle(&self, event: Event<K>) -> Vec<Change<K>> {
        let event = event.map(|object| self.slimmed(object));
        let is_end = matches!(event, Event::InitDone);
        let mut known = self.known();
        let changes = known.store.handle(event);
        if is_end || !changes.is_empty() {
            known.tell(&changes, None);
        }
        changes
    }

    /// Takes in the answer to a write of ours, if the watch has not shown it or something newer already, and tells all
    /// subscribers but the owner of this handle.
    pub fn learn(&self, object: K) -> Option<Change<K>> {
        let object = self.slimmed(object);
        let mut known = self.known();
        let change = known.store.learn(object)?;
        known.tell(std::slice::from_ref(&change), self.subscriber);
        Some(change)
    }

    fn slimmed(&self, mut object: K) -> Arc<K> {
        (self.inner.slim)(&mut object);
        Arc::new(object)
    }
}

impl<K> Known<K> {
    /// Tells all but one; who listens no more is told no more.
    fn tell(&mut self, changes: &[Change<K>], except: Option<u64>) {
        self.subscribers.retain(|subscriber| {
            except == Some(subscriber.number) || subscriber.changes.send(changes.to_vec()).is_ok()
        });
    }
}

impl<K> Changes<K> {
    /// The next changes, which may be none at the end of a list. Waits for ever where nobody can make one any more. Nothing
    /// is lost where it is dropped.
    pub async fn next(&mut self) -> Vec<Change<K>> {
        match self.0.recv().await {
            Some(changes) => changes,
            None => std::future::pending().await,
        }
    }

    /// The next changes, if there are some already.
    pub fn try_next(&mut self) -> Option<Vec<Change<K>>> {
        self.0.try_recv().ok()
    }
}

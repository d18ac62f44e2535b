//! A store that all controllers of a kind share, and its subscribers.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use kube::Resource;
use tokio::sync::Notify;

use super::{Change, Store};
use crate::watch::Event;

/// Batches of changes that a subscriber may lag behind before the watch waits for it.
const LAG: usize = 1024;

/// The objects of one kind, as client-go's `SharedInformer` has them: everybody reads the same copy, and each subscriber gets
/// every change in order. When a subscriber gets a change, the store may have later ones already.
pub struct Informer<K> {
    inner: Arc<Inner<K>>,
    /// The subscriber that does not get the changes that are learnt by this handle.
    subscriber: Option<u64>,
}

struct Inner<K> {
    /// Drops what nobody reads of an object that is kept.
    slim: fn(&mut K),
    state: Mutex<InformerState<K>>,
}

struct InformerState<K> {
    store: Store<K>,
    subscribers: Vec<Subscriber<K>>,
    /// Number of subscribers ever added.
    numbered: u64,
}

struct Subscriber<K> {
    number: u64,
    queue: Weak<ChangeQueue<K>>,
}

/// The changes that a subscriber has not got yet.
struct ChangeQueue<K> {
    waiting: Mutex<VecDeque<Vec<Change<K>>>>,
    added: Notify,
    /// It is shorter.
    room: Notify,
}

/// The changes of one kind, for one subscriber.
pub struct Changes<K>(Arc<ChangeQueue<K>>);

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), subscriber: self.subscriber }
    }
}

impl<K> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer").field("revision", &self.state().store.revision()).finish_non_exhaustive()
    }
}

impl<K> fmt::Debug for Changes<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("waiting", &self.0.waiting().len()).finish()
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
        let state = InformerState { store: Store::default(), subscribers: Vec::new(), numbered: 0 };
        Self { inner: Arc::new(Inner { slim, state: Mutex::new(state) }), subscriber: None }
    }

    fn state(&self) -> MutexGuard<'_, InformerState<K>> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a list was received completely: before that, absence means nothing.
    pub fn is_synced(&self) -> bool {
        self.state().store.is_synced()
    }

    /// A number that is another one after every change.
    pub fn revision(&self) -> u64 {
        self.state().store.revision()
    }

    /// One object, by `name` or `namespace/name`.
    pub fn get(&self, key: &str) -> Option<Arc<K>> {
        self.state().store.get(key).cloned()
    }

    /// Number of objects.
    pub fn count(&self) -> usize {
        self.state().store.iter().count()
    }

    /// All objects, by key.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.state().store.iter().cloned().collect()
    }

    /// Everything that is known, and then every change; and a handle. What is learnt by the handle is not among these changes:
    /// its owner knows it.
    pub fn subscribe(&self) -> (Self, Changes<K>) {
        let queue = Arc::new(ChangeQueue::default());
        let mut state = self.state();
        let new = state.store.iter().map(|object| Change { old: None, new: Some(Arc::clone(object)) });
        let new: Vec<_> = new.collect();
        if state.store.is_synced() || !new.is_empty() {
            queue.push(new);
        }
        state.numbered += 1;
        let number = state.numbered;
        state.subscribers.push(Subscriber { number, queue: Arc::downgrade(&queue) });
        (Self { inner: Arc::clone(&self.inner), subscriber: Some(number) }, Changes(queue))
    }

    /// Returns when no subscriber lags far behind: the watch continues as fast as the slowest of them.
    pub(super) async fn has_room(&self) {
        loop {
            let queues: Vec<_> =
                self.state().subscribers.iter().filter_map(|one| one.queue.upgrade()).collect();
            match queues.into_iter().find(|queue| queue.waiting().len() >= LAG) {
                None => return,
                Some(queue) => queue.room.notified().await,
            }
        }
    }
}

impl<K: Resource + PartialEq> Informer<K> {
    /// Applies an event of the watch. All subscribers get the changes; at the end of a list also if it changes
    /// nothing.
    pub fn handle(&self, event: Event<K>) -> Vec<Change<K>> {
        let event = event.map(|object| self.slimmed(object));
        let is_end = matches!(event, Event::InitDone);
        let mut state = self.state();
        let changes = state.store.handle(event);
        if is_end || !changes.is_empty() {
            state.notify(&changes, None);
        }
        changes
    }

    /// Stores the answer to a write of ours, if the watch has not shown it or something newer already, and notifies all subscribers but the
    /// owner of this handle.
    pub fn learn(&self, object: K) -> Option<Change<K>> {
        let object = self.slimmed(object);
        let mut state = self.state();
        let change = state.store.learn(object)?;
        state.notify(std::slice::from_ref(&change), self.subscriber);
        Some(change)
    }

    fn slimmed(&self, mut object: K) -> Arc<K> {
        (self.inner.slim)(&mut object);
        Arc::new(object)
    }
}

impl<K> InformerState<K> {
    /// Queues the changes for all subscribers but one, and removes dropped subscribers.
    fn notify(&mut self, changes: &[Change<K>], except: Option<u64>) {
        self.subscribers.retain(|subscriber| {
            let Some(queue) = subscriber.queue.upgrade() else { return false };
            if except != Some(subscriber.number) {
                queue.push(changes.to_vec());
            }
            true
        });
    }
}

impl<K> Default for ChangeQueue<K> {
    fn default() -> Self {
        Self { waiting: Mutex::default(), added: Notify::new(), room: Notify::new() }
    }
}

impl<K> ChangeQueue<K> {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Vec<Change<K>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, changes: Vec<Change<K>>) {
        self.waiting().push_back(changes);
        self.added.notify_one();
    }

    fn pop(&self) -> Option<Vec<Change<K>>> {
        let changes = self.waiting().pop_front();
        self.room.notify_one();
        changes
    }
}

impl<K> Changes<K> {
    /// The next changes, which may be none at the end of a list. Nothing is lost where this is dropped.
    pub async fn next(&mut self) -> Vec<Change<K>> {
        loop {
            if let Some(changes) = self.0.pop() {
                return changes;
            }
            self.0.added.notified().await;
        }
    }

    /// The next changes, if there are some already.
    pub fn try_next(&mut self) -> Option<Vec<Change<K>>> {
        self.0.pop()
    }
}

/// A subscriber that is gone holds up no watch.
impl<K> Drop for Changes<K> {
    fn drop(&mut self) {
        self.0.waiting().clear();
        self.0.room.notify_one();
    }
}

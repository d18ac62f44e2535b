//! A store that all who work on a kind share, and who is told of its changes.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use kube::Resource;
use tokio::sync::Notify;

use super::{Change, Store};
use crate::watch::Event;

/// So far a subscriber may lag behind before the watch waits for it.
const LAG: usize = 1024;

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
    queue: Weak<Queue<K>>,
}

/// What a subscriber was not told yet.
struct Queue<K> {
    waiting: Mutex<VecDeque<Vec<Change<K>>>>,
    news: Notify,
    /// It is shorter.
    room: Notify,
}

/// The changes of one kind, for one subscriber.
pub struct Changes<K>(Arc<Queue<K>>);

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
        let queue = Arc::new(Queue::default());
        let mut known = self.known();
        let new = known.store.iter().map(|object| Change { old: None, new: Some(Arc::clone(object)) });
        let new: Vec<_> = new.collect();
        if known.store.is_synced() || !new.is_empty() {
            queue.push(new);
        }
        known.numbered += 1;
        let number = known.numbered;
        known.subscribers.push(Subscriber { number, queue: Arc::downgrade(&queue) });
        (Self { inner: Arc::clone(&self.inner), subscriber: Some(number) }, Changes(queue))
    }

    /// Returns when no subscriber lags far behind: the watch goes on as fast as the slowest of them.
    pub(super) async fn has_room(&self) {
        loop {
            let queues: Vec<_> =
                self.known().subscribers.iter().filter_map(|one| one.queue.upgrade()).collect();
            match queues.into_iter().find(|queue| queue.waiting().len() >= LAG) {
                None => return,
                Some(queue) => queue.room.notified().await,
            }
        }
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
            let Some(queue) = subscriber.queue.upgrade() else { return false };
            if except != Some(subscriber.number) {
                queue.push(changes.to_vec());
            }
            true
        });
    }
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self { waiting: Mutex::default(), news: Notify::new(), room: Notify::new() }
    }
}

impl<K> Queue<K> {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Vec<Change<K>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, changes: Vec<Change<K>>) {
        self.waiting().push_back(changes);
        self.news.notify_one();
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
            self.0.news.notified().await;
        }
    }

    /// The next changes, if there are some already.
    pub fn try_next(&mut self) -> Option<Vec<Change<K>>> {
        self.0.pop()
    }
}

/// Who waits for room waits for nobody who is gone.
impl<K> Drop for Changes<K> {
    fn drop(&mut self) {
        self.0.waiting().clear();
        self.0.room.notify_one();
    }
}

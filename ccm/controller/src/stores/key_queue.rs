//! A queue of the Services or Nodes that a controller is to sync, each once, in order.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::Notify;

/// Keys for one controller, without duplicates: never more than there are objects.
#[derive(Debug)]
pub(crate) struct KeyQueue<K> {
    queued: Mutex<QueuedKeys<K>>,
    notify: Notify,
}

#[derive(Debug)]
struct QueuedKeys<K> {
    order: VecDeque<K>,
    members: HashSet<K>,
}

impl<K> Default for KeyQueue<K> {
    fn default() -> Self {
        let queued = QueuedKeys { order: VecDeque::new(), members: HashSet::new() };
        Self { queued: Mutex::new(queued), notify: Notify::new() }
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> KeyQueue<K> {
    /// Queues `keys`, in this order, after those already queued.
    pub(crate) fn push(&self, keys: impl IntoIterator<Item = K>) {
        let mut queued = self.queued();
        for key in keys {
            if queued.members.insert(key.clone()) {
                queued.order.push_back(key);
            }
        }
        drop(queued);
        self.notify.notify_one();
    }

    fn pop(&self) -> Option<K> {
        let mut queued = self.queued();
        let key = queued.order.pop_front()?;
        queued.members.remove(&key);
        Some(key)
    }

    fn queued(&self) -> MutexGuard<'_, QueuedKeys<K>> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything queued from now on, for one reader; never ends.
    pub(crate) fn stream(self: Arc<Self>) -> BoxStream<'static, K> {
        stream::unfold(self, |key_queue| async move {
            loop {
                match key_queue.pop() {
                    Some(key) => return Some((key, key_queue)),
                    None => key_queue.notify.notified().await,
                }
            }
        })
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_is_named_once_and_in_order_and_again_after_it_was_read() {
        let key_queue = Arc::new(KeyQueue::default());
        key_queue.push(["b", "a", "b"]);
        let mut stream = Arc::clone(&key_queue).stream();
        assert_eq!(stream.next().await, Some("b"));
        key_queue.push(["b"]);
        assert_eq!(stream.next().await, Some("a"));
        assert_eq!(stream.next().await, Some("b"));
    }

    #[tokio::test]
    async fn a_reader_that_waits_is_woken() {
        let key_queue = Arc::new(KeyQueue::default());
        let mut stream = Arc::clone(&key_queue).stream();
        let reader = tokio::spawn(async move { stream.next().await });
        tokio::task::yield_now().await;
        key_queue.push(["a"]);
        assert_eq!(reader.await.expect("reader"), Some("a"));
    }
}

//! What a controller has to look at again, Services or Nodes, each named once, in order.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::Notify;

/// Names for one controller, without duplicates: never more than there are objects.
#[derive(Debug)]
pub(crate) struct Changes<K> {
    named: Mutex<Named<K>>,
    news: Notify,
}

#[derive(Debug)]
struct Named<K> {
    order: VecDeque<K>,
    all: HashSet<K>,
}

impl<K> Default for Changes<K> {
    fn default() -> Self {
        let named = Named { order: VecDeque::new(), all: HashSet::new() };
        Self { named: Mutex::new(named), news: Notify::new() }
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Changes<K> {
    /// Names `keys`, in this order, after those already named.
    pub(crate) fn push(&self, keys: impl IntoIterator<Item = K>) {
        let mut named = self.named();
        for key in keys {
            if named.all.insert(key.clone()) {
                named.order.push_back(key);
            }
        }
        drop(named);
        self.news.notify_one();
    }

    fn pop(&self) -> Option<K> {
        let mut named = self.named();
        let key = named.order.pop_front()?;
        named.all.remove(&key);
        Some(key)
    }

    fn named(&self) -> MutexGuard<'_, Named<K>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything named from now on, for one reader; never ends.
    pub(crate) fn stream(self: Arc<Self>) -> BoxStream<'static, K> {
        stream::unfold(self, |changes| async move {
            loop {
                match changes.pop() {
                    Some(key) => return Some((key, changes)),
                    None => changes.news.notified().await,
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
        let changes = Arc::new(Changes::default());
        changes.push(["b", "a", "b"]);
        let mut stream = Arc::clone(&changes).stream();
        assert_eq!(stream.next().await, Some("b"));
        changes.push(["b"]);
        assert_eq!(stream.next().await, Some("a"));
        assert_eq!(stream.next().await, Some("b"));
    }

    #[tokio::test]
    async fn a_reader_that_waits_is_woken() {
        let changes = Arc::new(Changes::default());
        let mut stream = Arc::clone(&changes).stream();
        let reader = tokio::spawn(async move { stream.next().await });
        tokio::task::yield_now().await;
        changes.push(["a"]);
        assert_eq!(reader.await.expect("reader"), Some("a"));
    }
}

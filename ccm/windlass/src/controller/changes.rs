//! What a controller has to look at again, Services or Nodes, each named once, in order.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use futures::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::Notify;

/// A queue without duplicates: never longer than there are objects.
#[derive(Debug)]
pub(crate) struct Changes<K> {
    queue: Mutex<(VecDeque<K>, HashSet<K>)>,
    news: Notify,
}

impl<K> Default for Changes<K> {
    fn default() -> Self {
        Self { queue: Mutex::default(), news: Notify::new() }
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Changes<K> {
    /// Names `keys`, in this order, after those already named.
    pub(crate) fn push(&self, keys: impl IntoIterator<Item = K>) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let (order, named) = &mut *queue;
        for key in keys {
            if named.insert(key.clone()) {
                order.push_back(key);
            }
        }
        drop(queue);
        self.news.notify_one();
    }

    fn pop(&self) -> Option<K> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let key = queue.0.pop_front()?;
        queue.1.remove(&key);
        Some(key)
    }

    /// Everything named from now on, for one reader; never ends.
    pub(crate) fn stream(self: Arc<Self>) -> BoxStream<'static, K> {
        stream::unfold(self, |changes| async move {
            loop {
                if let Some(key) = changes.pop() {
                    return Some((key, changes));
                }
                changes.news.notified().await;
            }
        })
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use windlass_ccm::ServiceKey;

    use super::*;

    fn key(name: &str) -> ServiceKey {
        ServiceKey { namespace: "ns".into(), name: name.into() }
    }

    #[tokio::test]
    async fn each_service_is_named_once_and_in_order_and_again_after_it_was_read() {
        let changes = Arc::new(Changes::default());
        changes.push([key("b"), key("a"), key("b")]);
        let mut stream = Arc::clone(&changes).stream();
        assert_eq!(stream.next().await, Some(key("b")));
        changes.push([key("b")]);
        assert_eq!(stream.next().await, Some(key("a")));
        assert_eq!(stream.next().await, Some(key("b")));
    }

    #[tokio::test]
    async fn a_reader_that_waits_is_woken() {
        let changes = Arc::new(Changes::default());
        let mut stream = Arc::clone(&changes).stream();
        let reader = tokio::spawn(async move { stream.next().await });
        tokio::task::yield_now().await;
        changes.push([key("a")]);
        assert_eq!(reader.await.expect("reader"), Some(key("a")));
    }
}

//! What a controller has to look at again, Services or Nodes, each named once, in order.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// A queue without duplicates: never longer than there are objects.
#[derive(Debug)]
pub(crate) struct Changes<K> {
    queue: Mutex<Queue<K>>,
    news: Notify,
}

#[derive(Debug)]
struct Queue<K> {
    order: VecDeque<K>,
    named: HashSet<K>,
    /// Those to be named then.
    later: BTreeSet<(Instant, K)>,
}

impl<K> Default for Changes<K> {
    fn default() -> Self {
        let queue = Queue { order: VecDeque::new(), named: HashSet::new(), later: BTreeSet::new() };
        Self { queue: Mutex::new(queue), news: Notify::new() }
    }
}

impl<K: Clone + Ord + Hash> Queue<K> {
    fn push(&mut self, key: K) {
        if self.named.insert(key.clone()) {
            self.order.push_back(key);
        }
    }
}

impl<K: Clone + Ord + Hash + Send + 'static> Changes<K> {
    /// Names `keys`, in this order, after those already named.
    pub(crate) fn push(&self, keys: impl IntoIterator<Item = K>) {
        let mut queue = self.queue();
        keys.into_iter().for_each(|key| queue.push(key));
        drop(queue);
        self.news.notify_one();
    }

    /// Names `key` at `due`.
    pub(crate) fn push_at(&self, key: K, due: Instant) {
        self.queue().later.insert((due, key));
        self.news.notify_one();
    }

    /// The next one, or when one is due.
    fn pop(&self, now: Instant) -> Result<K, Option<Instant>> {
        let mut queue = self.queue();
        while queue.later.first().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, key)) = queue.later.pop_first() {
                queue.push(key);
            }
        }
        let Some(key) = queue.order.pop_front() else {
            return Err(queue.later.first().map(|(due, _)| *due));
        };
        queue.named.remove(&key);
        Ok(key)
    }

    fn queue(&self) -> MutexGuard<'_, Queue<K>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything named from now on, for one reader; never ends.
    pub(crate) fn stream(self: Arc<Self>) -> BoxStream<'static, K> {
        stream::unfold(self, |changes| async move {
            loop {
                match changes.pop(Instant::now()) {
                    Ok(key) => return Some((key, changes)),
                    Err(None) => changes.news.notified().await,
                    Err(Some(due)) => tokio::select! {
                        () = changes.news.notified() => {}
                        () = sleep_until(due) => {}
                    },
                }
            }
        })
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use windlass_ccm::ServiceKey;

    use std::time::Duration;

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

    #[tokio::test(start_paused = true)]
    async fn what_is_due_later_is_named_then_and_what_is_due_now_before_it() {
        let changes = Arc::new(Changes::default());
        let begin = Instant::now();
        changes.push_at(key("b"), begin + Duration::from_secs(9));
        changes.push_at(key("c"), begin + Duration::from_secs(5));
        changes.push([key("a")]);
        let stream = Arc::clone(&changes).stream();
        let order = stream.map(|key| (key.name, begin.elapsed().as_secs())).take(3).collect::<Vec<_>>().await;
        assert_eq!(order, [("a".into(), 0), ("c".into(), 5), ("b".into(), 9)]);
    }
}

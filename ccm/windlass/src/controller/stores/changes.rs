//! What a controller has to look at again, Services or Nodes, in order. Its own queue holds each only once.

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::{Mutex, mpsc};

/// Names for one controller.
#[derive(Debug)]
pub(crate) struct Changes<K> {
    sender: mpsc::UnboundedSender<K>,
    receiver: Mutex<mpsc::UnboundedReceiver<K>>,
}

impl<K> Default for Changes<K> {
    fn default() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self { sender, receiver: Mutex::new(receiver) }
    }
}

impl<K: Send + 'static> Changes<K> {
    /// Names `keys`.
    pub(crate) fn push(&self, keys: impl IntoIterator<Item = K>) {
        // The receiver lives as long as the sender.
        keys.into_iter().for_each(|key| drop(self.sender.send(key)));
    }

    /// Everything named, for one reader; never ends.
    pub(crate) fn stream(self: Arc<Self>) -> BoxStream<'static, K> {
        stream::unfold(self, |changes| async move {
            let key = changes.receiver.lock().await.recv().await?;
            Some((key, changes))
        })
        .boxed()
    }
}

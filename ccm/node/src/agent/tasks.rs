//! The tasks of the agent beside the one that owns its state.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::parts::Parts;

/// Longest delay of the process's end by the last write of the state.
const STATE_LIMIT: Duration = Duration::from_millis(500);

/// Tasks that run until the agent ends. A task may end earlier; one that panics is started again, by [`Parts::keep`].
pub(super) struct Tasks {
    all: JoinSet<()>,
    /// Writer of the state file, which may outlast the others by [`STATE_LIMIT`].
    writer: Option<JoinHandle<()>>,
    parts: Arc<Parts>,
    token: CancellationToken,
}

impl Tasks {
    pub(super) fn new(parts: Arc<Parts>, token: CancellationToken) -> Self {
        Self { all: JoinSet::new(), writer: None, parts, token }
    }

    /// Runs the writer of the state file, which ends soon after the token is cancelled.
    pub(super) fn spawn_writer(&mut self, writer: impl Future<Output = ()> + Send + 'static) {
        self.writer = Some(tokio::spawn(writer));
    }

    /// Returns the task of a part, for [`Self::spawn`]. (No bound can require futures of `body` that can be sent to another thread, so that
    /// one method cannot do both.)
    pub(super) fn kept<B: AsyncFnMut()>(
        &self,
        part: &'static str,
        body: B,
    ) -> impl Future<Output = ()> + use<B> {
        let kept = self.parts.keep(part, &self.token, body);
        async move { kept.await.unwrap_or(()) }
    }

    /// Runs a task that ends when the token is cancelled.
    pub(super) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.all.spawn(task);
    }

    /// Runs a task until the token is cancelled.
    pub(super) fn spawn_until_cancelled(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        let token = self.token.clone();
        self.spawn(async move { token.run_until_cancelled(task).await.unwrap_or(()) });
    }

    /// Waits for all but the writer of the state file, which it returns.
    pub(super) async fn join(mut self) -> Writer {
        while self.all.join_next().await.is_some() {}
        Writer(self.writer)
    }
}

/// The writer of the state file, when all other tasks have ended.
pub(super) struct Writer(Option<JoinHandle<()>>);

impl Writer {
    /// Waits a moment for the last write.
    pub(super) async fn join(self) {
        if let Some(writer) = self.0 {
            let _ = tokio::time::timeout(STATE_LIMIT, writer).await;
        }
    }
}

//! The tasks of the agent beside the one that owns its state.

use std::future::Future;
use std::time::Duration;

use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

/// Longest delay of the process's end by the last write of the state.
const STATE_LIMIT: Duration = Duration::from_millis(500);

/// Tasks that run until the agent ends. A task may end earlier; one that panics ends the agent.
pub(super) struct Tasks {
    all: JoinSet<()>,
    /// Writer of the state file, which may outlast the others by [`STATE_LIMIT`].
    writer: JoinHandle<()>,
    is_writing: bool,
    token: CancellationToken,
}

impl Tasks {
    /// Starts with the writer of the state file, which ends soon after `token` is cancelled.
    pub(super) fn new(writer: impl Future<Output = ()> + Send + 'static, token: CancellationToken) -> Self {
        Self { all: JoinSet::new(), writer: tokio::spawn(writer), is_writing: true, token }
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

    /// Waits until a task panics, and returns that. Cancel safe.
    pub(super) async fn failed(&mut self) -> anyhow::Error {
        loop {
            tokio::select! {
                Some(ended) = self.all.join_next() => if let Err(panicked) = ended {
                    return anyhow::Error::new(panicked).context("a part of the agent failed");
                },
                ended = &mut self.writer, if self.is_writing => match ended {
                    // It was asked to stop, as the agent is about to be.
                    Ok(()) => self.is_writing = false,
                    Err(panicked) => return anyhow::Error::new(panicked).context("the writer of the state failed"),
                },
                else => std::future::pending().await,
            }
        }
    }

    /// Waits for all but the writer of the state file, which it returns.
    pub(super) async fn join(mut self) -> Writer {
        while self.all.join_next().await.is_some() {}
        Writer(self.writer)
    }
}

/// The writer of the state file, when all other tasks have ended.
pub(super) struct Writer(JoinHandle<()>);

impl Writer {
    /// Waits a moment for the last write.
    pub(super) async fn join(self) {
        if !self.0.is_finished() {
            let _ = tokio::time::timeout(STATE_LIMIT, self.0).await;
        }
    }
}

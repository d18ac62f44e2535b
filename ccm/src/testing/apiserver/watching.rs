//! Events of a watch, and its end.

use std::io;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::ApiServer;
use crate::testing::responses::line;

/// Longer than any watch.
const NEVER: Duration = Duration::from_hours(24);

/// A watch that a client has open.
pub(super) struct Watching {
    server: ApiServer,
    /// Start of the server during which the watch began, by its number.
    start: u64,
    client: u64,
    prefix: String,
    /// All up to this version was shown.
    shown: u64,
    end: Instant,
}

impl Watching {
    /// Opens the watch that `query` describes, on the objects of this kind.
    pub(super) fn new(server: &ApiServer, client: u64, plural: &str, query: &str) -> Self {
        let asked = |name: &str| {
            let value = query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
            value.and_then(|value| value.parse::<u64>().ok())
        };
        Self {
            start: server.lock().starts,
            server: server.clone(),
            client,
            prefix: format!("{plural}/"),
            shown: asked("resourceVersion").unwrap_or_default(),
            end: Instant::now() + Duration::from_secs(asked("timeoutSeconds").unwrap_or(300)),
        }
    }

    /// Returns the next lines once there are new events or a bookmark is due; `None` when the watch ends.
    pub(super) async fn lines(&mut self) -> Option<io::Result<Vec<u8>>> {
        let (breaks_after, bookmarks_after) = {
            let inner = self.server.lock();
            (inner.breaks_idle_after, inner.bookmarks_after)
        };
        let breaks = Instant::now() + breaks_after.unwrap_or(NEVER);
        let bookmark = Instant::now() + bookmarks_after.unwrap_or(NEVER);
        loop {
            let changed = self.server.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            self.server.hang_if_cut_off(self.client).await;
            let lines: Vec<String> = {
                let inner = self.server.lock();
                if inner.starts != self.start {
                    return None;
                }
                let since = inner.history.partition_point(|(version, ..)| *version <= self.shown);
                let new = if inner.silent { &[] } else { &inner.history[since..] };
                self.shown = new.last().map_or(self.shown, |(version, ..)| *version);
                let of_kind = new.iter().filter(|(_, _, key, _)| key.starts_with(&self.prefix));
                of_kind.map(|(_, kind, _, object)| line(kind, object)).collect()
            };
            if !lines.is_empty() {
                return Some(Ok((lines.join("\n") + "\n").into_bytes()));
            }
            let silent = self.server.lock().silent;
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(bookmark), if !silent => return Some(Ok(self.bookmark())),
                () = tokio::time::sleep_until(self.end) => return None,
                () = tokio::time::sleep_until(breaks) => return Some(Err(io::ErrorKind::ConnectionReset.into())),
            }
        }
    }

    /// A bookmark of the version up to which all was shown.
    fn bookmark(&self) -> Vec<u8> {
        let metadata = json!({ "resourceVersion": self.shown.to_string() });
        let object = json!({ "kind": "Service", "apiVersion": "v1", "metadata": metadata });
        (line("BOOKMARK", &object) + "\n").into_bytes()
    }
}

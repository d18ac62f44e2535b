//! The status page at `/status`: the objects that this controller watches, as `windlass status` shows them. Sends nothing to the API
//! server.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use http::StatusCode;
use hyper::body::Bytes;
use jiff::Timestamp;
use serde_json::json;
use windlass_ccm::lease::ElectionOptions;
use windlass_ccm::serving::{Page, Pages};
use windlass_controller::{SharedState, StatusPages, WatchedObjects};

use crate::inspect::page::{self, DATA_PATH, PATH};
use crate::inspect::{OwnController, Snapshot};

/// Time for which one answer serves all clients: many clients cost no more than one.
const FRESH: Duration = Duration::from_secs(2);

/// The page, and where it finds the state while this process leads.
#[derive(Debug, Clone, Default)]
pub struct StatusPage(Arc<Mutex<Source>>);

#[derive(Debug, Default)]
struct Source {
    shared: Weak<SharedState>,
    election: Option<(String, String)>,
    since: Timestamp,
    /// Last answer, and the time at which it was made.
    made: Option<(Instant, Bytes)>,
}

impl StatusPages for StatusPage {
    fn pages(&self) -> Pages {
        let source = Arc::clone(&self.0);
        let data = move || source.lock().unwrap_or_else(PoisonError::into_inner).data(Instant::now());
        Pages::default().with(PATH, page::html).with(DATA_PATH, data)
    }

    fn show(&self, shared: &Arc<SharedState>, election: Option<&ElectionOptions>) {
        let election = election.map(|one| (format!("{}/{}", one.namespace, one.name), one.identity.clone()));
        let (shared, since) = (Arc::downgrade(shared), shared.now());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Source { shared, election, since, made: None };
    }
}

impl Source {
    /// Makes the answer under the lock, so that simultaneous clients wait for one answer.
    fn data(&mut self, now: Instant) -> Page {
        let json = |code, body: Bytes| Page::new(code, "application/json", body);
        let words =
            |text: &str| json(StatusCode::SERVICE_UNAVAILABLE, json!({ "message": text }).to_string().into());
        let Some(shared) = self.shared.upgrade() else {
            return words(
                "this controller stands by and watches nothing; ask the one that leads (docs/alerts.md says how to find it)",
            );
        };
        if let Some((made, bytes)) = &self.made
            && now.duration_since(*made) < FRESH
        {
            return json(StatusCode::OK, bytes.clone());
        }
        let Some(snapshot) = self.snapshot(&shared) else {
            return words(
                "this controller has begun to lead and does not know every object yet; wait a moment",
            );
        };
        match page::data(&snapshot) {
            Ok(bytes) => {
                let bytes = Bytes::from(bytes);
                self.made = Some((now, bytes.clone()));
                json(StatusCode::OK, bytes)
            }
            Err(error) => {
                tracing::error!(%error, "the data of the status page cannot be written as JSON");
                words("cannot write the data as JSON; the log has the reason")
            }
        }
    }

    /// Returns what `shared` knows; `None` if not every list is complete.
    fn snapshot(&self, shared: &SharedState) -> Option<Snapshot> {
        let WatchedObjects { settings, now, services, nodes, pools, announcements, vips, routers, networks } =
            shared.objects()?;
        let own = OwnController { settings, election: self.election.clone(), since: self.since };
        Some(Snapshot {
            now,
            services: copies(&services).into(),
            vips: copies(&vips).into(),
            pools: copies(&pools).into(),
            routers: copies(&routers).into(),
            announcements: copies(&announcements).into(),
            networks: copies(&networks).into(),
            nodes: copies(&nodes).into(),
            own: Some(own),
            ..Snapshot::default()
        })
    }
}

fn copies<K: Clone>(objects: &[Arc<K>]) -> Vec<K> {
    objects.iter().map(|object| K::clone(object)).collect()
}

//! A client with an open watch on an object that is written all the time, past the address at which it watches.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    net::IpAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{anyhow, bail};
use futures::{TryStreamExt as _, join};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, WatchEvent, WatchParams},
};
use serde_json::json;
use tokio::time::{interval, timeout};

use crate::{
    api_probe::Silence,
    control_plane,
    lab::Lab,
    running::{Running, Stop, await_more},
};

/// Name of the object, a ConfigMap of namespace `default`.
const WATCHED: &str = "lab-watched";
/// Time from one write to the next.
const PAUSE: Duration = Duration::from_millis(100);
/// A write without an answer is given up.
const PATIENCE: Duration = Duration::from_secs(1);
/// A watch that shows nothing is given up: the object is written ten times a second.
const SILENT: Duration = Duration::from_secs(3);
/// Until a watch is begun again.
const AGAIN: Duration = Duration::from_millis(20);

/// Results of the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchOutcome {
    /// Writes that were answered.
    pub writes: u64,
    /// Writes without an answer.
    pub unwritten: u64,
    /// Events that were seen.
    pub events: u64,
    /// The longest time without one.
    pub silence: Silence,
    /// Number of restarts of the watch: it ended, failed, or showed nothing for three seconds.
    pub broken: u64,
    /// Number of errors, by error, including those of writes.
    pub errors: BTreeMap<String, u64>,
}

/// A running client. Dropping it ends it.
#[derive(Debug)]
pub struct ApiWatch {
    events: Arc<AtomicU64>,
    running: Running<WatchOutcome>,
}

impl Lab {
    /// Watches a ConfigMap from host `client` at `vip`, an address of the API servers, until [`ApiWatch::stop`], while it is written each
    /// 100 ms at the API server of `writer`, a node of the control plane.
    pub fn api_watch(&self, client: &str, vip: IpAddr, writer: &str) -> anyhow::Result<ApiWatch> {
        let (at_vip, at_writer) = (self.kubeconfig_for(vip)?, self.kubeconfig_at(writer)?);
        let events = Arc::new(AtomicU64::new(0));
        let shown = Arc::clone(&events);
        let running =
            Running::start_tasks(self, client, "api-watch", move |stop| run(at_vip, at_writer, stop, shown))?;
        Ok(ApiWatch { events, running })
    }
}

impl ApiWatch {
    /// Waits until so many further events have been seen, by any watch: 10 come in a second.
    pub async fn await_events(&self, count: u64) -> anyhow::Result<()> {
        await_more(&self.events, count, "events are seen").await
    }

    /// Stops the client and returns its results.
    pub fn stop(self) -> anyhow::Result<WatchOutcome> {
        self.running.stop()
    }
}

async fn run(
    at_vip: PathBuf,
    at_writer: PathBuf,
    stop: Stop,
    shown: Arc<AtomicU64>,
) -> anyhow::Result<WatchOutcome> {
    let watched: Api<ConfigMap> = Api::default_namespaced(control_plane::client(&at_vip).await?);
    let written: Api<ConfigMap> = Api::default_namespaced(control_plane::client(&at_writer).await?);
    let (outcome, begin) = (RefCell::new(WatchOutcome::default()), Instant::now());
    let writing = async {
        let mut ticks = interval(PAUSE);
        let mut number = 0_u64;
        while !stop.is_requested() {
            ticks.tick().await;
            number += 1;
            let wrote = timeout(PATIENCE, write(&written, number)).await;
            outcome.borrow_mut().note_write(wrote.unwrap_or_else(|_| Err(anyhow!("no answer within 1 s"))));
        }
        outcome.borrow_mut().silence.ends_at(begin.elapsed());
    };
    let watching = async {
        while !stop.is_requested() {
            let seen = || {
                let mut outcome = outcome.borrow_mut();
                outcome.events += 1;
                shown.store(outcome.events, Ordering::Relaxed);
                outcome.silence.broken_at(begin.elapsed());
            };
            if let Err(error) = watch(&watched, &stop, seen).await {
                outcome.borrow_mut().note_broken(&error);
                tokio::time::sleep(AGAIN).await;
            }
        }
    };
    join!(writing, watching);
    Ok(outcome.into_inner())
}

async fn write(api: &Api<ConfigMap>, number: u64) -> anyhow::Result<()> {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": WATCHED},
        "data": {"number": number.to_string()},
    });
    let params = PatchParams::apply("windlass-lab").force();
    api.patch(WATCHED, &params, &Patch::Apply(object)).await?;
    Ok(())
}

/// Watches until it is stopped; an earlier end of the watch is an error.
async fn watch(api: &Api<ConfigMap>, stop: &Stop, seen: impl Fn()) -> anyhow::Result<()> {
    let params = WatchParams::default().fields(&format!("metadata.name={WATCHED}"));
    let silent = || anyhow!("nothing for {} s", SILENT.as_secs());
    let begun = async {
        let from = api.list_metadata(&ListParams::default()).await?.metadata.resource_version;
        api.watch(&params, &from.unwrap_or_default()).await
    };
    let mut events = std::pin::pin!(timeout(SILENT, begun).await.map_err(|_| silent())??);
    while !stop.is_requested() {
        match timeout(SILENT, events.try_next()).await.map_err(|_| silent())?? {
            Some(WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_)) => seen(),
            Some(WatchEvent::Bookmark(_)) => {}
            Some(WatchEvent::Error(status)) => bail!("{}", status.message),
            None => bail!("it ended"),
        }
    }
    Ok(())
}

impl WatchOutcome {
    fn note_write(&mut self, wrote: anyhow::Result<()>) {
        match wrote {
            Ok(()) => self.writes += 1,
            Err(error) => {
                self.unwritten += 1;
                self.note_error("writing", &error);
            }
        }
    }

    fn note_broken(&mut self, error: &anyhow::Error) {
        self.broken += 1;
        self.note_error("watching", error);
    }

    fn note_error(&mut self, what: &str, error: &anyhow::Error) {
        *self.errors.entry(format!("{what}: {error:#}")).or_default() += 1;
    }
}

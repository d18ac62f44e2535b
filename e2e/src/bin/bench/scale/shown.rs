//! Which Services show an address, as a watch sees it.

use std::{
    cell::RefCell,
    collections::HashSet,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{anyhow, bail};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, Object},
    runtime::watcher::{self, Event, watcher},
};
use serde::Deserialize;
use tokio::sync::Notify;

/// How often is told how far it got.
const TELL: Duration = Duration::from_secs(5);

/// What of a Service is looked at.
type Seen = Object<Ignored, Status>;

#[derive(Clone, Debug, Deserialize)]
struct Ignored {}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    load_balancer: Balancer,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Balancer {
    #[serde(default)]
    ingress: Vec<Ignored>,
}

/// The names of the Services that show an address. One thread.
#[derive(Default)]
pub(crate) struct Shown {
    names: RefCell<HashSet<String>>,
    news: Notify,
}

impl Shown {
    /// Watches all Services; ends only when the watch cannot go on.
    pub(crate) async fn follow(&self, client: &Client) -> anyhow::Error {
        let api: Api<Seen> = Api::all_with(client.clone(), &ApiResource::erase::<Service>(&()));
        let mut events = pin!(watcher(api, watcher::Config::default()));
        loop {
            match events.next().await {
                Some(Ok(Event::Apply(service) | Event::InitApply(service))) => self.note(&service),
                Some(Ok(Event::Init | Event::InitDone | Event::Delete(_))) => {}
                Some(Err(error)) => return error.into(),
                None => return anyhow!("it has ended"),
            }
        }
    }

    fn note(&self, service: &Seen) {
        let shows = service.status.as_ref().is_some_and(|status| !status.load_balancer.ingress.is_empty());
        if shows && self.names.borrow_mut().insert(service.name_any()) {
            self.news.notify_one();
        }
    }

    /// Waits until there are `wanted`.
    pub(crate) async fn reach(&self, wanted: usize, limit: Duration) -> anyhow::Result<()> {
        let began = Instant::now();
        let mut told = began;
        loop {
            let count = self.names.borrow().len();
            if count >= wanted {
                return Ok(());
            }
            if began.elapsed() > limit {
                bail!("after {} s only {count} of {wanted} Services have their address", limit.as_secs());
            }
            if told.elapsed() >= TELL {
                told = Instant::now();
                println!("bench: {count} of {wanted} have their address");
            }
            // News come often or not at all.
            let _ = tokio::time::timeout(TELL, self.news.notified()).await;
        }
    }
}

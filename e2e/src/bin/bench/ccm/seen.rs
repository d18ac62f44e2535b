//! What a watch of Services shows, and when.

use std::{
    cell::RefCell,
    collections::HashMap,
    net::IpAddr,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{anyhow, bail};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, Client, ResourceExt as _,
    runtime::watcher::{self, Event, watcher},
};
use tokio::sync::Notify;

/// The Services that show an address, and those that are gone. One thread.
#[derive(Default)]
pub(crate) struct Seen {
    shown: RefCell<HashMap<String, (Instant, IpAddr)>>,
    gone: RefCell<HashMap<String, Instant>>,
    news: Notify,
}

impl Seen {
    /// Watches all Services; ends only when the watch cannot go on.
    pub(crate) async fn follow(&self, client: &Client) -> anyhow::Error {
        let mut events = pin!(watcher(Api::<Service>::all(client.clone()), watcher::Config::default()));
        loop {
            match events.next().await {
                Some(Ok(Event::Apply(service) | Event::InitApply(service))) => self.note(&service),
                Some(Ok(Event::Delete(service))) => {
                    self.gone.borrow_mut().insert(service.name_any(), Instant::now());
                }
                Some(Ok(Event::Init | Event::InitDone)) => {}
                Some(Err(error)) => return error.into(),
                None => return anyhow!("it has ended"),
            }
            self.news.notify_waiters();
        }
    }

    fn note(&self, service: &Service) {
        let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let first = status.and_then(|status| status.ingress.as_deref()?.first()?.ip.as_deref());
        if let Some(address) = first.and_then(|text| text.parse().ok()) {
            self.shown.borrow_mut().entry(service.name_any()).or_insert((Instant::now(), address));
        }
    }

    /// How many showed an address so far.
    pub(crate) fn count(&self) -> usize {
        self.shown.borrow().len()
    }

    /// When the Service showed its address first.
    pub(crate) async fn address(&self, name: &str, limit: Duration) -> anyhow::Result<(Instant, IpAddr)> {
        self.wait(&format!("Service {name} shows no address"), limit, || {
            self.shown.borrow().get(name).copied()
        })
        .await
    }

    /// When it was gone.
    pub(crate) async fn gone(&self, name: &str, limit: Duration) -> anyhow::Result<Instant> {
        self.wait(&format!("Service {name} is not gone"), limit, || self.gone.borrow().get(name).copied())
            .await
    }

    /// Waits for news until there is what is looked for.
    pub(crate) async fn wait<T>(
        &self,
        complaint: &str,
        limit: Duration,
        look: impl Fn() -> Option<T>,
    ) -> anyhow::Result<T> {
        let began = Instant::now();
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            let Some(left) = limit.checked_sub(began.elapsed()) else {
                bail!("after {} s {complaint}", limit.as_secs());
            };
            let _ = tokio::time::timeout(left, self.news.notified()).await;
        }
    }
}

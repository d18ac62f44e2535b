//! Watch of Services: which show an address, which are gone, and since when.

use std::{
    cell::RefCell,
    collections::HashMap,
    net::IpAddr,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{anyhow, bail};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Service, ServiceStatus};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, Object},
};
use kube_runtime::watcher::{self, Event, watcher};
use serde::de::IgnoredAny;
use tokio::sync::Notify;

use crate::progress::{self, Progress};

/// The part of a Service that is read: the client takes as little of the machine as it can.
type Shown = Object<IgnoredAny, ServiceStatus>;

/// Services that show an address, and those that are gone. One thread.
#[derive(Default)]
pub(crate) struct Seen {
    shown: RefCell<HashMap<String, (Instant, IpAddr)>>,
    gone: RefCell<HashMap<String, Instant>>,
    changed: Notify,
}

impl Seen {
    /// Watches all Services; ends only when the watch cannot continue.
    pub(crate) async fn follow(&self, client: &Client) -> anyhow::Error {
        let api: Api<Shown> = Api::all_with(client.clone(), &ApiResource::erase::<Service>(&()));
        let mut events = pin!(watcher(api, watcher::Config::default()));
        loop {
            match events.next().await {
                Some(Ok(Event::Apply(service) | Event::InitApply(service))) => self.record(&service),
                Some(Ok(Event::Delete(service))) => {
                    self.gone.borrow_mut().insert(service.name_any(), Instant::now());
                }
                Some(Ok(Event::Init | Event::InitDone)) => {}
                Some(Err(error)) => return anyhow::Error::from(error).context("watching the Services"),
                None => return anyhow!("the watch of the Services has ended"),
            }
            self.changed.notify_waiters();
        }
    }

    fn record(&self, service: &Shown) {
        let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let first = balancer.and_then(|balancer| balancer.ingress.as_deref()?.first()?.ip.as_deref());
        if let Some(address) = first.and_then(|text| text.parse().ok()) {
            self.shown.borrow_mut().entry(service.name_any()).or_insert((Instant::now(), address));
        }
    }

    /// Waits until `count` Services have shown an address.
    pub(crate) async fn reach(&self, count: usize, limit: Duration) -> anyhow::Result<()> {
        let mut progress = Progress::new(count);
        self.wait(&format!("not all of {count} Services have their address"), limit, || {
            let shown = self.shown.borrow().len();
            progress.print(shown, "have their address");
            (shown >= count).then_some(())
        })
        .await
    }

    /// Waits until the Service shows an address; returns when it showed it first, and the address.
    pub(crate) async fn address(&self, name: &str, limit: Duration) -> anyhow::Result<(Instant, IpAddr)> {
        let shown = || self.shown.borrow().get(name).copied();
        self.wait(&format!("Service {name} shows no address"), limit, shown).await
    }

    /// Waits until the Service is gone; returns when that was.
    pub(crate) async fn gone(&self, name: &str, limit: Duration) -> anyhow::Result<Instant> {
        let gone = || self.gone.borrow().get(name).copied();
        self.wait(&format!("Service {name} is not gone"), limit, gone).await
    }

    /// Looks after each event, and now and then without one.
    async fn wait<T>(
        &self,
        complaint: &str,
        limit: Duration,
        mut look: impl FnMut() -> Option<T>,
    ) -> anyhow::Result<T> {
        let began = Instant::now();
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            let Some(left) = limit.checked_sub(began.elapsed()) else {
                bail!("after {} s {complaint}", limit.as_secs());
            };
            let _ = tokio::time::timeout(left.min(progress::PAUSE), self.changed.notified()).await;
        }
    }
}

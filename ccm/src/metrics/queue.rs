//! The metrics of the work queues, under client-go's names and with its buckets (service-contract S-51).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;

/// All queues of a process, by name.
#[derive(Debug, Clone)]
pub(crate) struct QueueMetrics {
    depth: Family<QueueLabels, Gauge>,
    adds: Family<QueueLabels, Counter>,
    retries: Family<QueueLabels, Counter>,
    queue_seconds: Family<QueueLabels, Histogram, fn() -> Histogram>,
    work_seconds: Family<QueueLabels, Histogram, fn() -> Histogram>,
    under_way: UnderWay,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    name: &'static str,
}

impl Default for QueueMetrics {
    fn default() -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(exponential_buckets(1e-8, 10.0, 10));
        Self {
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            queue_seconds: Family::new_with_constructor(seconds),
            work_seconds: Family::new_with_constructor(seconds),
            under_way: UnderWay::default(),
        }
    }
}

impl QueueMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("workqueue_depth", "Items waiting", self.depth.clone());
        registry.register("workqueue_adds", "Items added", self.adds.clone());
        registry.register("workqueue_retries", "Items added again after a failure", self.retries.clone());
        registry.register_with_unit(
            "workqueue_queue_duration",
            "Time one item waited after it was due",
            Unit::Seconds,
            self.queue_seconds.clone(),
        );
        registry.register_with_unit(
            "workqueue_work_duration",
            "Time one item took",
            Unit::Seconds,
            self.work_seconds.clone(),
        );
        registry.register_collector(Box::new(self.under_way.clone()));
    }

    pub(crate) fn of(&self, name: &'static str) -> QueueGauges {
        let labels = QueueLabels { name };
        self.under_way.queues().entry(name).or_default();
        QueueGauges {
            name,
            depth: self.depth.get_or_create(&labels).clone(),
            adds: self.adds.get_or_create(&labels).clone(),
            retries: self.retries.get_or_create(&labels).clone(),
            queue_seconds: self.queue_seconds.get_or_create(&labels).clone(),
            work_seconds: self.work_seconds.get_or_create(&labels).clone(),
            under_way: self.under_way.clone(),
        }
    }
}

/// The metrics of one queue.
#[derive(Debug, Clone)]
pub(crate) struct QueueGauges {
    name: &'static str,
    pub(crate) depth: Gauge,
    pub(crate) adds: Counter,
    pub(crate) retries: Counter,
    queue_seconds: Histogram,
    work_seconds: Histogram,
    under_way: UnderWay,
}

impl QueueGauges {
    /// Work on an item begins at `now`; it was due at `since`.
    pub(crate) fn begin(&self, since: Instant, now: Instant) -> Work {
        self.queue_seconds.observe(now.saturating_duration_since(since).as_secs_f64());
        let mut queues = self.under_way.queues();
        let queue = queues.entry(self.name).or_default();
        let id = queue.next;
        queue.next += 1;
        queue.began.insert(id, now);
        Work {
            name: self.name,
            id,
            began: now,
            seconds: self.work_seconds.clone(),
            under_way: self.under_way.clone(),
        }
    }
}

/// A piece of work under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct Work {
    name: &'static str,
    id: u64,
    began: Instant,
    seconds: Histogram,
    under_way: UnderWay,
}

impl Work {
    /// The work was done. (Work that is only dropped was given up, and is not counted.)
    pub(crate) fn end(self, now: Instant) {
        self.seconds.observe(now.saturating_duration_since(self.began).as_secs_f64());
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(queue) = self.under_way.queues().get_mut(self.name) {
            queue.began.remove(&self.id);
        }
    }
}

/// Work that has not ended, read when the metrics are asked for: what hangs is in no histogram.
#[derive(Debug, Clone, Default)]
struct UnderWay(Arc<Mutex<BTreeMap<&'static str, Queue>>>);

#[derive(Debug, Default)]
struct Queue {
    next: u64,
    began: HashMap<u64, Instant>,
}

impl Queue {
    fn ages(&self, now: Instant) -> impl Iterator<Item = Duration> {
        self.began.values().map(move |began| now.saturating_duration_since(*began))
    }
}

impl UnderWay {
    fn queues(&self) -> MutexGuard<'_, BTreeMap<&'static str, Queue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for UnderWay {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = Instant::now();
        let ages: Vec<(QueueLabels, Duration, Duration)> = {
            let queues = self.queues();
            let ages = queues.iter().map(|(name, queue)| {
                (QueueLabels { name }, queue.ages(now).sum(), queue.ages(now).max().unwrap_or_default())
            });
            ages.collect()
        };
        let mut gauge =
            |name: &str, help: &str, value: fn(&(QueueLabels, Duration, Duration)) -> Duration| {
                let mut family =
                    encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Gauge)?;
                for row in &ages {
                    ConstGauge::new(value(row).as_secs_f64()).encode(family.encode_family(&row.0)?)?;
                }
                fmt::Result::Ok(())
            };
        gauge("workqueue_unfinished_work", "Age of all work under way, summed up", |row| row.1)?;
        gauge("workqueue_longest_running_processor", "Age of the oldest work under way", |row| row.2)
    }
}

#[cfg(test)]
mod tests;

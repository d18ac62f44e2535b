//! The metrics of the work queues, under client-go's names and with its buckets (service-contract S-51).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    register_histogram_vec_with_registry, register_int_counter_vec_with_registry,
    register_int_gauge_vec_with_registry,
};
use tokio::time::Instant;

/// The label of every metric: the queue's name.
const LABELS: &[&str] = &["name"];
/// Seconds. Written out: `exponential_buckets` makes 0.000009999999999999999 of 1e-5.
const BUCKETS: [f64; 10] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0];

/// All queues of a process, by name.
#[derive(Debug, Clone)]
pub(crate) struct QueueMetrics {
    depth: IntGaugeVec,
    adds: IntCounterVec,
    retries: IntCounterVec,
    queue_seconds: HistogramVec,
    work_seconds: HistogramVec,
    unfinished_work: UnfinishedWork,
}

impl QueueMetrics {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let unfinished_work = UnfinishedWork::new()?;
        registry.register(Box::new(unfinished_work.clone()))?;
        Ok(Self {
            depth: register_int_gauge_vec_with_registry!(
                "workqueue_depth",
                "Items waiting: Services (`service`), Nodes (`Nodes`), Nodes that are not ready \
                 (`node-lifecycle`)",
                LABELS,
                registry
            )?,
            adds: register_int_counter_vec_with_registry!(
                "workqueue_adds_total",
                "Items added",
                LABELS,
                registry
            )?,
            retries: register_int_counter_vec_with_registry!(
                "workqueue_retries_total",
                "Items added again after a failure",
                LABELS,
                registry
            )?,
            queue_seconds: register_histogram_vec_with_registry!(
                "workqueue_queue_duration_seconds",
                "Time one item waited after it was due",
                LABELS,
                BUCKETS.to_vec(),
                registry
            )?,
            work_seconds: register_histogram_vec_with_registry!(
                "workqueue_work_duration_seconds",
                "Time one item took",
                LABELS,
                BUCKETS.to_vec(),
                registry
            )?,
            unfinished_work,
        })
    }

    pub(crate) fn of(&self, name: &'static str) -> QueueGauges {
        self.unfinished_work.queues().entry(name).or_default();
        QueueGauges {
            name,
            depth: self.depth.with_label_values(&[name]),
            adds: self.adds.with_label_values(&[name]),
            retries: self.retries.with_label_values(&[name]),
            queue_seconds: self.queue_seconds.with_label_values(&[name]),
            work_seconds: self.work_seconds.with_label_values(&[name]),
            unfinished_work: self.unfinished_work.clone(),
        }
    }
}

/// The metrics of one queue.
#[derive(Debug, Clone)]
pub(crate) struct QueueGauges {
    name: &'static str,
    pub(crate) depth: IntGauge,
    pub(crate) adds: IntCounter,
    pub(crate) retries: IntCounter,
    queue_seconds: Histogram,
    work_seconds: Histogram,
    unfinished_work: UnfinishedWork,
}

impl QueueGauges {
    /// Work on an item begins at `now`; it was due at `since`.
    pub(crate) fn begin(&self, since: Instant, now: Instant) -> WorkTimer {
        self.queue_seconds.observe(now.saturating_duration_since(since).as_secs_f64());
        let mut queues = self.unfinished_work.queues();
        let queue = queues.entry(self.name).or_default();
        let id = queue.next;
        queue.next += 1;
        queue.began.insert(id, now);
        WorkTimer {
            name: self.name,
            id,
            began: now,
            seconds: self.work_seconds.clone(),
            unfinished_work: self.unfinished_work.clone(),
        }
    }
}

/// A piece of work under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct WorkTimer {
    name: &'static str,
    id: u64,
    began: Instant,
    seconds: Histogram,
    unfinished_work: UnfinishedWork,
}

impl WorkTimer {
    /// The work was done. (Work that is only dropped was given up, and is not counted.)
    pub(crate) fn end(self, now: Instant) {
        self.seconds.observe(now.saturating_duration_since(self.began).as_secs_f64());
    }
}

impl Drop for WorkTimer {
    fn drop(&mut self) {
        if let Some(queue) = self.unfinished_work.queues().get_mut(self.name) {
            queue.began.remove(&self.id);
        }
    }
}

/// Work that has not ended, read when the metrics are asked for: what hangs is in no histogram.
#[derive(Debug, Clone)]
struct UnfinishedWork {
    queues: Arc<Mutex<BTreeMap<&'static str, InFlight>>>,
    unfinished: GaugeVec,
    longest: GaugeVec,
}

#[derive(Debug, Default)]
struct InFlight {
    next: u64,
    began: HashMap<u64, Instant>,
}

impl InFlight {
    fn ages(&self, now: Instant) -> impl Iterator<Item = Duration> {
        self.began.values().map(move |began| now.saturating_duration_since(*began))
    }
}

impl UnfinishedWork {
    fn new() -> prometheus::Result<Self> {
        Ok(Self {
            queues: Arc::default(),
            unfinished: GaugeVec::new(
                Opts::new("workqueue_unfinished_work_seconds", "Age of all work in progress, summed up"),
                LABELS,
            )?,
            longest: GaugeVec::new(
                Opts::new(
                    "workqueue_longest_running_processor_seconds",
                    "Age of the oldest work in progress",
                ),
                LABELS,
            )?,
        })
    }

    fn queues(&self) -> MutexGuard<'_, BTreeMap<&'static str, InFlight>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for UnfinishedWork {
    fn desc(&self) -> Vec<&Desc> {
        [self.unfinished.desc(), self.longest.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let now = Instant::now();
        for (name, queue) in self.queues().iter() {
            let (sum, most) = (queue.ages(now).sum::<Duration>(), queue.ages(now).max().unwrap_or_default());
            self.unfinished.with_label_values(&[name]).set(sum.as_secs_f64());
            self.longest.with_label_values(&[name]).set(most.as_secs_f64());
        }
        [self.unfinished.collect(), self.longest.collect()].concat()
    }
}

#[cfg(test)]
mod tests;

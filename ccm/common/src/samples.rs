//! Metrics that are read when they are asked for, as families of samples: one metric with any number of label sets.

use std::collections::HashMap;

use prometheus::Registry;
use prometheus::core::{Collector, Desc, Number};
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

/// Registers the metrics that `families` returns at each scrape. Its present result gives the registry the names: it has all of them,
/// also those without samples, which are not shown.
pub fn register(
    registry: &Registry,
    families: impl Fn() -> Vec<MetricFamily> + Send + Sync + 'static,
) -> prometheus::Result<()> {
    let desc = |family: &MetricFamily| {
        Desc::new(family.name().to_owned(), family.help().to_owned(), Vec::new(), HashMap::new())
    };
    let descs = families().iter().map(desc).collect::<prometheus::Result<_>>()?;
    registry.register(Box::new(Families { descs, families }))
}

struct Families<F> {
    descs: Vec<Desc>,
    families: F,
}

impl<F: Fn() -> Vec<MetricFamily> + Send + Sync> Collector for Families<F> {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        (self.families)()
    }
}

/// Counters.
pub fn counters<const N: usize>(
    name: &str,
    help: &str,
    labels: [&str; N],
    samples: impl IntoIterator<Item = ([String; N], u64)>,
) -> MetricFamily {
    let metrics = samples.into_iter().map(|(values, value)| {
        let mut counter = Counter::default();
        counter.set_value(value.into_f64());
        let mut metric = Metric::from_label(pairs(labels, values));
        metric.set_counter(counter);
        metric
    });
    family(name, help, MetricType::COUNTER, metrics.collect())
}

/// Gauges.
pub fn gauges<const N: usize>(
    name: &str,
    help: &str,
    labels: [&str; N],
    samples: impl IntoIterator<Item = ([String; N], impl Number)>,
) -> MetricFamily {
    let metrics = samples.into_iter().map(|(values, value)| {
        let mut gauge = Gauge::default();
        gauge.set_value(value.into_f64());
        let mut metric = Metric::from_label(pairs(labels, values));
        metric.set_gauge(gauge);
        metric
    });
    family(name, help, MetricType::GAUGE, metrics.collect())
}

/// Metrics of one name.
pub fn family(name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

fn pairs<const N: usize>(labels: [&str; N], values: [String; N]) -> Vec<LabelPair> {
    let pairs = labels.into_iter().zip(values).map(|(name, value)| {
        let mut pair = LabelPair::default();
        pair.set_name(name.to_owned());
        pair.set_value(value);
        pair
    });
    pairs.collect()
}

//! The calls of a process to the API server, as it counts them itself.

use std::ops::AddAssign;

use anyhow::Context as _;
use windlass_e2e::{Lab, metric_label};

/// A process of Windlass.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Process {
    Controller,
    /// On this node.
    Agent(&'static str),
}

/// Since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    /// Watches opened.
    pub(crate) watches: u64,
    /// Other calls that only read.
    pub(crate) reads: u64,
    /// Renewals of the lease: nothing else is written by PUT.
    pub(crate) renewals: u64,
    /// All other calls.
    pub(crate) writes: u64,
}

impl Calls {
    pub(crate) async fn of(lab: &Lab, process: Process) -> anyhow::Result<Self> {
        let text = match process {
            Process::Controller => lab.ask_controller(10258, "/metrics").await,
            Process::Agent(node) => lab.agent_metrics(node).await,
        };
        parse(&text.with_context(|| format!("reading the metrics of the {process:?}"))?)
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            watches: self.watches - before.watches,
            reads: self.reads - before.reads,
            renewals: self.renewals - before.renewals,
            writes: self.writes - before.writes,
        }
    }
}

impl AddAssign for Calls {
    fn add_assign(&mut self, other: Self) {
        self.watches += other.watches;
        self.reads += other.reads;
        self.renewals += other.renewals;
        self.writes += other.writes;
    }
}

fn parse(text: &str) -> anyhow::Result<Calls> {
    let mut calls = Calls::default();
    let (mut gets, mut timed_gets) = (0, 0);
    for line in text.lines() {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        let count = || value.parse::<u64>().with_context(|| format!("the metric's line {line:?}"));
        if series.starts_with("rest_client_requests_total{") {
            match metric_label(series, "method") {
                Some("GET") => gets += count()?,
                Some("PUT") => calls.renewals += count()?,
                _ => calls.writes += count()?,
            }
        } else if series.starts_with("rest_client_request_duration_seconds_count{")
            && metric_label(series, "verb") == Some("GET")
        {
            timed_gets += count()?;
        }
    }
    // A watch is counted, but not timed; a read under way the same, for a moment.
    (calls.watches, calls.reads) = (gets - timed_gets.min(gets), timed_gets);
    Ok(calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_are_the_reads_that_are_not_timed() -> anyhow::Result<()> {
        let text = r#"# TYPE rest_client_requests_total counter
rest_client_requests_total{code="200",host="192.0.2.10:6443",method="GET"} 12
rest_client_requests_total{code="404",host="192.0.2.10:6443",method="GET"} 1
rest_client_requests_total{code="200",host="192.0.2.10:6443",method="PUT"} 30
rest_client_requests_total{code="201",host="192.0.2.10:6443",method="POST"} 4
rest_client_requests_total{code="409",host="192.0.2.10:6443",method="PATCH"} 2
rest_client_request_duration_seconds_sum{host="192.0.2.10:6443",verb="GET"} 0.1
rest_client_request_duration_seconds_count{host="192.0.2.10:6443",verb="GET"} 5
rest_client_request_duration_seconds_count{host="192.0.2.10:6443",verb="PUT"} 30
"#;
        let calls = parse(text)?;
        assert_eq!(calls, Calls { watches: 8, reads: 5, renewals: 30, writes: 6 });
        assert_eq!(calls.since(Calls { watches: 1, reads: 1, renewals: 1, writes: 1 }).reads, 4);
        Ok(())
    }
}

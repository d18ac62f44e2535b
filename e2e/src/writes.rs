//! Counts write requests to the API server, from its own metrics.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, Client,
    api::{GetParams, ListParams, Request},
};

/// Resources that Windlass writes, leases apart: those are the election's, a fixed number per second.
const RESOURCES: [&str; 7] =
    ["services", "events", "virtualips", "virtualrouters", "virtualippools", "nodenetworks", "nodes"];
/// Nothing is written any more when nothing was for this long: a pool's counts may be held back for 5 seconds.
const QUIET: Duration = Duration::from_secs(7);
const LOOK: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_mins(15);

/// Requests that write, by `VERB resource/subresource`, and by the answer's code behind that where it was no success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writes {
    counts: BTreeMap<String, u64>,
    /// Events about leases (`… became leader`), which `counts` holds, too.
    election: u64,
}

impl Writes {
    /// The counts, once they have stood still.
    pub async fn settled(client: &Client) -> anyhow::Result<Self> {
        let began = Instant::now();
        let mut last = read(client).await?;
        let mut since = Instant::now();
        while since.elapsed() < QUIET {
            if began.elapsed() > LIMIT {
                bail!("the writes do not end within {} s", LIMIT.as_secs());
            }
            tokio::time::sleep(LOOK).await;
            let counts = read(client).await?;
            if counts != last {
                (last, since) = (counts, Instant::now());
            }
        }
        let events: Api<Event> = Api::all(client.clone());
        let leases = ListParams::default().fields("involvedObject.kind=Lease");
        let election = events.list_metadata(&leases).await?.items.len();
        Ok(Self { counts: last, election: u64::try_from(election)? })
    }

    /// Returns the requests after `before`, without creations of Services and events of the election.
    pub fn since(&self, before: &Self) -> BTreeMap<String, u64> {
        let mut counts = self.counts.clone();
        let mut subtract = |name: &str, less: u64| {
            if let Some(count) = counts.get_mut(name) {
                *count = count.saturating_sub(less);
            }
        };
        for (name, count) in &before.counts {
            subtract(name, *count);
        }
        subtract("POST events", self.election.saturating_sub(before.election));
        counts.remove("POST services");
        counts.retain(|_, count| *count > 0);
        counts
    }
}

async fn read(client: &Client) -> anyhow::Result<BTreeMap<String, u64>> {
    let request = Request::new("").get("metrics", &GetParams::default())?;
    let text = client.request_text(request).await.context("reading the API server's metrics")?;
    parse(&text)
}

fn parse(text: &str) -> anyhow::Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let Some((labels, value)) =
            line.strip_prefix("apiserver_request_total{").and_then(|rest| rest.rsplit_once("} "))
        else {
            continue;
        };
        let label = |name| metric_label(labels, name);
        let (verb, resource) = (label("verb").unwrap_or_default(), label("resource").unwrap_or_default());
        if !["POST", "PUT", "PATCH", "APPLY", "DELETE"].contains(&verb) || !RESOURCES.contains(&resource) {
            continue;
        }
        let subresource = label("subresource").unwrap_or_default();
        let slash = if subresource.is_empty() { "" } else { "/" };
        let code = label("code").filter(|code| !code.starts_with('2'));
        let code = code.map_or_else(String::new, |code| format!(" {code}"));
        let count = value.parse::<f64>().with_context(|| format!("the metric's line {line:?}"))?;
        *counts.entry(format!("{verb} {resource}{slash}{subresource}{code}")).or_default() += whole(count);
    }
    Ok(counts)
}

/// Returns the value of a label of a series in Prometheus' text format.
pub fn metric_label<'a>(series: &'a str, name: &str) -> Option<&'a str> {
    let start = series.find(&format!("{name}=\""))? + name.len() + 2;
    series[start..].split('"').next()
}

/// Counters are whole and far below 2^53.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a counter")]
fn whole(count: f64) -> u64 {
    count as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_verb_and_resource_and_refused_ones_apart() -> anyhow::Result<()> {
        let text = r#"# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="services",scope="resource",subresource="status",verb="PATCH",version="v1"} 7
apiserver_request_total{code="409",component="apiserver",dry_run="",group="",resource="services",scope="resource",subresource="status",verb="PATCH",version="v1"} 2
apiserver_request_total{code="201",component="apiserver",dry_run="",group="windlass.dev",resource="virtualips",scope="resource",subresource="",verb="POST",version="v1alpha1"} 1e+04
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="services",scope="cluster",subresource="",verb="LIST",version="v1"} 3
apiserver_request_total{code="200",component="apiserver",dry_run="",group="coordination.k8s.io",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 3
"#;
        let counts = parse(text)?;
        let expected =
            [("PATCH services/status", 7), ("PATCH services/status 409", 2), ("POST virtualips", 10_000)];
        assert_eq!(counts, expected.map(|(what, count)| (what.to_owned(), count)).into());
        Ok(())
    }

    #[test]
    fn creations_of_services_and_the_elections_events_are_no_writes_of_ours() {
        let writes = |services, events, election| Writes {
            counts: [("POST services".to_owned(), services), ("POST events".to_owned(), events)].into(),
            election,
        };
        assert!(writes(9, 6, 3).since(&writes(1, 4, 1)).is_empty());
        assert_eq!(writes(9, 7, 3).since(&writes(1, 4, 1)), [("POST events".to_owned(), 1)].into());
    }
}

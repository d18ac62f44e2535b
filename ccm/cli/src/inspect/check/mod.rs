//! `windlass check`: whether a cluster, and this host, are fit for Windlass, before it is installed and after. Only reads, but for `pairs`.
//!
//! | file | concept |
//! |---|---|
//! | `survey` | objects that are read from the API server besides those of `status` |
//! | `cluster` | definitions, kube-proxy, nodes, Services, versions, foreign routers (pure) |
//! | `rivals` | other programs that serve Services of type LoadBalancer (pure) |
//! | `host` | state of this host and its findings: a file for each concept |
//! | `adverts` | adverts of VRRP that arrive here |
//! | `pairs` | whether VRRP passes between every two nodes, tried by pods |
//!
//! The problems that `status` reports are reported here, too. The agents test all the time that multicast of VRRP passes between the Active
//! of a virtual router and the nodes that would take over: `spec.withoutMulticast` of their NodeNetworks lists pairs between which it does
//! not. With `--host`, this host listens for all nodes that are Active. With `--pairs` it is tested between all nodes, also where neither
//! of two is Active, or no agent runs yet.

mod adverts;
mod cluster;
mod host;
mod pairs;
mod rivals;
mod survey;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use windlass_node::agent::proxy_mode;

use self::host::Host;
pub(super) use self::pairs::exchange;
use self::pairs::{TrialOptions, Tried, try_pairs};
use self::survey::Survey;
use super::args::CheckArgs;
use super::connect;
use super::exit_code;
use super::problems::{self, Problem, Severity};
use super::read::{Kind, Reader};
use super::snapshot::{Cause, Missing, Snapshot};
use super::status::text::problems_text;
use super::table::aligned;

#[cfg(test)]
mod tests;

/// Address at which kube-proxy reports its mode by default.
const PROXY_METRICS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10249);

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// The API server; empty: none was asked.
    server: String,
    time: Time,
    /// Version of this program.
    version: &'static str,
    /// True if Windlass' definitions are in the cluster; absent: no cluster was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_installed: Option<bool>,
    /// True if part of the cluster could not be read; the findings name it.
    is_incomplete: bool,
    /// The worst first.
    findings: Vec<Problem>,
    /// Facts that were looked at, in a few words each.
    looked_at: Vec<Fact>,
}

/// Fact that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Fact {
    name: &'static str,
    value: String,
}

impl Report {
    /// Builds the report of a cluster, of this host, or both, and of the trial between nodes if there was one.
    fn of(
        snapshot: Option<&Snapshot>,
        survey: &Survey,
        tried: Option<&[Tried]>,
        host: Option<&Host>,
        now: Timestamp,
    ) -> Self {
        let mut report = Self {
            server: String::new(),
            time: Time(now),
            version: env!("CARGO_PKG_VERSION"),
            is_installed: None,
            is_incomplete: false,
            findings: Vec::new(),
            looked_at: Vec::new(),
        };
        if let Some(snapshot) = snapshot {
            report.add_cluster(snapshot, survey);
        }
        if let Some(tried) = tried {
            report.is_incomplete |= tried.iter().any(|one| one.report.is_err());
            report.findings.extend(pairs::findings(tried));
            report.looked_at.extend(pairs::facts(tried));
        }
        if let Some(host) = host {
            report.findings.extend(host::findings(host, snapshot));
            report.looked_at.extend(host::facts(host));
        }
        // Stable: what comes first of a severity matters more.
        report.findings.sort_by_key(|finding| finding.severity);
        report
    }

    fn add_cluster(&mut self, snapshot: &Snapshot, survey: &Survey) {
        self.server.clone_from(&snapshot.server);
        let is_installed = cluster::is_installed(snapshot, survey);
        self.is_installed = Some(is_installed);
        let is_absent = |missing: &&Missing| missing.cause == Cause::NotInstalled;
        let unread = snapshot.missing().filter(|one| is_installed || !is_absent(one)).count();
        self.is_incomplete = unread > 0 || !survey.missing.is_empty();
        self.findings.extend(survey.missing.iter().map(problems::unread));
        let told = problems::all(snapshot).into_iter();
        self.findings.extend(told.filter(|one| is_installed || cluster::counts_before(one)));
        self.findings.extend(cluster::findings(snapshot, survey, is_installed));
        self.findings.extend(rivals::findings(snapshot, survey));
        self.looked_at.extend(cluster::facts(snapshot, survey, is_installed));
    }

    /// For people; `wide`: all of it.
    fn text(&self, wide: bool) -> String {
        let of = if self.server.is_empty() { "this host" } else { self.server.as_str() };
        let lines: Vec<Vec<String>> =
            self.looked_at.iter().map(|fact| vec![fact.name.to_owned(), fact.value.clone()]).collect();
        format!("Windlass' check of {of}\n\n{}\n{}", problems_text(&self.findings, wide), aligned(&lines))
    }

    fn exit_code(&self) -> ExitCode {
        let has_error = self.findings.iter().any(|one| one.severity == Severity::Error);
        exit_code(has_error, self.is_incomplete)
    }
}

/// Looks, and answers on standard output.
///
/// # Errors
/// There is no API server to ask, and the host is not asked either.
pub(super) async fn check(args: CheckArgs, now: Timestamp) -> anyhow::Result<ExitCode> {
    let CheckArgs { cluster, host, pairs, image, listen_seconds, output } = args;
    let listening = Duration::from_secs(listen_seconds.into());
    // Adverts are listened for meanwhile.
    let host = if host {
        let mode = proxy_mode(PROXY_METRICS).await;
        Some(tokio::task::spawn_blocking(move || Host::read(listening, mode)))
    } else {
        None
    };
    let (snapshot, survey, tried) = match connect::connect(&cluster).await {
        Ok((server, namespace, client)) => {
            let reader = Reader::new(client, server, namespace, cluster.timeout());
            let (snapshot, survey) = tokio::join!(reader.read(now, Kind::ALL), reader.survey());
            let options = TrialOptions { image, listening };
            let tried = if pairs { Some(try_pairs(&reader, &snapshot, &options).await) } else { None };
            (Some(snapshot), survey, tried)
        }
        Err(error) if host.is_none() => return Err(error),
        Err(error) => {
            eprintln!("windlass: the cluster is not asked: {error:#}");
            (None, Survey::default(), None)
        }
    };
    let host = match host {
        Some(reading) => Some(reading.await?),
        None => None,
    };
    let report = Report::of(snapshot.as_ref(), &survey, tried.as_deref(), host.as_ref(), now);
    super::print(&report, output, |wide| report.text(wide))?;
    Ok(report.exit_code())
}

//! Commands for operators of a cluster: `windlass status`, `check`, `services`, `pools`, `nodes`, `routers`, `vips` and `explain`, also as
//! `kubectl windlass …`.
//!
//! ```text
//! API server ──► read ──► Snapshot ──► problems, views, explain (pure) ──► table or structured output
//!            controller ─────┘                                   └──► page: what its status page shows
//! ```
//!
//! A broken cluster is no error: a kind that cannot be read becomes a problem like any other, and the answer uses the rest. Only
//! [`actions`] write to the cluster, on request, and `check --pairs` creates pods and deletes them.

mod actions;
mod args;
mod bundle;
mod check;
mod connect;
mod details;
mod explain;
mod obstacles;
mod output;
pub(crate) mod page;
mod problems;
mod read;
mod remedies;
#[cfg(test)]
mod scene;
mod snapshot;
mod status;
mod table;
mod views;
mod watch;

use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

pub use self::args::Command;
use self::args::{
    BundleArgs, ClusterArgs, DrainArgs, ExplainArgs, ListArgs, MoveArgs, ReleaseArgs, StatusArgs,
    UndrainArgs, WatchArgs,
};
use self::explain::{Explanation, Subject};
use self::output::{Output, print};
use self::read::{Kind, Reader};
pub(crate) use self::snapshot::{OwnController, Snapshot};
use self::status::Overview;
use self::views::Selection;

/// Exit code: something is wrong in the cluster (`status`), or with what was asked for (`explain`).
const PROBLEMS: u8 = 3;
/// Exit code: part of the answer is missing, because part of the cluster could not be read.
const INCOMPLETE: u8 = 4;

/// Answers, on standard output.
///
/// # Errors
/// There is no API server to ask, or nothing of the name that was asked for.
pub async fn run(command: Command, token: CancellationToken) -> anyhow::Result<ExitCode> {
    let ends_by_signal = matches!(command, Command::Watch(_));
    match token.run_until_cancelled(Box::pin(answer(command))).await {
        Some(answered) => answered,
        None if ends_by_signal => Ok(ExitCode::SUCCESS),
        None => anyhow::bail!("ended by a signal before it had an answer"),
    }
}

async fn answer(command: Command) -> anyhow::Result<ExitCode> {
    let now = Timestamp::now();
    match command {
        Command::Status(StatusArgs { cluster, output }) => {
            let snapshot = reader(&cluster).await?.read(now, Kind::ALL).await;
            let overview = Overview::of(&snapshot);
            print(&overview, output, |wide| overview.text(wide, now))?;
            Ok(overview.exit_code())
        }
        Command::Check(args) => check::check(args, now).await,
        Command::Exchange(args) => {
            tokio::task::spawn_blocking(move || check::exchange(&args)).await??;
            Ok(ExitCode::SUCCESS)
        }
        Command::Services(args) => {
            list(args, &[Kind::Services, Kind::Vips, Kind::Pods], views::services).await
        }
        Command::Pools(args) => list(args, &[Kind::Pools], views::pools).await,
        Command::Nodes(args) => {
            list(args, &[Kind::Nodes, Kind::Networks, Kind::Routers, Kind::Vips, Kind::Pods], views::nodes)
                .await
        }
        Command::Routers(args) => list(args, &[Kind::Routers, Kind::Vips], views::routers).await,
        Command::Vips(args) => list(args, &[Kind::Vips], views::vips).await,
        Command::Explain(ExplainArgs { cluster, namespace, subject, client, output }) => {
            let reader = reader(&cluster).await?;
            let namespace = namespace.unwrap_or_else(|| reader.namespace().to_owned());
            let subject = Subject::parse(&subject, &namespace)?;
            let snapshot = reader.read(now, Kind::ALL).await;
            let details = reader.details(&subject.owners(&snapshot)).await;
            let explanation = Explanation::of(&subject, client, &snapshot, &details)?;
            print(&explanation, output, |_| explanation.text(now))?;
            Ok(exit_code(explanation.has_problem(), snapshot.missing().next().is_some()))
        }
        Command::Watch(WatchArgs { cluster, interval_seconds }) => {
            watch::watch(&reader(&cluster).await?, Duration::from_secs(interval_seconds.into())).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Drain(DrainArgs { node: UndrainArgs { cluster, name, dry_run }, wait_seconds }) => {
            let wait = Duration::from_secs(wait_seconds.into());
            actions::drain(&reader(&cluster).await?, &name, true, dry_run, wait).await
        }
        Command::Undrain(UndrainArgs { cluster, name, dry_run }) => {
            actions::drain(&reader(&cluster).await?, &name, false, dry_run, Duration::ZERO).await
        }
        Command::Move(MoveArgs { cluster, address, to, undo: _, dry_run, wait_seconds }) => {
            let wait = Duration::from_secs(wait_seconds.into());
            actions::move_address(&reader(&cluster).await?, address, to.as_deref(), dry_run, wait).await
        }
        Command::Release(ReleaseArgs { cluster, address, dry_run }) => {
            actions::release(&reader(&cluster).await?, address, dry_run).await
        }
        Command::Bundle(BundleArgs { cluster, file }) => {
            let file = file.unwrap_or_else(|| bundle::default_name(now).into());
            bundle::write(&reader(&cluster).await?, &file, now).await?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn reader(cluster: &ClusterArgs) -> anyhow::Result<Reader> {
    let (server, namespace, client) = connect::connect(cluster).await?;
    Ok(Reader::new(client, server, namespace, cluster.timeout()))
}

/// Prints a list of one kind.
async fn list<R: table::Row + serde::Serialize>(
    args: ListArgs,
    wanted: &[Kind],
    rows: impl Fn(&Snapshot, &Selection) -> Vec<R>,
) -> anyhow::Result<ExitCode> {
    let ListArgs { cluster, namespace, all_namespaces, names, output } = args;
    let reader = reader(&cluster).await?;
    let namespace = namespace.unwrap_or_else(|| reader.namespace().to_owned());
    let selection = Selection { namespace: (!all_namespaces).then_some(namespace), names };
    let now = Timestamp::now();
    let snapshot = reader.read(now, wanted).await;
    let rows = rows(&snapshot, &selection);
    for missing in snapshot.missing() {
        eprintln!("windlass: {}; {}", missing.message, missing.remedy);
    }
    print(&rows, output, |wide| table::text(&rows, wide, now))?;
    let is_incomplete = snapshot.missing().next().is_some();
    if !is_incomplete && rows.is_empty() && !selection.names.is_empty() {
        anyhow::bail!("there is none of the name {}", selection.names.join(", "));
    }
    if rows.is_empty() && !is_incomplete && matches!(output, None | Some(Output::Wide)) {
        eprintln!("windlass: there are none");
    }
    Ok(exit_code(false, is_incomplete))
}

fn exit_code(has_problems: bool, is_incomplete: bool) -> ExitCode {
    match (is_incomplete, has_problems) {
        (true, _) => ExitCode::from(INCOMPLETE),
        (false, true) => ExitCode::from(PROBLEMS),
        (false, false) => ExitCode::SUCCESS,
    }
}

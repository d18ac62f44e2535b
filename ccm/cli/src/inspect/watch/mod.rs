//! `windlass watch`: moves and problems as they come and go, by what differs from one look to the next.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::MissedTickBehavior;

use super::problems::{self, Problem};
use super::read::{Kind, Reader};
use super::snapshot::Snapshot;

#[cfg(test)]
mod tests;

/// Parts of one look that `watch` compares.
#[derive(Debug, Default)]
struct Look {
    /// Each problem once, by the key that identifies it.
    problems: BTreeMap<(&'static str, String, String), Problem>,
    /// The node that announces each address; `None`: none does.
    nodes: BTreeMap<IpAddr, Option<String>>,
    /// Kinds that could not be read: the state of their objects is unknown.
    unread: BTreeSet<String>,
}

impl Look {
    fn of(snapshot: &Snapshot) -> Self {
        let key = |problem: &Problem| (problem.kind, problem.name.clone(), problem.reason.clone());
        let vips = snapshot.vips.objects.iter().filter(|vip| vip.spec.quarantine.is_none());
        Self {
            problems: problems::all(snapshot).into_iter().map(|problem| (key(&problem), problem)).collect(),
            nodes: vips
                .map(|vip| {
                    let active = vip.active_node().map(str::to_owned);
                    (vip.spec.address, active.filter(|_| vip.is_announced()))
                })
                .collect(),
            unread: snapshot.missing().map(|missing| missing.kind.clone()).collect(),
        }
    }
}

/// Returns the changes between two looks, in words.
fn news(before: &Look, after: &Look) -> Vec<String> {
    let mut news = Vec::new();
    // What could not be read has not gone.
    if !after.unread.contains("VirtualIPs") && !before.unread.contains("VirtualIPs") {
        for (address, node) in &after.nodes {
            match (before.nodes.get(address), node) {
                (Some(was), is) if was == is => {}
                (Some(Some(was)), Some(is)) => news.push(format!("move {address} from {was} to {is}")),
                (Some(None) | None, Some(is)) => news.push(format!("announced {address} by {is}")),
                (Some(Some(was)), None) => news.push(format!("silent {address}, before announced by {was}")),
                (Some(None) | None, None) => {}
            }
        }
        let gone = before.nodes.keys().filter(|address| !after.nodes.contains_key(address));
        news.extend(gone.map(|address| format!("released {address}")));
    }
    let new = after.problems.iter().filter(|(key, _)| !before.problems.contains_key(*key));
    news.extend(new.map(|(_, problem)| format!("{problem}; do: {}", problem.remedy)));
    if after.unread.is_empty() {
        let solved = before.problems.keys().filter(|key| !after.problems.contains_key(key));
        news.extend(solved.map(|(kind, name, reason)| format!("over {kind} {name} {reason}")));
    }
    news
}

/// Prints changes on standard output, until it is cancelled or standard output is closed.
pub(super) async fn watch(reader: &Reader, every: Duration) -> anyhow::Result<()> {
    let mut look = tokio::time::interval(every);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before: Option<Look> = None;
    loop {
        look.tick().await;
        let now = Timestamp::now();
        let mut after = Look::of(&reader.read(now, Kind::ALL).await);
        let time = now.strftime("%H:%M:%S").to_string();
        // Problems that are there at the beginning are news, addresses are not.
        let first = Look { nodes: after.nodes.clone(), ..Look::default() };
        let news = news(before.as_ref().unwrap_or(&first), &after);
        if before.is_none()
            && writeln!(io::stdout(), "{time} {} addresses, what happens from now on:", after.nodes.len())
                .is_err()
        {
            return Ok(());
        }
        for line in news {
            if writeln!(io::stdout(), "{time} {line}").is_err() {
                return Ok(());
            }
        }
        // Of what could not be read the last that is known counts.
        if let Some(before) = before.filter(|_| after.unread.contains("VirtualIPs")) {
            after.nodes = before.nodes;
            after.unread.remove("VirtualIPs");
        }
        before = Some(after);
    }
}

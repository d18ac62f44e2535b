//! Checks that enough links have carrier.

use std::collections::BTreeMap;
use std::io;

use windlass_api::LinkCheck;
use windlass_common::listing::first_of;
use windlass_common::wildcard;
use windlass_engine::{Engine, HostLink};

use super::check::Finding;

#[cfg(test)]
mod tests;

/// Largest number of links that a message names: its length is limited.
const MOST_NAMED: usize = 8;

/// Reads the node's links and judges them by the check.
pub(super) async fn look(check: LinkCheck) -> Finding {
    // A driver may take its time.
    let looked = tokio::task::spawn_blocking(move || {
        Engine::host_links(|name| is_checked(&check, name)).map(|links| judge(&check, &links))
    });
    let finding = looked.await.map_err(io::Error::other).and_then(|found| found);
    finding.unwrap_or_else(|error| {
        Finding::Silent(format!("cannot read the node's links from the kernel: {error}"))
    })
}

/// Returns true if the check covers an interface of this name.
fn is_checked(check: &LinkCheck, name: &str) -> bool {
    check.interfaces.iter().any(|pattern| wildcard::matches(pattern, name))
}

/// Judges whether enough of the node's links have carrier, and enough speed. Pure.
fn judge(check: &LinkCheck, links: &[HostLink]) -> Finding {
    // A named interface that is absent counts as without carrier.
    let named = check.interfaces.iter().filter(|name| !name.contains('*')).map(|name| (name.as_str(), None));
    let found = links.iter().filter(|link| is_checked(check, &link.name));
    let all: BTreeMap<&str, Option<&HostLink>> =
        named.chain(found.map(|link| (link.name.as_str(), Some(link)))).collect();
    if all.is_empty() {
        return Finding::Failed("the node has no such interface".to_owned());
    }
    let (up, down): (Vec<_>, Vec<_>) =
        all.iter().partition(|(_, link)| link.is_some_and(|link| link.carrier));
    let wanted = check.minimum.map_or(all.len(), |minimum| usize::try_from(minimum).unwrap_or(usize::MAX));
    if up.len() < wanted {
        let has = match up.len() {
            1 => "1 link has carrier".to_owned(),
            count => format!("{count} links have carrier"),
        };
        let missing = match first_of(down.iter().map(|(name, _)| **name), MOST_NAMED) {
            none if none.is_empty() => none,
            missing => format!("; not {missing}"),
        };
        return Finding::Failed(format!("{has}, and {wanted} are to{missing}"));
    }
    let least = u64::from(check.minimum_megabits_per_second.unwrap_or(0));
    let speeds = up.iter().filter_map(|(_, link)| link.as_ref());
    let speed: Option<u64> = speeds.map(|link| link.megabits_per_second.map(u64::from)).sum();
    match speed {
        Some(speed) if speed < least => {
            let links = first_of(up.iter().map(|(name, _)| **name), MOST_NAMED);
            Finding::Failed(format!("{links}: {speed} Mbit/s, and {least} are wanted"))
        }
        Some(_) | None => Finding::Passed,
    }
}

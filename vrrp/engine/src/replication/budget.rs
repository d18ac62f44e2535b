//! Room for replicas on this node, of all peers and both families together. Pure.
//!
//! The kernel spares lasting connections when its table is full, replicas among them, and refuses what the node itself begins. So replicas
//! yield: they take half of the table at most, none is added while 90 % are in use, and beyond 95 % the oldest go.

use windlass_kernel::connections::{SHARE, Usage};

#[cfg(test)]
mod tests;

/// Most replicas: 24 MB for IPv4, 50 MB for IPv6.
pub(super) const MOST: usize = 524_288;
/// Percentage of the kernel's table that replicas may take.
const OF_TABLE: u8 = 50;
/// Percentage of the kernel's table in use beyond which replicas are given up, until [`SHARE`] are in use.
const TOO_FULL: u8 = 95;

/// Returns the most replicas, by how full the kernel's table is with those that are `held`.
pub(super) fn budget(usage: Usage, held: usize) -> usize {
    if usage.limit == 0 {
        return MOST;
    }
    let entries = usize::try_from(usage.entries).unwrap_or(usize::MAX);
    let part = |percent: u8| {
        let part = u64::from(usage.limit).saturating_mul(percent.into()) / 100;
        usize::try_from(part).unwrap_or(usize::MAX)
    };
    let by_use = if entries > part(TOO_FULL) {
        held.saturating_sub(entries.saturating_sub(part(SHARE)))
    } else {
        held.saturating_add(part(SHARE).saturating_sub(entries))
    };
    by_use.min(part(OF_TABLE)).min(MOST)
}

/// Returns the most replicas of a peer that has `held` of the `total`: its equal part in any case, and what the others leave.
pub(super) fn room(budget: usize, peers: usize, total: usize, held: usize) -> usize {
    let left = budget.saturating_sub(total);
    budget.checked_div(peers).unwrap_or(budget).max(held.saturating_add(left))
}

/// Returns the number of replicas of each peer that exceed the budget: peers with the most yield, down to one level.
pub(super) fn excess(budget: usize, held: &[usize]) -> Vec<usize> {
    let level = level(budget, held);
    held.iter().map(|held| held.saturating_sub(level)).collect()
}

/// The level under which all together are within the budget.
fn level(budget: usize, held: &[usize]) -> usize {
    let mut sorted = held.to_vec();
    sorted.sort_unstable();
    let mut left = budget;
    for (held, peers) in sorted.iter().zip((1..=sorted.len()).rev()) {
        let part = left.checked_div(peers).unwrap_or(left);
        if *held > part {
            return part;
        }
        left = left.saturating_sub(*held);
    }
    usize::MAX
}

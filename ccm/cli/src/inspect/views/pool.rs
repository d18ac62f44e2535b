//! Pools.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde::Serialize;
use windlass_api::{AddressCounts, CONDITION_ANNOUNCEABLE, CONDITION_READY};
use windlass_ccm::conditions::find;

use super::Selection;
use crate::inspect::snapshot::Snapshot;
use crate::inspect::table::{Column, Row, age_of};

/// A pool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::inspect) struct PoolRow {
    pub(in crate::inspect) name: String,
    priority: i32,
    auto_assign: bool,
    disabled: bool,
    pub(in crate::inspect) ipv4: Option<AddressCounts>,
    pub(in crate::inspect) ipv6: Option<AddressCounts>,
    /// Status and reason of its condition Ready.
    ready: Option<String>,
    reason: Option<String>,
    announceable: Option<String>,
    addresses: Vec<String>,
    created: Option<Time>,
}

/// Returns the percentage of a pool's addresses that are not available, as `24%`; rounded up, so that 0% is empty.
pub(in crate::inspect) fn fill(counts: &AddressCounts) -> String {
    let AddressCounts { total, assigned: _, available, quarantined: _ } = counts;
    if *total <= 0 {
        return String::new();
    }
    let used = i128::from(*total) - i128::from(*available).min(i128::from(*total));
    let percent = (used * 100 + i128::from(*total) - 1) / i128::from(*total);
    format!("{percent}%")
}

fn count(counts: Option<&AddressCounts>, of: fn(&AddressCounts) -> i64) -> String {
    counts.map(|counts| of(counts).to_string()).unwrap_or_default()
}

impl Row for PoolRow {
    const COLUMNS: &'static [Column<Self>] = &[
        ("NAME", false, |row, _| row.name.clone()),
        ("ASSIGNED", false, |row, _| count(row.ipv4.as_ref(), |counts| counts.assigned)),
        ("AVAILABLE", false, |row, _| count(row.ipv4.as_ref(), |counts| counts.available)),
        ("FILL", false, |row, _| row.ipv4.as_ref().map(fill).unwrap_or_default()),
        ("ASSIGNED6", false, |row, _| count(row.ipv6.as_ref(), |counts| counts.assigned)),
        ("AVAILABLE6", false, |row, _| count(row.ipv6.as_ref(), |counts| counts.available)),
        ("FILL6", false, |row, _| row.ipv6.as_ref().map(fill).unwrap_or_default()),
        ("READY", false, |row, _| row.ready.clone().unwrap_or_default()),
        ("REASON", false, |row, _| row.reason.clone().unwrap_or_default()),
        ("AGE", false, |row, now| age_of(row.created.as_ref(), now)),
        ("PRIORITY", true, |row, _| row.priority.to_string()),
        ("AUTO", true, |row, _| (row.auto_assign && !row.disabled).to_string()),
        ("QUARANTINED", true, |row, _| count(row.ipv4.as_ref(), |counts| counts.quarantined)),
        ("QUARANTINED6", true, |row, _| count(row.ipv6.as_ref(), |counts| counts.quarantined)),
        ("ANNOUNCEABLE", true, |row, _| row.announceable.clone().unwrap_or_default()),
        ("ADDRESSES", true, |row, _| row.addresses.join(",")),
    ];
}

/// The pools that are selected, by name.
pub(in crate::inspect) fn pools(snapshot: &Snapshot, selection: &Selection) -> Vec<PoolRow> {
    let wanted = snapshot.pools.objects.iter().filter(|pool| selection.wants(&pool.name_any()));
    let mut rows: Vec<PoolRow> = wanted
        .map(|pool| {
            let status = pool.status.clone().unwrap_or_default();
            let ready = find(&status.conditions, CONDITION_READY);
            let announceable = find(&status.conditions, CONDITION_ANNOUNCEABLE);
            PoolRow {
                name: pool.name_any(),
                priority: pool.spec.priority,
                auto_assign: pool.spec.auto_assign,
                disabled: pool.spec.disabled,
                ready: ready.map(|one| one.status.clone()),
                reason: ready.map(|one| one.reason.clone()),
                announceable: announceable.map(|one| one.status.clone()),
                addresses: pool.spec.addresses.clone(),
                created: pool.metadata.creation_timestamp.clone(),
                ipv4: status.ipv4,
                ipv6: status.ipv6,
            }
        })
        .collect();
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fill_of_a_pool_is_what_cannot_be_given_any_more() {
        let rows = [
            (50, 50, "0%"),
            (50, 38, "24%"),
            (50, 0, "100%"),
            (1000, 999, "1%"),
            (0, 0, ""),
            (i64::MAX, i64::MAX, "0%"),
            // What an agent of another version or a hand may have written.
            (10, 20, "0%"),
        ];
        for (total, available, told) in rows {
            let counts = AddressCounts { total, available, ..AddressCounts::default() };
            assert_eq!(fill(&counts), told, "{available} of {total}");
        }
    }
}

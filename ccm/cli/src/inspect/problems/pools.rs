//! Pools and Announcements.

use kube::ResourceExt as _;
use windlass_api::{
    AddressCounts, CONDITION_ADDRESS_CONFLICT, CONDITION_ADDRESSES_KEPT, CONDITION_ANNOUNCEABLE,
    CONDITION_APPLIED, CONDITION_FOREIGN_EXTERNAL_IPS, CONDITION_READY, VirtualIPPool,
};
use windlass_ccm::conditions::find;

use super::{Problem, Severity};
use crate::inspect::remedies;
use crate::inspect::snapshot::Snapshot;

pub(super) fn problems(snapshot: &Snapshot) -> Vec<Problem> {
    let mut problems = Vec::new();
    if snapshot.pools.objects.is_empty() && snapshot.pools.missing.is_none() {
        problems.push(
            Problem::warning("VirtualIPPool", "", "NoPool")
                .says("there is no pool: no Service can get an address", "make one, as docs/pools.md begins"),
        );
    }
    for pool in &snapshot.pools.objects {
        problems.extend(pool_problems(pool));
    }
    for announcement in &snapshot.announcements.objects {
        let applied =
            announcement.status.as_ref().and_then(|status| find(&status.conditions, CONDITION_APPLIED));
        if let Some(applied) = applied.filter(|applied| applied.status == "False") {
            let name = announcement.name_any();
            problems.push(Problem::of(
                Severity::Warning,
                "Announcement",
                name,
                applied,
                remedies::of_announcement,
            ));
        }
    }
    problems
}

fn pool_problems(pool: &VirtualIPPool) -> Vec<Problem> {
    let Some(status) = &pool.status else { return Vec::new() };
    let faults = [
        (CONDITION_READY, "False", Severity::Warning),
        (CONDITION_ANNOUNCEABLE, "False", Severity::Error),
        (CONDITION_ADDRESSES_KEPT, "True", Severity::Warning),
        (CONDITION_ADDRESS_CONFLICT, "True", Severity::Warning),
        (CONDITION_FOREIGN_EXTERNAL_IPS, "True", Severity::Warning),
    ];
    let faults = faults.into_iter().filter_map(|(type_, fault, severity)| {
        let condition = find(&status.conditions, type_).filter(|one| one.status == fault)?;
        Some(Problem::of(severity, "VirtualIPPool", pool.name_any(), condition, remedies::of_pool))
    });
    let families = [("IPv4", &status.ipv4), ("IPv6", &status.ipv6)];
    let full = families.into_iter().filter_map(|(family, counts)| {
        let AddressCounts { total, assigned, available, quarantined } = counts.as_ref()?;
        let is_full = *available == 0 && *total > 0 && !pool.spec.disabled;
        let message = format!(
            "no {family} address is left of {total}: {assigned} are assigned, {quarantined} are kept back"
        );
        let remedy = "add addresses before the next Service asks for one";
        is_full.then(|| Problem::warning("VirtualIPPool", pool.name_any(), "Full").says(message, remedy))
    });
    faults.chain(full).collect()
}

//! Virtual routers.

use std::cmp::Reverse;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde::Serialize;
use windlass_api::{ExternalTrafficPolicy, RankedNode};
use windlass_common::listing::first_of;

use super::Selection;
use crate::inspect::snapshot::Snapshot;
use crate::inspect::table::{Column, Row, age_of};

/// A virtual router.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::inspect) struct RouterRow {
    name: String,
    vrid: u8,
    segment: String,
    active_node: Option<String>,
    active_since: Option<Time>,
    /// Number of changes of the Active node.
    transitions: i64,
    /// Number of addresses that it carries.
    addresses: usize,
    /// Its nodes, that with the highest priority first.
    nodes: Vec<RankedNode>,
    advertisement_interval_milliseconds: u32,
    external_traffic_policy: ExternalTrafficPolicy,
    announcement: Option<String>,
}

impl Row for RouterRow {
    const COLUMNS: &'static [Column<Self>] = &[
        ("NAME", false, |row, _| row.name.clone()),
        ("VRID", false, |row, _| row.vrid.to_string()),
        ("SEGMENT", false, |row, _| row.segment.clone()),
        ("ACTIVE", false, |row, _| row.active_node.clone().unwrap_or_default()),
        ("SINCE", false, |row, now| age_of(row.active_since.as_ref(), now)),
        ("ADDRESSES", false, |row, _| row.addresses.to_string()),
        ("NODES", false, |row, _| {
            let nodes = row.nodes.iter().map(|node| format!("{}={}", node.name, node.priority));
            first_of(nodes, 4).replace(", ", ",")
        }),
        // The first to be Active is counted, too.
        ("MOVES", true, |row, _| row.transitions.saturating_sub(1).max(0).to_string()),
        ("INTERVAL", true, |row, _| format!("{}ms", row.advertisement_interval_milliseconds)),
        ("POLICY", true, |row, _| format!("{:?}", row.external_traffic_policy)),
        ("ANNOUNCEMENT", true, |row, _| row.announcement.clone().unwrap_or_default()),
    ];
}

/// The virtual routers that are selected, by name.
pub(in crate::inspect) fn routers(snapshot: &Snapshot, selection: &Selection) -> Vec<RouterRow> {
    let carried = snapshot.vips_by_router();
    let wanted = snapshot.routers.objects.iter().filter(|router| selection.wants(&router.name_any()));
    let mut rows: Vec<RouterRow> = wanted
        .map(|router| {
            let name = router.name_any();
            let spec = router.spec.clone();
            let status = router.status.clone().unwrap_or_default();
            let mut nodes = spec.nodes;
            nodes.sort_by_key(|node| Reverse(node.priority));
            RouterRow {
                vrid: spec.vrid,
                segment: spec.segment,
                active_since: status.active_since.and_then(|since| since.parse().ok()).map(Time),
                active_node: status.active_node,
                transitions: status.transitions,
                addresses: carried.get(name.as_str()).map_or(0, Vec::len),
                nodes,
                advertisement_interval_milliseconds: spec.advertisement_interval_milliseconds,
                external_traffic_policy: spec.external_traffic_policy,
                announcement: spec.announcement,
                name,
            }
        })
        .collect();
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    rows
}

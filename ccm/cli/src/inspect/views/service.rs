//! Services of type LoadBalancer.

use std::collections::{BTreeSet, HashMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde::Serialize;

use super::Selection;
use crate::inspect::snapshot::{Snapshot, allocated, shown};
use crate::inspect::table::{Column, Row, age_of};

/// A Service.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::inspect) struct ServiceRow {
    namespace: String,
    name: String,
    /// Addresses in its status.
    addresses: Vec<String>,
    /// The nodes that announce them.
    nodes: Vec<String>,
    pools: Vec<String>,
    virtual_routers: Vec<String>,
    /// Status of its condition AddressAllocated; absent: no controller has set it.
    allocated: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    created: Option<Time>,
}

impl Row for ServiceRow {
    const COLUMNS: &'static [Column<Self>] = &[
        ("NAMESPACE", false, |row, _| row.namespace.clone()),
        ("NAME", false, |row, _| row.name.clone()),
        ("ADDRESSES", false, |row, _| row.addresses.join(",")),
        ("NODES", false, |row, _| row.nodes.join(",")),
        ("POOLS", false, |row, _| row.pools.join(",")),
        ("ALLOCATED", false, |row, _| row.allocated.clone().unwrap_or_default()),
        ("REASON", false, |row, _| row.reason.clone().unwrap_or_default()),
        ("AGE", false, |row, now| age_of(row.created.as_ref(), now)),
        ("ROUTERS", true, |row, _| row.virtual_routers.join(",")),
        ("MESSAGE", true, |row, _| row.message.clone().unwrap_or_default()),
    ];
}

/// The Services that are selected, by namespace and name.
pub(in crate::inspect) fn services(snapshot: &Snapshot, selection: &Selection) -> Vec<ServiceRow> {
    let by_owner: HashMap<&str, Vec<_>> = snapshot.vips_by_owner();
    let wanted = snapshot.load_balancers().filter(|service| {
        let namespace = service.metadata.namespace.as_deref();
        selection.wants(service.metadata.name.as_deref().unwrap_or_default())
            && selection.namespace.as_deref().is_none_or(|only| namespace == Some(only))
    });
    let mut rows: Vec<ServiceRow> = wanted
        .map(|service| {
            let vips = service.metadata.uid.as_deref().and_then(|uid| by_owner.get(uid));
            let vips = || vips.into_iter().flatten();
            let condition = allocated(service);
            let nodes: BTreeSet<String> = vips()
                .filter(|vip| vip.is_announced())
                .filter_map(|vip| vip.active_node().map(str::to_owned))
                .collect();
            let pools: BTreeSet<String> = vips().map(|vip| vip.spec.pool.clone()).collect();
            let routers: BTreeSet<String> =
                vips().filter_map(|vip| vip.spec.virtual_router.clone()).collect();
            ServiceRow {
                namespace: service.namespace().unwrap_or_default(),
                name: service.name_any(),
                addresses: shown(service),
                nodes: nodes.into_iter().collect(),
                pools: pools.into_iter().collect(),
                virtual_routers: routers.into_iter().collect(),
                allocated: condition.map(|one| one.status.clone()),
                reason: condition.map(|one| one.reason.clone()),
                message: condition.map(|one| one.message.clone()),
                created: service.metadata.creation_timestamp.clone(),
            }
        })
        .collect();
    rows.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    rows
}

//! Virtual IPs.

use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde::Serialize;
use windlass_api::{CONDITION_CONNECTIONS_REPLICATED, Quarantine, VirtualIP};
use windlass_ccm::conditions::find;
use windlass_common::listing::first_of;

use super::Selection;
use crate::inspect::snapshot::Snapshot;
use crate::inspect::table::{Column, Row, age_of};

/// A virtual IP.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::inspect) struct VipRow {
    address: IpAddr,
    /// The Services that have it, in the order in which they joined; in quarantine those that had it last.
    services: Vec<String>,
    pool: String,
    /// The node that announces it.
    node: Option<String>,
    announced: bool,
    /// Reason of its condition Announced, and since when its status is what it is.
    reason: Option<String>,
    since: Option<Time>,
    message: Option<String>,
    virtual_router: Option<String>,
    announcement: Option<String>,
    quarantine: Option<Quarantine>,
    /// Status of its condition ConnectionsReplicated; absent: it is not asked for.
    connections_replicated: Option<String>,
    /// Nodes that serve it together; empty: one node serves it.
    servers: Vec<String>,
}

impl Row for VipRow {
    const COLUMNS: &'static [Column<Self>] = &[
        ("ADDRESS", false, |row, _| row.address.to_string()),
        ("SERVICES", false, |row, _| first_of(row.services.iter(), 2).replace(", ", ",")),
        ("POOL", false, |row, _| row.pool.clone()),
        ("NODE", false, |row, _| row.node.clone().unwrap_or_default()),
        ("ANNOUNCED", false, |row, _| row.announced.to_string()),
        ("REASON", false, |row, _| row.reason.clone().unwrap_or_default()),
        ("SINCE", false, |row, now| age_of(row.since.as_ref(), now)),
        ("ROUTER", true, |row, _| row.virtual_router.clone().unwrap_or_default()),
        ("ANNOUNCEMENT", true, |row, _| row.announcement.clone().unwrap_or_default()),
        ("REPLICATED", true, |row, _| row.connections_replicated.clone().unwrap_or_default()),
        ("SERVERS", true, |row, _| row.servers.join(",")),
        ("UNTIL", true, |row, _| {
            row.quarantine.as_ref().map(|one| one.until.0.to_string()).unwrap_or_default()
        }),
        ("MESSAGE", true, |row, _| row.message.clone().unwrap_or_default()),
    ];
}

/// The virtual IPs that are selected, in the order of their addresses. A name is an address or that of the object; a namespace that of
/// a Service that has it.
pub(in crate::inspect) fn vips(snapshot: &Snapshot, selection: &Selection) -> Vec<VipRow> {
    let wanted = snapshot.vips.objects.iter().filter(|vip| {
        let is_named = selection.wants(&vip.name_any())
            || selection.names.iter().any(|name| name.parse() == Ok(vip.spec.address));
        let is_in = |only: &String| vip.spec.owners.iter().any(|owner| owner.namespace == *only);
        is_named && selection.namespace.as_ref().is_none_or(is_in)
    });
    let mut rows: Vec<VipRow> = wanted
        .map(|vip| {
            let condition = vip.announced();
            let conditions = vip.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
            let replicated = find(conditions, CONDITION_CONNECTIONS_REPLICATED);
            let quarantine = vip.spec.quarantine.clone();
            let quarantined = quarantine.as_ref().map(|why| format!("Quarantine:{:?}", why.reason));
            let message =
                quarantine.as_ref().map(|why| why.message.clone()).filter(|words| !words.is_empty());
            VipRow {
                address: vip.spec.address,
                services: vip.spec.owners.iter().map(ToString::to_string).collect(),
                pool: vip.spec.pool.clone(),
                node: vip
                    .status
                    .as_ref()
                    .and_then(|status| status.active_node.clone())
                    .filter(|_| vip.is_announced()),
                announced: vip.is_announced(),
                reason: quarantined.or_else(|| condition.map(|one| one.reason.clone())),
                since: condition.map(|one| one.last_transition_time.clone()),
                message: message.or_else(|| condition.map(|one| one.message.clone())),
                virtual_router: vip.spec.virtual_router.clone(),
                announcement: vip.spec.announcement.clone(),
                connections_replicated: replicated.map(|one| one.status.clone()),
                servers: servers(vip),
                quarantine,
            }
        })
        .collect();
    rows.sort_by_key(|row| row.address);
    rows
}

/// Returns the names of the nodes with lots, while they share the address.
fn servers(vip: &VirtualIP) -> Vec<String> {
    let is_shared = vip.load_shared().is_some_and(|one| one.status == "True");
    let load = vip.spec.load_sharing.as_ref().filter(|_| is_shared && vip.is_announced());
    let servers = load.and_then(|load| load.servers().ok()).unwrap_or_default();
    servers.into_iter().map(|(node, _)| node.name.clone()).collect()
}

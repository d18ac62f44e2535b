//! Virtual IPs.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde::Serialize;
use windlass_api::{CONDITION_CONNECTIONS_REPLICATED, Quarantine};
use windlass_ccm::conditions::find;
use windlass_common::listing::first_of;

use super::Selection;
use crate::inspect::snapshot::Snapshot;
use crate::inspect::table::{Column, Row, age};

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
}

impl Row for VipRow {
    const COLUMNS: &'static [Column] = &[
        ("ADDRESS", false),
        ("SERVICES", false),
        ("POOL", false),
        ("NODE", false),
        ("ANNOUNCED", false),
        ("REASON", false),
        ("SINCE", false),
        ("ROUTER", true),
        ("ANNOUNCEMENT", true),
        ("REPLICATED", true),
        ("UNTIL", true),
        ("MESSAGE", true),
    ];

    fn cells(&self, now: Timestamp) -> Vec<String> {
        let until = self.quarantine.as_ref().map(|quarantine| quarantine.until.0.to_string());
        vec![
            self.address.to_string(),
            first_of(self.services.iter(), 2).replace(", ", ","),
            self.pool.clone(),
            self.node.clone().unwrap_or_default(),
            self.announced.to_string(),
            self.reason.clone().unwrap_or_default(),
            self.since.as_ref().map(|since| age(since.0, now)).unwrap_or_default(),
            self.virtual_router.clone().unwrap_or_default(),
            self.announcement.clone().unwrap_or_default(),
            self.connections_replicated.clone().unwrap_or_default(),
            until.unwrap_or_default(),
            self.message.clone().unwrap_or_default(),
        ]
    }
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
                quarantine,
            }
        })
        .collect();
    rows.sort_by_key(|row| row.address);
    rows
}

//! `windlass move`: which node is to have the addresses of a virtual router, by an annotation that the planner reads.

use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use ipnet::IpNet;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use windlass_api::{ANNOTATION_PREFERRED_NODE, ConnectionPolicy, VirtualIP, VirtualRouter};
use windlass_ccm::apiserver::call_within;
use windlass_ccm::lenient::Lenient;
use windlass_common::label_selector;
use windlass_common::priorities;

use super::{nothing_missing, owners, until};
use crate::inspect::PROBLEMS;
use crate::inspect::details::Details;
use crate::inspect::obstacles::{Obstacle, announcement, obstacles};
use crate::inspect::read::{Kind, Reader};
use crate::inspect::snapshot::{Snapshot, is_pod_ready, node_of};
use crate::inspect::table::indented;

const WANTED: &[Kind] =
    &[Kind::Nodes, Kind::Networks, Kind::Routers, Kind::Vips, Kind::Announcements, Kind::Pods];

/// Reason why an address cannot be moved to a node.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotMoved {
    #[error("no Service has {0}: `windlass vips` lists the addresses in use")]
    NoAddress(IpAddr),
    #[error("no virtual router carries {0}: `windlass explain {0}` shows why")]
    NoRouter(IpAddr),
    #[error("node {node} cannot announce {address}: {reason}")]
    Node { address: IpAddr, node: String, reason: String },
}

/// An address in use and the virtual router that carries it.
pub(super) fn carried(
    snapshot: &Snapshot,
    address: IpAddr,
) -> Result<(&VirtualIP, &VirtualRouter), NotMoved> {
    let mut in_use = snapshot.vips.objects.iter().filter(|vip| vip.spec.quarantine.is_none());
    let vip = in_use.find(|vip| vip.spec.address == address).ok_or(NotMoved::NoAddress(address))?;
    let router = vip.spec.virtual_router.as_deref();
    let router = router.and_then(|name| Snapshot::named(&snapshot.routers, name));
    Ok((vip, router.ok_or(NotMoved::NoRouter(address))?))
}

/// Returns what keeps a node from having the addresses of a virtual router, with the remedy, as far as the cluster knows.
pub(super) fn hindrance(
    snapshot: &Snapshot,
    details: &Details,
    (vip, router): (&VirtualIP, &VirtualRouter),
    node: &str,
) -> Option<String> {
    let Some(object) = Snapshot::named(&snapshot.nodes, node) else {
        return Some("there is no Node of that name; `windlass nodes` lists them".to_owned());
    };
    if let Some(Obstacle { reason, remedy, .. }) =
        obstacles(snapshot, details, (vip, router), node).into_iter().next()
    {
        return Some(format!("{reason}; {remedy}"));
    }
    if snapshot.agents().any(|pod| node_of(pod) == Some(node) && !is_pod_ready(pod)) {
        return Some(
            "its agent is not ready; `kubectl --namespace windlass-system get pods --output wide` shows it"
                .to_owned(),
        );
    }
    let selectors = announcement(snapshot, router).map_or(&[][..], |one| &one.node_selectors);
    let labels = object.labels();
    let selects = |one| label_selector::selector(one).is_ok_and(|selector| selector.matches(labels));
    if !selectors.is_empty() && !selectors.iter().any(selects) {
        let name = router.spec.announcement.as_deref().unwrap_or_default();
        return Some(format!("Announcement {name} does not select it; let its nodeSelectors do so"));
    }
    let is_listed = router.spec.nodes.iter().any(|ranked| ranked.name == node);
    let interfaces =
        Snapshot::named(&snapshot.networks, node).into_iter().flat_map(|network| &network.spec.interfaces);
    let segment = router.spec.segment.parse::<IpNet>().ok();
    // Whatever its prefix length: nodes of one LAN elect together.
    let is_in = |net: IpNet| segment.is_some_and(|segment| segment.contains(&net.addr()));
    let mut addresses = interfaces.flat_map(|interface| &interface.addresses);
    let is_there = addresses.any(|text| text.parse::<IpNet>().is_ok_and(is_in));
    (!is_listed && !is_there)
        .then(|| format!("it has no address of {}; name a node of that subnet", router.spec.segment))
}

/// The addresses that move together, and what becomes of their connections.
fn told(snapshot: &Snapshot, router: &VirtualRouter, to: Option<&str>) -> String {
    let router_name = router.name_any();
    let carried = snapshot.vips_by_router();
    let vips = carried.get(router_name.as_str()).map_or(&[][..], Vec::as_slice);
    let lines = vips.iter().map(|vip| format!("{} of {}", vip.spec.address, owners(vip)));
    let (addresses, together) =
        if vips.len() == 1 { ("address", "") } else { ("addresses", " move together") };
    let connections = match (to, router.spec.connections) {
        (None, _) => "",
        (Some(_), ConnectionPolicy::None) => "established connections end (connections: None)\n",
        (Some(_), ConnectionPolicy::Forward | ConnectionPolicy::Replicate) => {
            "established TCP connections continue while the present node stays up\n"
        }
    };
    let listed = indented(&(lines.collect::<Vec<_>>().join("\n") + "\n"));
    format!("{} {addresses} of virtual router {router_name}{together}:\n{listed}{connections}", vips.len())
}

/// Asks for the addresses of the virtual router that carries `address` to be on a node, and waits until they are; `None` takes the
/// wish back.
///
/// # Errors
/// The node cannot have them, or the API server does not let the object be changed.
pub(in crate::inspect) async fn move_address(
    reader: &Reader,
    address: IpAddr,
    to: Option<&str>,
    dry_run: bool,
    wait: Duration,
) -> anyhow::Result<ExitCode> {
    let snapshot = reader.read_latest(Timestamp::now(), WANTED).await;
    nothing_missing(&snapshot)?;
    let (vip, router) = carried(&snapshot, address)?;
    if let Some(node) = to {
        let details = reader.details(&vip.spec.owners).await;
        if let Some(reason) = hindrance(&snapshot, &details, (vip, router), node) {
            return Err(NotMoved::Node { address, node: node.to_owned(), reason }.into());
        }
    }
    print!("{}", told(&snapshot, router, to));
    let from = router.active_node().map_or_else(|| "no node".to_owned(), |node| format!("node {node}"));
    match (to, router.preferred_node()) {
        (Some(node), _) => println!(
            "from {from} to node {node}, which has them before all others until `windlass move {address} --undo`"
        ),
        (None, Some(node)) => {
            println!("node {node} has them before others no longer: the planner chooses again");
        }
        (None, None) => println!("nothing is to be undone: no move was asked for"),
    }
    if dry_run || (to.is_none() && router.preferred_node().is_none()) {
        return Ok(ExitCode::SUCCESS);
    }
    let name = router.name_any();
    if router.preferred_node() != to {
        let routers: Api<Lenient<VirtualRouter>> = Api::all(reader.client());
        // In the object that was seen: one that takes its place meanwhile is to be looked at anew.
        let metadata = json!({ "uid": router.uid(), "annotations": { ANNOTATION_PREFERRED_NODE: to } });
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        call_within(reader.limit(), routers.patch(&name, &PatchParams::default(), &patch))
            .await
            .with_context(|| {
                format!("cannot annotate VirtualRouter {name}; if it is another one by now, ask again")
            })?;
    }
    match to {
        Some(node) if !wait.is_zero() => until_moved(reader, address, node, wait).await,
        Some(_) | None => Ok(ExitCode::SUCCESS),
    }
}

/// Returns true if the node is reported to have the address: it announces it, is Active, and is preferred.
pub(super) fn is_at(snapshot: &Snapshot, address: IpAddr, node: &str) -> bool {
    carried(snapshot, address).is_ok_and(|(vip, router)| {
        let best = router.spec.nodes.iter().max_by_key(|ranked| ranked.priority);
        vip.is_announced()
            && vip.active_node() == Some(node)
            && router.active_node() == Some(node)
            && best.is_some_and(|best| best.name == node && priorities::is_good(best.priority))
    })
}

async fn until_moved(
    reader: &Reader,
    address: IpAddr,
    node: &str,
    wait: Duration,
) -> anyhow::Result<ExitCode> {
    let kinds = [Kind::Routers, Kind::Vips];
    if until(reader, &kinds, wait, |snapshot| is_at(snapshot, address, node)).await {
        println!("node {node} announces {address}");
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "windlass: node {node} does not announce {address} after {} s; the move stays requested: `windlass \
         explain {address}` shows what prevents it",
        wait.as_secs()
    );
    Ok(ExitCode::from(PROBLEMS))
}

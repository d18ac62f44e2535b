//! Actions of an admin: `windlass drain` and `undrain` by the label that keeps a node out of load balancers, `windlass move` by an
//! annotation of the virtual router, `windlass release` by deleting the object that keeps an address back. The decisions are pure.

use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use windlass_api::VirtualIP;
use windlass_ccm::apiserver::call_within;
use windlass_ccm::lenient::Lenient;
use windlass_ccm::service::{LABEL_EXCLUDE, is_excluded};
use windlass_common::priorities;

use super::PROBLEMS;
use super::read::{Kind, Reader};
use super::snapshot::Snapshot;
use super::table::{aligned, indented};

mod moving;
#[cfg(test)]
mod tests;

pub(super) use self::moving::move_address;

/// Interval between two checks that the requested change has happened.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Fails if part of the snapshot could not be read: an action is decided by the complete state.
fn nothing_missing(snapshot: &Snapshot) -> anyhow::Result<()> {
    match snapshot.missing().next() {
        Some(missing) => bail!("{}; {}", missing.message, missing.remedy),
        None => Ok(()),
    }
}

/// Waits until all of these kinds can be read and `are_so`. Returns false if that takes longer than `wait`.
async fn until(reader: &Reader, kinds: &[Kind], wait: Duration, are_so: impl Fn(&Snapshot) -> bool) -> bool {
    let so = async {
        loop {
            let snapshot = reader.read(Timestamp::now(), kinds).await;
            if snapshot.missing().next().is_none() && are_so(&snapshot) {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(wait, so).await.is_ok()
}

/// The Services of an address, as one text.
fn owners(vip: &VirtualIP) -> String {
    let owners: Vec<String> = vip.spec.owners.iter().map(ToString::to_string).collect();
    owners.join(", ")
}

/// Destination of the addresses of a virtual router when a node is drained.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Going {
    router: String,
    addresses: usize,
    /// The next node; `None`: no other one can have them.
    to: Option<String>,
}

/// Returns the destination of each virtual router in which the node is Active: the good node with the highest priority. (Agents lower their
/// own priority where something fails; only the failures that they report are known here.)
fn goings(snapshot: &Snapshot, node: &str) -> Vec<Going> {
    let carried = snapshot.vips_by_router();
    let fails = |name: &str| {
        Snapshot::named(&snapshot.networks, name).is_none_or(|network| !network.spec.failed_checks.is_empty())
    };
    let going =
        snapshot.routers.objects.iter().filter(|router| router.active_node() == Some(node)).map(|router| {
            let router_name = router.name_any();
            let others = router.spec.nodes.iter().filter(|one| one.name != node);
            let good =
                others.filter(|one| priorities::is_good(one.priority) && !one.joining && !fails(&one.name));
            Going {
                addresses: carried.get(router_name.as_str()).map_or(0, Vec::len),
                to: good.max_by_key(|one| one.priority).map(|one| one.name.clone()),
                router: router_name,
            }
        });
    going.collect()
}

fn told(goings: &[Going]) -> String {
    let line = |going: &Going| {
        let to = going.to.as_ref().map_or_else(
            || "stay: no other node is good, and the last one serves".to_owned(),
            |to| format!("to {to}"),
        );
        vec![going.router.clone(), format!("{} addresses", going.addresses), to]
    };
    indented(&aligned(&goings.iter().map(line).collect::<Vec<_>>()))
}

/// Removes a node from load balancers, or returns it to them, and waits until it announces no address any more.
///
/// # Errors
/// There is no such Node, or the API server does not let it be changed.
pub(super) async fn drain(
    reader: &Reader,
    node: &str,
    drain: bool,
    dry_run: bool,
    wait: Duration,
) -> anyhow::Result<ExitCode> {
    let wanted = [Kind::Nodes, Kind::Networks, Kind::Routers, Kind::Vips];
    let snapshot = reader.read_latest(Timestamp::now(), &wanted).await;
    nothing_missing(&snapshot)?;
    let object = Snapshot::named(&snapshot.nodes, node)
        .with_context(|| format!("there is no Node {node}; `windlass nodes` lists them"))?;
    let goings = if drain { goings(&snapshot, node) } else { Vec::new() };
    let (verb, label) = match (drain, dry_run) {
        (true, true) => ("would be drained of", json!("")),
        (true, false) => ("is drained of", json!("")),
        (false, true) => ("would take back", json!(null)),
        (false, false) => ("takes back", json!(null)),
    };
    println!("node {node} {verb} addresses (label {LABEL_EXCLUDE}, which other load balancers go by, too)");
    print!("{}", told(&goings));
    if dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    if is_excluded(object) != drain {
        let nodes: Api<Lenient<Node>> = Api::all(reader.client());
        let patch = Patch::Merge(json!({ "metadata": { "labels": { LABEL_EXCLUDE: label } } }));
        call_within(reader.limit(), nodes.patch(node, &PatchParams::default(), &patch))
            .await
            .with_context(|| format!("cannot change the labels of Node {node}"))?;
    }
    if drain && !wait.is_zero() { until_drained(reader, node, wait).await } else { Ok(ExitCode::SUCCESS) }
}

async fn until_drained(reader: &Reader, node: &str, wait: Duration) -> anyhow::Result<ExitCode> {
    let kinds = [Kind::Routers, Kind::Networks];
    if until(reader, &kinds, wait, |snapshot| goings(snapshot, node).is_empty()).await {
        println!("node {node} is Active in no virtual router");
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "windlass: node {node} still announces addresses after {} s: `windlass explain` one of them, `windlass vips` lists them",
        wait.as_secs()
    );
    Ok(ExitCode::from(PROBLEMS))
}

/// Reason why an address cannot be released.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum NotReleased {
    #[error("{0} is not kept back, and no Service has it: there is nothing to release")]
    Nothing(IpAddr),
    #[error(
        "{address} is in use by {owners}: it is released when they are deleted, ask for another, or are of another type; its object would \
         be made again"
    )]
    InUse { address: IpAddr, owners: String },
}

/// The object that keeps an address back.
fn kept_back(snapshot: &Snapshot, address: IpAddr) -> Result<&VirtualIP, NotReleased> {
    let vip = snapshot.vips.objects.iter().find(|vip| vip.spec.address == address);
    let vip = vip.ok_or(NotReleased::Nothing(address))?;
    if vip.spec.quarantine.is_none() {
        return Err(NotReleased::InUse { address, owners: owners(vip) });
    }
    Ok(vip)
}

/// Frees an address that is kept back after its Services released it, or because another host had it.
///
/// # Errors
/// It is in use or not kept back, or the API server does not let its object be deleted.
pub(super) async fn release(reader: &Reader, address: IpAddr, dry_run: bool) -> anyhow::Result<ExitCode> {
    let snapshot = reader.read_latest(Timestamp::now(), &[Kind::Vips]).await;
    nothing_missing(&snapshot)?;
    let vip = kept_back(&snapshot, address)?;
    if !dry_run {
        delete(reader.client(), reader.limit(), vip).await?;
    }
    let verb = if dry_run { "would be" } else { "is" };
    println!(
        "{address} {verb} free: any Service may be given it, and {} gets it back no more before others",
        owners(vip)
    );
    Ok(ExitCode::SUCCESS)
}

/// In the version that was seen: what took it back meanwhile keeps it.
async fn delete(client: Client, limit: Duration, vip: &VirtualIP) -> anyhow::Result<()> {
    ensure!(vip.metadata.uid.is_some(), "the API server returned no UID for VirtualIP {}", vip.name_any());
    let preconditions = Preconditions { uid: vip.uid(), resource_version: vip.resource_version() };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    let api: Api<Lenient<VirtualIP>> = Api::all(client);
    call_within(limit, api.delete(&vip.name_any(), &params)).await.with_context(|| {
        format!("cannot delete VirtualIP {}; if it changed meanwhile, look again", vip.name_any())
    })?;
    Ok(())
}

//! Two nodes with keepalived, beside Windlass in the same lab: one address of a Service that Windlass leaves alone.

use std::net::{IpAddr, Ipv4Addr};

use windlass_e2e::{Keepalived, Lab};

/// Address of the pair.
pub(crate) const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 190));
/// VRID of the pair.
pub(crate) const VRID: u8 = 250;
const SERVICE: &str = "keepalived";
const NODES: [&str; 2] = ["n1", "n2"];

/// Creates the Service, before backend `web`, and starts both, with the priority of each node.
pub(crate) async fn start(lab: &Lab, interval_ms: u32, priority: impl Fn(&str) -> u8) -> anyhow::Result<()> {
    lab.foreign_service(SERVICE, "web", ADDRESS).await?;
    NODES.into_iter().try_for_each(|node| start_on(lab, node, interval_ms, priority(node)))
}

/// Starts keepalived on one node.
pub(crate) fn start_on(lab: &Lab, node: &str, interval_ms: u32, priority: u8) -> anyhow::Result<()> {
    lab.start_keepalived(node, Keepalived { vrid: VRID, priority, interval_ms, address: ADDRESS })
}

/// Ends both and removes the Service.
pub(crate) async fn stop(lab: &Lab) -> anyhow::Result<()> {
    for node in NODES {
        lab.stop_keepalived(node).await?;
    }
    lab.remove_service(SERVICE).await
}

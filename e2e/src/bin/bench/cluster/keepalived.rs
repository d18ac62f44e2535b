//! keepalived's side: Debian's, one instance on n1 and one on n2, with Windlass' priorities.

use std::net::{IpAddr, Ipv4Addr};

use windlass_e2e::{Keepalived, Lab};

use crate::cluster::Contender;

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 190));
const VRID: u8 = 250;
const SERVICE: &str = "keepalived";

/// Starts both, with the priorities that Windlass' router `like` gives to the two nodes.
pub(crate) async fn start(lab: &Lab, interval_ms: u32, like: &Contender) -> anyhow::Result<Contender> {
    lab.foreign_service(SERVICE, "web", ADDRESS).await?;
    for node in ["n1", "n2"] {
        let priority = if node == like.preferred { like.preferred_priority } else { like.backup_priority };
        lab.start_keepalived(node, Keepalived { vrid: VRID, priority, interval_ms, address: ADDRESS })?;
    }
    Ok(Contender {
        system: "keepalived",
        address: ADDRESS,
        vrid: VRID,
        preferred: like.preferred.clone(),
        backup_priority: like.backup_priority,
        preferred_priority: like.preferred_priority,
    })
}

/// Ends both and removes the Service.
pub(crate) async fn stop(lab: &Lab) -> anyhow::Result<()> {
    for node in ["n1", "n2"] {
        lab.stop_keepalived(node).await?;
    }
    lab.remove_service(SERVICE).await
}

//! Windlass' side, with every setting as it is without an Announcement.

use std::{net::IpAddr, time::Duration};

use windlass_e2e::Lab;

use super::{BACKEND, NODES, SERVICES};

const LIMIT: Duration = Duration::from_mins(1);

/// A pool and the Services.
pub(crate) async fn start(lab: &Lab) -> anyhow::Result<Vec<IpAddr>> {
    lab.deploy_windlass(&NODES).await?;
    lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
    lab.backend(SERVICES[0], &[BACKEND]).await?;
    let mut addresses = Vec::new();
    for name in SERVICES {
        lab.same_backend(name, SERVICES[0])?;
        lab.load_balancer(name, |_| ()).await?;
        addresses.push(lab.ingress(name, LIMIT).await?);
    }
    Ok(addresses)
}

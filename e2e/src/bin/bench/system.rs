//! The systems that are compared, and how clients see that an address has moved.

use std::{net::IpAddr, time::Duration};

use anyhow::ensure;
use windlass_e2e::{Lab, SERVICE_PORT, await_that};

/// The host of the client that asks.
pub(crate) const CLIENT: &str = "c1";
/// Limit of the wait for a move: a check that failed counts for a minute.
const LIMIT: Duration = Duration::from_mins(3);

/// System that holds addresses of Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum System {
    /// Windlass as installed.
    Windlass,
    /// Windlass with `connections: Forward`.
    Forward,
    /// Windlass as installed, before Services with `externalTrafficPolicy: Local`.
    Sharing,
    Keepalived,
}

impl System {
    /// Name in rows.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::Forward => "forward",
            Self::Sharing => "sharing",
            Self::Keepalived => "keepalived",
        }
    }
}

/// Waits until this node alone answers for the address.
pub(crate) async fn await_owner(lab: &Lab, address: IpAddr, node: &str) -> anyhow::Result<()> {
    await_that(&format!("{node} has {address}"), LIMIT, async || {
        let owner = lab.await_owner(CLIENT, address).await?;
        ensure!(owner == node, "{owner} has it");
        Ok(Some(()))
    })
    .await
}

/// Waits until the client gets an answer.
pub(crate) async fn await_answer(lab: &Lab, address: IpAddr) -> anyhow::Result<()> {
    await_that(&format!("{address} answers"), LIMIT, async || {
        Ok(Some(lab.curl(CLIENT, address, SERVICE_PORT).await.map(drop)?))
    })
    .await
}

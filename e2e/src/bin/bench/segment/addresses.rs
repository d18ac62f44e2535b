//! The Services, and which node the cluster says has which address.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use anyhow::{anyhow, ensure};
use kube::{Api, Client, api::ListParams};
use windlass_api::{NodeNetwork, VirtualIP};
use windlass_e2e::{Hopeless, Lab, await_that, unused_service};

use crate::services::create;

/// Services made at a time: each change is told to every agent, and all of them and the API server share one machine.
const BATCH: usize = 50;
/// Requests of this program under way.
const IN_FLIGHT: usize = 16;

/// Creates so many Services, a batch at a time: the next when all addresses before it are announced.
pub(crate) async fn create_announced(lab: &Lab, count: usize, limit: Duration) -> anyhow::Result<()> {
    let client = lab.client();
    for first in (0..count).step_by(BATCH) {
        let last = count.min(first + BATCH);
        let batch = (first..last).map(|number| unused_service(&format!("segment-{number}")));
        create(&client, batch, IN_FLIGHT).await?;
        await_announced(lab, last, limit).await?;
        println!("bench: {last} announced");
    }
    Ok(())
}

/// Waits until so many agents have reported their networks.
pub(crate) async fn await_reports(client: &Client, nodes: u8, limit: Duration) -> anyhow::Result<()> {
    let networks: Api<NodeNetwork> = Api::all(client.clone());
    await_that(&format!("{nodes} agents have reported"), limit, async || {
        let reported = networks.list_metadata(&ListParams::default()).await?.items.len();
        ensure!(reported >= usize::from(nodes), "{reported} have");
        Ok(Some(()))
    })
    .await
}

/// Waits until so many addresses are announced. A controller that could not renew its lease has ended, and is an error.
async fn await_announced(lab: &Lab, count: usize, limit: Duration) -> anyhow::Result<()> {
    await_that(&format!("{count} addresses are announced"), limit, async || {
        if !lab.controller_runs("controller")? {
            return Err(anyhow!("the controller has ended: the machine is too busy").context(Hopeless));
        }
        let announced = owners(&lab.client()).await?.len();
        ensure!(announced >= count, "{announced} are");
        Ok(Some(()))
    })
    .await
}

/// The node of each address that is announced.
pub(crate) async fn owners(client: &Client) -> anyhow::Result<BTreeMap<Ipv4Addr, String>> {
    let vips = Api::<VirtualIP>::all(client.clone()).list(&ListParams::default()).await?;
    let owner = |vip: VirtualIP| {
        let IpAddr::V4(address) = vip.spec.address else { return None };
        let node = vip.status.as_ref()?.active_node.clone()?;
        vip.is_announced().then_some((address, node))
    };
    Ok(vips.items.into_iter().filter_map(owner).collect())
}

//! Many Services: the lab for them, a pool, and the client that creates them.

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{
    Client,
    api::{PostParams, Request},
};
use serde_json::{Value, json};
use windlass_e2e::{Lab, LabBuilder};

use crate::progress::Progress;

/// Cluster addresses of the Services.
const SERVICE_RANGE: &str = "198.18.0.0/16";
/// Addresses for all of them. They are in no subnet of the hosts: an Announcement names the nodes' interface.
pub(crate) const POOL: &str = "198.19.0.0/16";

/// Lab without kubelets that has cluster addresses for all Services.
pub(crate) fn lab(nodes: u8) -> LabBuilder {
    Lab::builder().nodes(nodes).light().service_range(SERVICE_RANGE).interactive()
}

/// Creates a pool of these addresses, announced on this interface of the nodes.
pub(crate) async fn pool(lab: &Lab, addresses: &str, interface: &str) -> anyhow::Result<()> {
    lab.announcement("bench", json!({"interfaces": [interface]})).await?;
    lab.pool("bench", &[addresses]).await?;
    Ok(())
}

/// Creates Services, with `in_flight` requests at a time.
pub(crate) async fn create(
    client: &Client,
    services: impl ExactSizeIterator<Item = Value>,
    in_flight: usize,
) -> anyhow::Result<()> {
    let mut progress = Progress::new(services.len());
    let mut answers =
        stream::iter(services).map(|service| create_one(client, service)).buffer_unordered(in_flight);
    let mut accepted = 0;
    while answers.try_next().await?.is_some() {
        accepted += 1;
        progress.print(accepted, "accepted");
    }
    Ok(())
}

async fn create_one(client: &Client, service: Value) -> anyhow::Result<()> {
    let request = Request::new("/api/v1/namespaces/default/services")
        .create(&PostParams::default(), serde_json::to_vec(&service)?)?;
    // The answer is not parsed: the client takes as little of the machine as it can.
    let answer = client.request_text(request).await;
    answer.map(drop).with_context(|| format!("making Service {}", service["metadata"]["name"]))
}

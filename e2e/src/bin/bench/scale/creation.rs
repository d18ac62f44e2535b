//! The client that creates the Services.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{
    Client,
    api::{PostParams, Request},
};
use windlass_e2e::unused_service;

/// Requests of the client under way at the same time.
const IN_FLIGHT: usize = 32;
/// How often is told how far it got.
const TELL: Duration = Duration::from_secs(5);

/// Services to be made.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a> {
    /// What their names begin with.
    pub(crate) name: &'a str,
    pub(crate) count: usize,
}

/// Creates them; returns how long it took until the API server had accepted the last one.
pub(crate) async fn create(client: &Client, batch: Batch<'_>) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let mut told = began;
    let mut answers = stream::iter(0..batch.count)
        .map(|index| create_one(client, batch.name, index))
        .buffer_unordered(IN_FLIGHT);
    let mut accepted = 0;
    while answers.try_next().await?.is_some() {
        accepted += 1;
        if told.elapsed() >= TELL {
            told = Instant::now();
            println!("bench: {accepted} of {} accepted", batch.count);
        }
    }
    Ok(began.elapsed())
}

async fn create_one(client: &Client, batch: &str, index: usize) -> anyhow::Result<()> {
    let name = format!("{batch}-{index:05}");
    let service = unused_service(&name);
    let request = Request::new("/api/v1/namespaces/default/services")
        .create(&PostParams::default(), serde_json::to_vec(&service)?)?;
    // The answer is not parsed: the client is to take as little of the machine as it can.
    client.request_text(request).await.with_context(|| format!("making Service {name}"))?;
    Ok(())
}

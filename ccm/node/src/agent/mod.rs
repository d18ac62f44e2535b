//! The agent: makes this node announce its part of the cluster's virtual IPs, and keeps doing so while the API server is unavailable.
//!
//! | part | does | needs the API server |
//! |---|---|---|
//! | [`start`], [`tasks`] | starts the engine with the last state, then the other parts, each again if it panics | no |
//! | [`running`] | handles what the parts find, one thing after another | |
//! | [`desired`] | objects → virtual routers of this node (pure) | |
//! | [`index`] | updates that incrementally: one virtual IP costs work for itself (pure) | |
//! | [`changes`], [`decide`] | queue of changed objects; their effect on the desired state | |
//! | [`cluster`] | checks that the state on disk is of this cluster | yes |
//! | [`hold`] | keeps announcing addresses whose objects were deleted by accident (pure) | |
//! | [`admission`], [`engine_updates`] | admits restricted virtual IPs once they are guarded (pure); updates the engine | |
//! | [`state`], [`state_writer`] | the last desired state on disk; it is in force before anything else is tried | no |
//! | [`watch`] | copies VirtualRouters and VirtualIPs | yes; while it is away the copies stay |
//! | [`engine_state`], [`activity`], [`duplicates`] | last reported state of the engine | no |
//! | [`keys`](crate::keys) | the keys that sign adverts, from the mounted Secret; a router whose key is not there is left to others | no |
//! | [`health`] | checks that this node can serve (kube-proxy, Announcements' checks); failures lower its priority | no |
//! | [`status`], [`report`] | report what this node is Active for | yes; retried with the state by then |
//! | [`network`], [`addresses`], [`publish`] | interfaces, addresses, foreign routers and hosts with our addresses → this node's NodeNetwork | yes; retried |
//! | [`replication`] | selects nodes that receive connections; holds this node back until it has them | no |
//! | [`sharing`] | addresses that this node serves together with others (pure): their tables, the report, the ability to share | no |
//! | [`settling`] | when the agent is ready: its virtual routers have found their Active | no |
//! | [`throttle`] | processes a burst of events in a few rounds | |
//!
//! None of the tasks can hold up the engine, which runs in threads of its own. A task that panics loses its function until it is started again
//! ([`parts`](crate::parts)), the task that owns the agent's state included; the engine keeps its configuration meanwhile.

mod activity;
mod addresses;
mod admission;
mod backoff;
mod changes;
mod cluster;
mod decide;
mod desired;
mod duplicates;
mod engine_state;
mod engine_updates;
mod health;
mod hold;
mod index;
pub(crate) mod metrics;
mod network;
mod node_events;
mod options;
mod publish;
mod replication;
mod report;
mod restricted;
mod running;
mod service_proxy;
mod settling;
mod sharing;
mod start;
mod state;
mod state_writer;
mod status;
mod tasks;
mod throttle;
mod watch;

use std::sync::Arc;

use kube::Client;
use prometheus::Registry;
use tokio_util::sync::CancellationToken;

pub use self::health::request::proxy_mode;
pub use self::network::is_containers;
pub use self::options::Options;
pub use self::service_proxy::{GuardMode, MasqueradeMark};
use self::start::Started;
pub use crate::keys::SECRET as KEYS_SECRET;

#[cfg(test)]
mod tests;

/// Runs until `token` is cancelled; then resigns everything and returns. Adds its metrics to `registry` and serves that.
pub async fn run(
    client: Client,
    options: Options,
    registry: Registry,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let Started { mut agent, mut inputs, mut tasks } =
        start::start(client, options, registry, token.clone()).await?;
    let (parts, mut is_again) = (Arc::clone(&agent.parts), false);
    let outcome = parts.keep("agent-decisions", &token, async || {
        if std::mem::replace(&mut is_again, true) {
            agent.recover();
        }
        agent.run(&mut inputs, &mut tasks, &token).await
    });
    // `None`: cancelled while it was to be started again.
    let outcome = outcome.await.unwrap_or(Ok(()));
    token.cancel();
    agent.stop(tasks).await;
    outcome
}

//! A cloud-controller-manager from its start to its end: connect, serve, elect, lead (service-contract S-60 to S-63).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::Client;
use prometheus::Registry;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::connect::{ApiServerConfig, ConnectError};
use super::controllers::ControllerName;
use super::options::ManagerOptions;
use super::provider::{BoxError, Capabilities, CloudProvider, Context};
use super::watchdog::Watchdog;
use crate::apiserver::describe;
use crate::client::ClientMetrics;
use crate::events::{EventSink, Recorder};
use crate::lease::{ElectionError, ElectionOptions, Elector};
use crate::metrics::Metrics;
use crate::node::NodeController;
use crate::node::lifecycle::{LifecycleOptions, NodeLifecycleController};
use crate::service::ServiceController;
use crate::serving::{self, HealthChecks, Scope, ServingError};
use crate::store::Informers;

#[cfg(test)]
mod tests;

/// Longest time that the API server may take to become healthy once this process leads (service-contract S-63).
const API_SERVER_LIMIT: Duration = Duration::from_secs(10);
/// Time between two questions whether it is.
const API_SERVER_RETRY: Duration = Duration::from_secs(1);
/// Longest time that a lease may be overdue before the health check of the election fails (service-contract S-62).
const LEASE_TOLERANCE: Duration = Duration::from_secs(20);

/// Reason that a cloud-controller-manager ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// There is no API server to work with.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The HTTPS port cannot be served.
    #[error("{error} ({flags})", error = .0, flags = serving_flags(.0))]
    Serving(#[from] ServingError),
    /// A name is taken: of the provider's metrics, which are registered last.
    #[error(
        "cannot register the provider's metrics: {0}; give each a name that no other metric of the process has"
    )]
    Metrics(#[from] prometheus::Error),
    /// The lease was lost (service-contract S-61).
    #[error(transparent)]
    Election(#[from] ElectionError),
    /// The provider could not get ready.
    #[error("provider {name} cannot start: {reason}")]
    Provider {
        /// Its name.
        name: &'static str,
        /// Error that the provider returned.
        #[source]
        reason: BoxError,
    },
    /// A part of it ended although nobody asked it to. The process must end: what is left of it would lead without
    /// doing its work.
    #[error("{part} ended by itself{}", reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default())]
    Ended {
        /// The controller, or the provider's background work.
        part: &'static str,
        /// Error that the part returned, if any.
        #[source]
        reason: Option<BoxError>,
    },
}

/// The flags that decide about what went wrong.
fn serving_flags(error: &ServingError) -> &'static str {
    match error {
        ServingError::Listen { .. } => "--bind-address, --secure-port",
        ServingError::Certificate { .. } | ServingError::SelfSigned(_) => {
            "--tls-cert-file, --tls-private-key-file"
        }
        ServingError::Folder { .. } => "--cert-dir",
    }
}

/// Runs a provider until `token` is cancelled.
///
/// # Errors
/// The process must exit then, with a code that is not 0, so that no part of it continues as if it led.
pub async fn run<P: CloudProvider>(
    provider: P,
    options: ManagerOptions,
    token: CancellationToken,
) -> Result<(), RunError> {
    for warning in &options.warnings {
        tracing::warn!("{warning}");
    }
    let registry = Registry::new();
    let server = ApiServerConfig::find(options.kubeconfig.as_deref(), options.master.as_deref()).await?;
    let client_metrics = ClientMetrics::register(&registry)?;
    let client = server.client(options.rate, &client_metrics)?;
    let health = HealthChecks::new();
    let reached = Arc::new(AtomicBool::new(false));
    let is_reached = Arc::clone(&reached);
    health.add("apiServer", Scope::READY, move || {
        is_reached
            .load(Ordering::Relaxed)
            .then_some(())
            .ok_or_else(|| "the API server was not reached yet".to_owned())
    });
    let endpoint =
        serving::Server::bind(options.serving.clone(), client.clone()).await?.with_pages(provider.pages());
    let manager = Manager::new(client.clone(), options, &registry, health.clone())?
        .with_election_client(server.election_client(&client_metrics)?);
    provider.register(&registry)?;
    let working = async {
        tokio::select! {
            answered = server.reach(&client) => answered?,
            () = token.cancelled() => return Ok(()),
        }
        reached.store(true, Ordering::Relaxed);
        manager.run(provider, token.clone()).await
    };
    // Served before the election (service-contract S-60), and until the lease is released: not stopped by the token.
    let serving = endpoint.serve(registry, health, CancellationToken::new());
    tokio::select! {
        ended = serving => {
            ended?;
            Err(RunError::Ended { part: "the HTTPS endpoint", reason: None })
        }
        worked = working => worked,
    }
}

/// The controllers of one provider, without the connection and the server around them: what [`run`] runs, and what a
/// test runs against an API server in memory.
pub struct Manager {
    client: Client,
    election_client: Client,
    options: ManagerOptions,
    metrics: Metrics,
    health: HealthChecks,
}

impl Manager {
    /// Registers the metrics; nothing else happens until [`Manager::run`].
    ///
    /// # Errors
    /// Another metric of the registry has the name of one.
    pub fn new(
        client: Client,
        options: ManagerOptions,
        registry: &Registry,
        health: HealthChecks,
    ) -> prometheus::Result<Self> {
        let name = options.election.as_ref().map_or("cloud-controller-manager", |election| &election.name);
        let metrics = Metrics::register(registry, name)?;
        Ok(Self { election_client: client.clone(), client, options, metrics, health })
    }

    /// Runs for leader by a client of its own, as [`crate::client::election_client`] makes it.
    #[must_use]
    pub fn with_election_client(mut self, client: Client) -> Self {
        self.election_client = client;
        self
    }

    /// Leads when its turn has come, until `token` is cancelled.
    pub async fn run<P: CloudProvider>(self, provider: P, token: CancellationToken) -> Result<(), RunError> {
        let Some(election) = self.options.election.clone() else {
            self.metrics.election.set_master(true);
            return Box::pin(self.lead(provider, token)).await;
        };
        let elector = self.elector(election, P::NAME);
        elector.run(token, |token| Box::pin(self.lead(provider, token))).await?.unwrap_or(Ok(()))
    }

    fn elector(&self, election: ElectionOptions, program: &'static str) -> Elector {
        let limit = election.lease_duration + LEASE_TOLERANCE;
        let elector = Elector::new(self.election_client.clone(), election).with_program(program);
        let elector = elector.with_metrics(self.metrics.election.clone());
        let (lease_health, holder) = (elector.lease_health(), elector.lease_health());
        self.health.add("leaderElection", Scope::LIVE, move || lease_health.check(Instant::now(), limit));
        self.health.add("leaseHolder", Scope::READY, move || holder.check_holder());
        elector
    }

    /// Runs everything that only the leader does. When dropped, it stops immediately: its tasks are aborted with it.
    async fn lead<P: CloudProvider>(self, provider: P, token: CancellationToken) -> Result<(), RunError> {
        let mut leader_tasks = LeaderTasks::new(self.health, self.options.start_interval, token.clone());
        let (events, writer) = EventSink::new(Recorder::new(self.client.clone(), P::NAME), token.clone());
        leader_tasks.tasks.spawn(async move {
            writer.await;
            // It ends with its last sender, which a provider without events drops immediately.
            ("the writer of events", Ok(()), TaskEnd::Expected)
        });
        let (informers, watches) = Informers::new(self.client.clone());
        leader_tasks.background("the watches", async move { Err(watches.await.into()) });
        let context = Context {
            client: self.client.clone(),
            informers: informers.clone(),
            cluster_name: self.options.services.cluster_name.clone(),
            cloud_config: self.options.cloud_config,
            election: self.options.election,
            events,
            token: token.clone(),
        };
        let getting_ready = async {
            await_api_server(&self.client).await;
            provider.start(context).await
        };
        let capabilities = tokio::select! {
            ready = getting_ready => ready.map_err(|reason| RunError::Provider { name: P::NAME, reason })?,
            () = token.cancelled() => return Ok(()),
        };
        let Capabilities { load_balancer, instances, background } = capabilities;
        for (name, work) in background {
            leader_tasks.background(name, work);
        }
        let (client, metrics) = (self.client, self.metrics);
        let mut services = self.options.services;
        services.class_finalizer =
            P::CLASS_FINALIZER.map_or_else(|| format!("{}/load-balancer-cleanup", P::NAME), str::to_owned);
        for controller in self.options.controllers {
            match (controller, &load_balancer, &instances) {
                (ControllerName::Service, Some(balancer), _) => {
                    let (client, informers, metrics) = (client.clone(), informers.clone(), metrics.clone());
                    let balancer = Arc::clone(balancer);
                    let work = ServiceController::new(client, informers, balancer, services.clone(), metrics);
                    leader_tasks.controller(controller, work.run(token.clone())).await;
                }
                (ControllerName::Service, None, _) => skipped::<P>(controller, "load balancers"),
                (ControllerName::CloudNode, _, Some(instances)) => {
                    let (client, informers, metrics) = (client.clone(), informers.clone(), metrics.clone());
                    let options = self.options.nodes.clone();
                    let work =
                        NodeController::new(client, informers, Arc::clone(instances), options, metrics);
                    leader_tasks.controller(controller, work.run(token.clone())).await;
                }
                (ControllerName::CloudNode | ControllerName::CloudNodeLifecycle, _, None) => {
                    skipped::<P>(controller, "machines");
                }
                (ControllerName::CloudNodeLifecycle, _, Some(instances)) => {
                    let (client, informers, metrics) = (client.clone(), informers.clone(), metrics.clone());
                    let options = LifecycleOptions {
                        monitor_period: self.options.node_monitor_period,
                        workers: self.options.concurrent_node_lifecycle_syncs,
                        ..LifecycleOptions::default()
                    };
                    let work = NodeLifecycleController::new(
                        client,
                        informers,
                        Arc::clone(instances),
                        options,
                        metrics,
                    );
                    leader_tasks.controller(controller, work.run(token.clone())).await;
                }
                (ControllerName::Route, _, _) => {}
            }
        }
        leader_tasks.run().await
    }
}

fn skipped<P: CloudProvider>(controller: ControllerName, lacking: &str) {
    tracing::warn!("{} is not started: provider {} has no {lacking}", controller.as_str(), P::NAME);
}

/// Kind of a task's end: as expected, or by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TaskEnd {
    Expected,
    Unexpected,
}

type EndedTask = (&'static str, Result<(), BoxError>, TaskEnd);

/// The tasks that run while this process leads.
struct LeaderTasks {
    tasks: JoinSet<EndedTask>,
    health: HealthChecks,
    start_interval: Duration,
    started: bool,
    token: CancellationToken,
}

impl LeaderTasks {
    fn new(health: HealthChecks, start_interval: Duration, token: CancellationToken) -> Self {
        Self { tasks: JoinSet::new(), health, start_interval, started: false, token }
    }

    fn background(
        &mut self,
        name: &'static str,
        work: impl Future<Output = Result<(), BoxError>> + Send + 'static,
    ) {
        let token = self.token.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                ended = work => (name, ended, TaskEnd::Unexpected),
                () = token.cancelled() => (name, Ok(()), TaskEnd::Expected),
            }
        });
    }

    /// Starts a controller, some time after the one before.
    async fn controller(&mut self, name: ControllerName, work: impl Future<Output = ()> + Send + 'static) {
        let name = name.as_str();
        if std::mem::replace(&mut self.started, true) {
            tokio::select! {
                () = sleep(self.start_interval) => {}
                () = self.token.cancelled() => {}
            }
        }
        let watchdog = Watchdog::new(Instant::now());
        let checked = watchdog.clone();
        self.health.add(name, Scope::LIVE, move || checked.check(Instant::now()));
        tracing::info!(controller = name, "started");
        self.tasks.spawn(async move {
            watchdog.during(work).await;
            (name, Ok(()), TaskEnd::Unexpected)
        });
    }

    /// Until the token is cancelled and all have ended, or one ends by itself.
    async fn run(mut self) -> Result<(), RunError> {
        while let Some(ended) = self.tasks.join_next().await {
            if self.token.is_cancelled() {
                continue;
            }
            match ended {
                Ok((_, Ok(()), TaskEnd::Expected)) => {}
                Ok((part, result, _)) => return Err(RunError::Ended { part, reason: result.err() }),
                Err(panicked) => {
                    return Err(RunError::Ended { part: "a controller", reason: Some(panicked.into()) });
                }
            }
        }
        // Nothing was to be started: it leads all the same, so that no other does anything either.
        self.token.cancelled().await;
        Ok(())
    }
}

/// Waits until the API server reports that it is healthy, but for at most [`API_SERVER_LIMIT`]: watches recover by themselves.
async fn await_api_server(client: &Client) {
    let mut failure = "no answer".to_owned();
    let healthy = async {
        loop {
            let mut request = http::Request::new(Vec::new());
            *request.uri_mut() = http::Uri::from_static("/healthz");
            match client.request_text(request).await {
                Ok(_) => return,
                // It answers; this process need not have the right to read its health.
                Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403 | 404) => return,
                Err(error) => failure = describe(&error),
            }
            sleep(API_SERVER_RETRY).await;
        }
    };
    if timeout(API_SERVER_LIMIT, healthy).await.is_err() {
        tracing::warn!(
            error = %failure, "the API server was not healthy within {} s, starting all the same",
            API_SERVER_LIMIT.as_secs()
        );
    }
}

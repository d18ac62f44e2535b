//! The command line, and how the process begins and ends.

use std::future::Future;
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::PoisonError;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::{agent, client, controller, convert, http};

#[cfg(test)]
mod tests;

/// LoadBalancer Services for bare-metal Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "windlass", version, propagate_version = true, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Gives addresses to Services and decides which nodes may announce them (cloud-controller-manager)
    Controller(ControllerArgs),
    /// Announces on this node the addresses it is to announce, electing by VRRP among the nodes
    Agent(AgentArgs),
    /// Prints the pools of another load balancer as pools of Windlass
    #[command(subcommand)]
    Convert(Source),
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum Source {
    /// Reads MetalLB's objects on standard input, prints IPPools, and says on standard error what is different
    Metallb,
}

#[derive(Debug, Args)]
struct Common {
    /// Kubeconfig of the API server [default: the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Form of the log lines
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    log_format: LogFormat,
    /// Least severe level logged: error, warn, info, debug or trace, also per module as in info,kube_client=debug
    #[arg(long, default_value = "info", value_name = "LEVEL", value_parser = log_filter)]
    log_level: String,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Args)]
struct ControllerArgs {
    #[command(flatten)]
    common: Common,
    /// Address of /healthz, /livez, /readyz and /metrics
    #[arg(long, default_value = "127.0.0.1:10258", value_name = "ADDRESS:PORT")]
    http_address: SocketAddr,
    /// Name of the cluster, told to the provider
    #[arg(long, default_value = "kubernetes", value_name = "NAME")]
    cluster_name: String,
    /// Work only while holding the lease, so that several replicas may run
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1,
          default_missing_value = "true", value_name = "BOOL")]
    leader_elect: bool,
    /// Name of the lease
    #[arg(long, default_value = "cloud-controller-manager", value_name = "NAME")]
    leader_elect_resource_name: String,
    /// Namespace of the lease
    #[arg(long, default_value = "kube-system", value_name = "NAMESPACE")]
    leader_elect_resource_namespace: String,
    /// Services worked on at the same time
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256), value_name = "COUNT")]
    concurrent_service_syncs: u16,
    /// Serve Services without loadBalancerClass; those of class windlass.dev/windlass are always served
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1,
          default_missing_value = "true", value_name = "BOOL")]
    classless_services: bool,
    /// Read the address annotations of MetalLB (metallb.io/, metallb.universe.tf/) and kube-vip (kube-vip.io/) where
    /// those of Windlass are not set
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1,
          default_missing_value = "true", value_name = "BOOL")]
    compat_annotations: bool,
    /// Accepted for the manifests of other cloud-controller-managers; only "windlass" makes sense
    #[arg(long, value_parser = ["windlass"], value_name = "NAME")]
    cloud_provider: Option<String>,
}

#[derive(Debug, Args)]
struct AgentArgs {
    #[command(flatten)]
    common: Common,
    /// Name of the Node this agent runs on
    #[arg(long, env = "NODE_NAME", value_name = "NAME", value_parser = node_name)]
    node_name: String,
    /// Folder of the last known state, from which the agent starts when the API server is away
    #[arg(long, default_value = "/var/lib/windlass", value_name = "FOLDER")]
    state_dir: PathBuf,
    /// Address of /healthz, /livez, /readyz and /metrics
    #[arg(long, default_value = "127.0.0.1:9859", value_name = "ADDRESS:PORT")]
    http_address: SocketAddr,
    /// Run the VRRP timers with real-time priority where the system allows it
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1,
          default_missing_value = "true", value_name = "BOOL")]
    realtime: bool,
    /// Answer ping to virtual IPs and refuse what no Service takes, by an nftables table of its own
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1,
          default_missing_value = "true", value_name = "BOOL")]
    guard: bool,
}

fn log_filter(value: &str) -> Result<String, String> {
    EnvFilter::try_new(value).map(|_| value.to_owned()).map_err(|error| {
        format!("{error}; give error, warn, info, debug or trace, or a list such as info,kube_client=debug")
    })
}

/// A Node's name is a DNS subdomain (RFC 1123): what is none names no Node, and would only fail later and less clearly.
fn node_name(value: &str) -> Result<String, String> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    if value.len() <= 253
        && value.chars().all(legal)
        && ends(value.chars().next())
        && ends(value.chars().last())
    {
        Ok(value.to_owned())
    } else {
        Err("no Node can have this name; give the name that `kubectl get nodes` shows".to_owned())
    }
}

/// Runs the command line. Exit code 0: asked to stop and did; 1: failed, with one sentence on stderr; 2: bad usage.
pub(crate) fn run() -> ExitCode {
    let cli = Cli::parse();
    match start(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("windlass: {}", sentence(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes, without those that an outer one already told.
fn sentence(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| {
        if told.contains(&cause) {
            told
        } else if told.is_empty() {
            cause
        } else {
            format!("{told}: {cause}")
        }
    })
}

fn start(cli: Cli) -> anyhow::Result<()> {
    match cli.role {
        Role::Controller(args) => {
            init_log(&args.common)?;
            serve(|token| run_controller(args, token))
        }
        Role::Agent(args) => {
            init_log(&args.common)?;
            serve(|token| run_agent(args, token))
        }
        Role::Convert(Source::Metallb) => convert::run(),
    }
}

/// Runs until the work ends; a signal asks it to.
fn serve<F: Future<Output = anyhow::Result<()>>>(
    work: impl FnOnce(CancellationToken) -> F,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the asynchronous runtime (threads, epoll)")?;
    let result = runtime.block_on(async {
        let token = stop_on_signal()?;
        work(token).await
    });
    // A request to an API server that does not answer must not hold up the end of the process.
    runtime.shutdown_background();
    result
}

async fn run_controller(args: ControllerArgs, token: CancellationToken) -> anyhow::Result<()> {
    let ControllerArgs {
        common,
        http_address,
        cluster_name,
        leader_elect,
        leader_elect_resource_name: lease_name,
        leader_elect_resource_namespace: lease_namespace,
        concurrent_service_syncs,
        classless_services,
        compat_annotations,
        cloud_provider: _,
    } = args;
    let (registry, calls) = http::registry("controller");
    let client = client::connect(common.kubeconfig.as_deref(), None, &calls).await?;
    let server = http::Server::bind(http_address).await?;
    let workers = usize::from(concurrent_service_syncs);
    let settings = controller::Settings { classless_services, compat_annotations };
    let options =
        controller::Options { cluster_name, workers, leader_elect, lease_namespace, lease_name, settings };
    let controller = {
        let mut registry = registry.lock().unwrap_or_else(PoisonError::into_inner);
        controller::Controller::new(client.kube.clone(), options, &mut registry)
    };
    // Served before the election: a standby is alive, and as ready as a leader to take over (service-contract S-60).
    let (health, ready) = http::Health::starting("the API server was not reached yet");
    let work = async {
        tokio::select! {
            reached = client.reach() => reached?,
            () = token.cancelled() => return Ok(()),
        }
        drop(ready.send_replace(Ok(())));
        controller.run(token.clone()).await
    };
    tokio::select! {
        // Not stopped by the token: it answers until the lease is released.
        ended = server.serve(registry, health, CancellationToken::new()) => {
            ended.and_then(|()| Err(anyhow::anyhow!("the HTTP server ended by itself")))
        }
        worked = work => worked,
    }
}

async fn run_agent(args: AgentArgs, token: CancellationToken) -> anyhow::Result<()> {
    let AgentArgs { common, node_name, state_dir, http_address, realtime, guard } = args;
    let (registry, calls) = http::registry("agent");
    let client = client::connect(common.kubeconfig.as_deref(), None, &calls).await?;
    let options = agent::Options { node_name, state_dir, http_address, realtime, guard };
    agent::run(client.kube, options, registry, token).await
}

fn init_log(common: &Common) -> anyhow::Result<()> {
    // The Kubernetes client logs every refused connection as an error of its own; what fails is said here, once.
    let filter = EnvFilter::try_new(format!("kube_client=off,kube_runtime=off,{}", common.log_level));
    let filter = filter.with_context(|| format!("cannot use --log-level {}", common.log_level))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let done = match common.log_format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    done.map_err(|error| anyhow::anyhow!("cannot set up logging: {error}"))
}

/// A token that SIGTERM (the kubelet) or SIGINT (a terminal) cancels.
fn stop_on_signal() -> anyhow::Result<CancellationToken> {
    let token = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate()).context("cannot handle SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot handle SIGINT")?;
    let stop = token.clone();
    tokio::spawn(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal = name, "stopping");
        stop.cancel();
    });
    Ok(token)
}

//! The command line of what is asked.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::explain::Client;
use super::output::Output;

/// Subcommands that read the state of a cluster, or act on it.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lists errors and warnings with remedies, then a summary of the cluster
    ///
    /// Exit code 0: no errors; 3: errors; 4: a part of the cluster could not be read; 1: no API server; 2: bad usage.
    Status(StatusArgs),
    /// Tests whether the cluster is fit for Windlass, before the installation and after; only reads, except with --pairs
    ///
    /// Exit code 0: no errors; 3: errors; 4: a part of the cluster could not be read; 1: no API server.
    Check(CheckArgs),
    /// Lists Services of type LoadBalancer: addresses, the node that announces them, and what they wait for
    #[command(visible_alias = "service")]
    Services(ListArgs),
    /// Lists VirtualIPPools: numbers of addresses, and problems
    #[command(visible_alias = "pool")]
    Pools(ListArgs),
    /// Lists nodes: agent, announced addresses, and failed checks
    #[command(visible_alias = "node")]
    Nodes(ListArgs),
    /// Lists VirtualRouters: the Active node of each, and the ranked candidates
    #[command(visible_alias = "router")]
    Routers(ListArgs),
    /// Lists VirtualIPs: the Services of each address, and the node that announces it
    Vips(ListArgs),
    /// Shows why a Service waits, or the path to a Service or address: pool, virtual router, ranked nodes, moves
    ///
    /// Exit code 0: it works; 3: it does not; 4: a part of the cluster could not be read; 1: no such object.
    Explain(ExplainArgs),
    /// Prints moves of addresses and problems until Ctrl-C
    Watch(WatchArgs),
    /// Sends packets of VRRP to other nodes and prints whose arrive: what the pods of `check --pairs` do
    #[command(hide = true)]
    Exchange(ExchangeArgs),
    /// Moves the addresses off a node, by the label node.kubernetes.io/exclude-from-external-load-balancers, and waits for it
    ///
    /// Pods stay; other load balancers obey the label, too. Exit code 0: the node announces nothing any more; 3: it still does.
    Drain(DrainArgs),
    /// Removes that label: the node may announce again
    Undrain(UndrainArgs),
    /// Makes a node announce an address, with all others of its virtual router, until `move ADDRESS --undo`
    ///
    /// Exit code 0: the node announces them (with --undo: the preference is removed); 3: it does not yet; 1: it cannot, with the reason.
    Move(MoveArgs),
    /// Frees an address in quarantine for any Service
    Release(ReleaseArgs),
    /// Writes a file for support: objects, problems, logs of Windlass' pods; no Secret
    Bundle(BundleArgs),
}

/// The cluster that is asked.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    /// Kubeconfig [default: $KUBECONFIG or ~/.kube/config; in a pod its service account]
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,
    /// Time limit of each request
    #[arg(long, default_value_t = 10, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600))]
    timeout_seconds: u32,
}

impl ClusterArgs {
    /// Returns the time limit for an answer.
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds.into())
    }
}

/// Arguments of `status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// Output format instead of text; wide leaves nothing out
    #[arg(long, short, value_enum, value_name = "FORM")]
    pub(super) output: Option<Output>,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// Also test this host, which is a node: kernel, settings, ports, and the VRRP adverts that arrive. Needs root
    #[arg(long)]
    pub(super) host: bool,
    /// Also test VRRP between every two nodes, by a pod on each ready node for some seconds
    #[arg(long)]
    pub(super) pairs: bool,
    /// Image of those pods [default: the agents', before the installation the one of this version]
    #[arg(long, requires = "pairs", value_name = "IMAGE")]
    pub(super) image: Option<String>,
    /// Time for which adverts, and the packets of pairs, are received
    #[arg(long, default_value_t = 4, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..=600))]
    pub(super) listen_seconds: u16,
    /// Output format instead of text; wide leaves nothing out
    #[arg(long, short, value_enum, value_name = "FORM")]
    pub(super) output: Option<Output>,
}

/// Arguments of `exchange`.
#[derive(Debug, Args)]
pub struct ExchangeArgs {
    /// Number of the trial
    #[arg(long, value_name = "NUMBER")]
    pub(super) run: u64,
    /// This node
    #[arg(long, value_name = "NAME")]
    pub(super) node: String,
    /// Addresses of the other nodes
    #[arg(long = "peer", value_name = "ADDRESS")]
    pub(super) peers: Vec<IpAddr>,
}

/// Arguments of a list.
#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// Namespace of Services [default: that of the context]
    #[arg(long, short, value_name = "NAME")]
    pub(super) namespace: Option<String>,
    /// Services of all namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    pub(super) all_namespaces: bool,
    /// Names of the objects to list [default: all]
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,
    /// Output format instead of a table; wide has further columns
    #[arg(long, short, value_enum, value_name = "FORM")]
    pub(super) output: Option<Output>,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// Namespace of the Service [default: that of the context]
    #[arg(long, short, value_name = "NAME")]
    pub(super) namespace: Option<String>,
    /// A Service, as web or shop/web, or an address, as 192.0.2.10
    #[arg(value_name = "SERVICE|ADDRESS")]
    pub(super) subject: String,
    /// Also show the node that serves this client of a shared address; without the port if sharing is by client. Behind a NAT, the client is
    /// the NAT's address and port
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(super) client: Option<Client>,
    /// Output format instead of text
    #[arg(long, short, value_enum, value_name = "FORM")]
    pub(super) output: Option<Output>,
}

/// Arguments of `watch`.
#[derive(Debug, Args)]
pub struct WatchArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// Interval of reading the cluster
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) interval_seconds: u32,
}

/// Arguments of `drain`.
#[derive(Debug, Args)]
pub struct DrainArgs {
    #[command(flatten)]
    pub(super) node: UndrainArgs,
    /// Longest wait until it is done; 0: no wait
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    pub(super) wait_seconds: u32,
}

/// Arguments of `undrain`.
#[derive(Debug, Args)]
pub struct UndrainArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// The node
    #[arg(value_name = "NODE")]
    pub(super) name: String,
    /// Only print the changes
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// Arguments of `move`.
#[derive(Debug, Args)]
pub struct MoveArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// The address
    #[arg(value_name = "ADDRESS")]
    pub(super) address: IpAddr,
    /// Node that announces it
    #[arg(long, value_name = "NODE", required_unless_present = "undo", conflicts_with = "undo", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(super) to: Option<String>,
    /// Remove the preference of an earlier move
    #[arg(long)]
    pub(super) undo: bool,
    /// Only print the changes
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Longest wait until it is done; 0: no wait
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    pub(super) wait_seconds: u32,
}

/// Arguments of `release`.
#[derive(Debug, Args)]
pub struct ReleaseArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// The address
    #[arg(value_name = "ADDRESS")]
    pub(super) address: IpAddr,
    /// Only print the changes
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// Arguments of `bundle`.
#[derive(Debug, Args)]
pub struct BundleArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// A new file [default: windlass-bundle-TIME.json in this folder]
    #[arg(value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
}

//! The command line of what is asked.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::output::Output;

/// Subcommands that read the state of a cluster, or act on it.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Shows on one screen what is wrong in the cluster and what to do about it, then what there is
    ///
    /// Exit code 0: nothing is wrong; 3: there are errors; 4: part of the cluster could not be read; 1: there is no API server to ask;
    /// 2: bad usage.
    Status(StatusArgs),
    /// Checks a cluster before Windlass is installed and after, with --host this host as well; only reads, but for --pairs
    ///
    /// Exit code 0: no finding is an error; 3: there are errors; 4: part of the cluster could not be read; 1: there is no API server
    /// to ask.
    Check(CheckArgs),
    /// Lists Services of type LoadBalancer: their addresses, the node that announces them, and what they wait for
    #[command(visible_alias = "service")]
    Services(ListArgs),
    /// Lists VirtualIPPools: how full they are, and what is wrong with them
    #[command(visible_alias = "pool")]
    Pools(ListArgs),
    /// Lists nodes: whether an agent runs there, what it announces, and what fails
    #[command(visible_alias = "node")]
    Nodes(ListArgs),
    /// Lists VirtualRouters: the node that is Active in each, and the candidates in their order
    #[command(visible_alias = "router")]
    Routers(ListArgs),
    /// Lists VirtualIPs: the Services that have each address, and the node that announces it
    Vips(ListArgs),
    /// Explains why a Service waits, or the whole path to an address: pool, virtual router, nodes in their order, moves
    ///
    /// Exit code 0: it works; 3: it does not; 4: part of the cluster could not be read; 1: there is nothing of that name.
    Explain(ExplainArgs),
    /// Prints moves of addresses and problems as they come and go, until it is stopped
    Watch(WatchArgs),
    /// Sends packets of VRRP to other nodes and prints whose arrive: what the pods of `check --pairs` do
    #[command(hide = true)]
    Exchange(ExchangeArgs),
    /// Has a node give its addresses to others, by the label node.kubernetes.io/exclude-from-external-load-balancers, and waits for it
    ///
    /// Pods stay; other load balancers go by the label, too. Exit code 0: it announces nothing any more; 3: it still does.
    Drain(DrainArgs),
    /// Takes that label off a node again
    Undrain(UndrainArgs),
    /// Has a node announce an address, and all others of its virtual router with it, before all nodes that could as well, until it is undone
    ///
    /// Exit code 0: it announces them (with --undo: the wish is taken back); 3: it does not yet; 1: it cannot, and why.
    Move(MoveArgs),
    /// Frees an address that is kept back (in quarantine), for any Service
    Release(ReleaseArgs),
    /// Writes what somebody who helps needs to see into one file: objects, problems, logs of Windlass' pods; no Secret
    Bundle(BundleArgs),
}

/// The cluster that is asked.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    /// Kubeconfig [default: as kubectl's, that is $KUBECONFIG or ~/.kube/config; in a pod its service account]
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,
    /// Time within which the API server has to answer
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
    /// Another form than text; wide: every problem, none left out
    #[arg(long, short, value_enum, value_name = "FORM")]
    pub(super) output: Option<Output>,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// Also this host, which is a node: its kernel, settings and ports, and whose adverts of VRRP arrive. Needs root
    #[arg(long)]
    pub(super) host: bool,
    /// Also whether VRRP passes between every two nodes: for this a pod runs on each for some seconds
    #[arg(long)]
    pub(super) pairs: bool,
    /// Image of those pods [default: that of the agents; if there are none, the one of this version]
    #[arg(long, requires = "pairs", value_name = "IMAGE")]
    pub(super) image: Option<String>,
    /// Time for which to listen for adverts, and for the packets of pairs
    #[arg(long, default_value_t = 4, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..=600))]
    pub(super) listen_seconds: u16,
    /// Another form than text; wide: every finding, none left out
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
    /// Namespace of Services [default: that of the context]; what has no namespace is shown of all
    #[arg(long, short, value_name = "NAME")]
    pub(super) namespace: Option<String>,
    /// Services of all namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    pub(super) all_namespaces: bool,
    /// Only these
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,
    /// Another form than a table; wide: with further columns
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
    /// Another form than text
    #[arg(long, short, value_enum, value_name = "FORM")]
    pub(super) output: Option<Output>,
}

/// Arguments of `watch`.
#[derive(Debug, Args)]
pub struct WatchArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// Interval between two looks at the cluster
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) interval_seconds: u32,
}

/// Arguments of `drain`.
#[derive(Debug, Args)]
pub struct DrainArgs {
    #[command(flatten)]
    pub(super) node: UndrainArgs,
    /// Time to wait until the node announces nothing any more; 0: not at all
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
    /// Only print what would be done
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
    /// The node that is to announce it
    #[arg(long, value_name = "NODE", required_unless_present = "undo", conflicts_with = "undo", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(super) to: Option<String>,
    /// Take back what a move before has asked for
    #[arg(long)]
    pub(super) undo: bool,
    /// Only print what would be done
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Time to wait until the node announces it; 0: not at all
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
    /// Only print what would be done
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// Arguments of `bundle`.
#[derive(Debug, Args)]
pub struct BundleArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// A file that is not there yet [default: windlass-bundle-TIME.json in this folder]
    #[arg(value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
}

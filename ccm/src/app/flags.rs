//! The flags of every cloud-controller-manager (service-contract §5.2), with Kubernetes' defaults.
//!
//! Values are only read here; [`Flags::options`](super::options) checks them.

use std::num::ParseFloatError;

use clap::{ArgAction, Args};

use super::duration::GoDuration;
use super::logging::LogFormat;
use super::noop::IgnoredFlags;
use super::serving_flags::ServingFlags;

#[cfg(test)]
mod tests;

/// The flags. A provider's binary flattens them into its own, as the last ones.
#[derive(Debug, Clone, Args)]
#[command(args_override_self = true)]
pub struct Flags {
    /// Name of the cloud provider: only the one of this program
    #[arg(long, value_name = "NAME")]
    pub cloud_provider: Option<String>,
    /// File with settings of the provider
    #[arg(long, value_name = "FILE")]
    pub cloud_config: Option<String>,
    /// Kubeconfig of the API server [default: the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<String>,
    /// URL of the API server, in place of the kubeconfig's or of KUBERNETES_SERVICE_HOST
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,
    /// Requests to the API server per second, in the long run [default: 20 if --kube-api-burst is given, else no limit]
    #[arg(long, value_name = "NUMBER", value_parser = rate, allow_negative_numbers = true)]
    pub kube_api_qps: Option<f64>,
    /// Requests to the API server in a burst [default: 30 if --kube-api-qps is given, else no limit]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub kube_api_burst: Option<u32>,
    /// The controllers and their pace.
    #[command(flatten)]
    pub controllers: ControllerFlags,
    /// Leader election.
    #[command(flatten)]
    pub election: ElectionFlags,
    /// The log.
    #[command(flatten)]
    pub logging: LoggingFlags,
    /// The HTTPS port. After the others: what follows it in `--help` stands under its heading.
    #[command(flatten)]
    pub serving: ServingFlags,
    /// Flags that have no effect.
    #[command(flatten)]
    pub ignored: IgnoredFlags,
}

/// Selection and speed of the controllers.
#[derive(Debug, Clone, Args)]
pub struct ControllerFlags {
    /// Name of the cluster, passed to the provider
    #[arg(long, default_value = "kubernetes", value_name = "NAME")]
    pub cluster_name: String,
    /// Controllers to run: * for all, foo for foo, -foo for all but foo; the names are cloud-node-controller (or cloud-node),
    /// cloud-node-lifecycle-controller (cloud-node-lifecycle), service-lb-controller (service), node-route-controller (route)
    #[arg(long, default_value = "*", value_name = "LIST", value_delimiter = ',', action = ArgAction::Append,
          allow_hyphen_values = true)]
    pub controllers: Vec<String>,
    /// Services processed in parallel
    #[arg(long, default_value_t = 1, value_name = "COUNT", allow_negative_numbers = true)]
    pub concurrent_service_syncs: i32,
    /// Nodes processed in parallel
    #[arg(long, default_value_t = 1, value_name = "COUNT", allow_negative_numbers = true)]
    pub concurrent_node_syncs: i32,
    /// Nodes whose addresses are checked in parallel; the larger of this and --concurrent-node-syncs counts
    #[arg(long, default_value_t = 0, value_name = "COUNT", allow_negative_numbers = true)]
    pub concurrent_node_status_updates: i32,
    /// Nodes that are not ready whose machines are checked in parallel
    #[arg(long, default_value_t = 16, value_name = "COUNT", allow_negative_numbers = true)]
    pub concurrent_node_lifecycle_syncs: i32,
    /// Interval of checks whether the machines of Nodes that are not ready exist
    #[arg(long, default_value = "5s", value_name = "DURATION", allow_hyphen_values = true)]
    pub node_monitor_period: GoDuration,
    /// Interval of checks of the addresses of all Nodes
    #[arg(long, default_value = "5m", value_name = "DURATION", allow_hyphen_values = true)]
    pub node_status_update_frequency: GoDuration,
    /// Time between the starts of two controllers
    #[arg(long, default_value = "0s", value_name = "DURATION", allow_hyphen_values = true)]
    pub controller_start_interval: GoDuration,
}

/// Leader election.
#[derive(Debug, Clone, Args)]
pub struct ElectionFlags {
    /// Work only while holding the lease, so that several replicas can run
    #[arg(long, default_value = "true", value_parser = go_bool, action = ArgAction::Set, num_args = 0..=1,
          require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub leader_elect: bool,
    /// Time for which candidates wait for a silent leader
    #[arg(long, default_value = "15s", value_name = "DURATION", allow_hyphen_values = true)]
    pub leader_elect_lease_duration: GoDuration,
    /// Time for which a leader works without renewal; shorter than the lease's duration, and than an hour
    #[arg(long, default_value = "10s", value_name = "DURATION", allow_hyphen_values = true)]
    pub leader_elect_renew_deadline: GoDuration,
    /// Time between two attempts to get or renew the lease
    #[arg(long, default_value = "2s", value_name = "DURATION", allow_hyphen_values = true)]
    pub leader_elect_retry_period: GoDuration,
    /// Kind of the lock; only leases
    #[arg(long, default_value = "leases", value_name = "KIND")]
    pub leader_elect_resource_lock: String,
    /// Name of the lease
    #[arg(long, default_value = "cloud-controller-manager", value_name = "NAME")]
    pub leader_elect_resource_name: String,
    /// Namespace of the lease
    #[arg(long, default_value = "kube-system", value_name = "NAMESPACE")]
    pub leader_elect_resource_namespace: String,
}

/// The log.
#[derive(Debug, Clone, Args)]
pub struct LoggingFlags {
    /// Log verbosity: 4 for debugging, 6 for everything
    #[arg(short = 'v', long = "v", default_value_t = 0, value_name = "LEVEL", allow_negative_numbers = true)]
    pub verbosity: i32,
    /// Format of the log lines
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub logging_format: LogFormat,
    /// Log filter that replaces the one of `-v`: for binaries with a flag of their own.
    #[arg(skip)]
    pub filter: Option<String>,
}

/// A switch, in all forms that Go reads.
pub fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("give true or false".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    text.parse().map_err(|error: ParseFloatError| format!("{error}; give requests a second, as 20 or 0.5"))
}

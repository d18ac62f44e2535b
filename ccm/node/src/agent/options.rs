//! Settings of the agent.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use windlass_common::http::Endpoints;
use windlass_engine::{ConnectionForwarding, ConnectionReplication};

use super::service_proxy::{GuardMode, MasqueradeMark};

/// Settings from the agent's command line.
pub struct Options {
    /// Name of this node.
    pub node_name: String,
    /// Folder of the state file.
    pub state_dir: PathBuf,
    /// Folder in which the Secret with the keys of adverts is mounted, if there is one.
    pub vrrp_keys_dir: PathBuf,
    /// Addresses on which to serve health and metrics.
    pub endpoints: Endpoints,
    /// True if the engine requests real-time scheduling.
    pub realtime: bool,
    /// Mode of the guard: nftables answers ping to virtual IPs and refuses packets that no Service takes.
    pub guard: GuardMode,
    /// Forwarding of established connections to the node that handed an address over; `None`: they are not forwarded.
    pub connection_forwarding: Option<ConnectionForwarding>,
    /// Replication of connections between nodes, where an Announcement enables it.
    pub connection_replication: ConnectionReplication,
    /// Address of kube-proxy's health check; `None`: it is not queried.
    pub kube_proxy: Option<SocketAddr>,
    /// Address at which kube-proxy reports its mode; `None`: it is not queried.
    pub kube_proxy_metrics: Option<SocketAddr>,
    /// kube-proxy's mark for packets that it masquerades, if the admin configured it.
    pub masquerade_mark: MasqueradeMark,
    /// Time for which this node keeps announcing addresses after most of their objects were deleted together; zero: not at all.
    pub deletion_hold: Duration,
}

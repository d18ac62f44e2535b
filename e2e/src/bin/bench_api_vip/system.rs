//! Who holds the VIP.

use windlass_e2e::{Lab, Signal};

/// Who holds the VIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// `windlass vip`, whose node answers with its own API server.
    Windlass,
    /// `windlass vip`, whose node hands connections to all API servers that are well.
    Balanced,
    /// keepalived.
    Keepalived,
}

impl System {
    pub(crate) const ALL: [Self; 3] = [Self::Windlass, Self::Balanced, Self::Keepalived];

    /// As the environment names it.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::Balanced => "balanced",
            Self::Keepalived => "keepalived",
        }
    }

    /// As the report names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::Balanced => "windlass balanced",
            Self::Keepalived => "keepalived",
        }
    }

    /// Starts it on a node of the control plane.
    pub(crate) fn start(self, lab: &Lab, node: &str) -> anyhow::Result<()> {
        match self {
            Self::Windlass => lab.start_api_vip(node, &[]),
            Self::Balanced => {
                let backends: Vec<String> =
                    lab.control_plane_nodes().map(|one| format!("{}:6443", one.address())).collect();
                let flags: Vec<&str> = backends.iter().flat_map(|one| ["--backend", one.as_str()]).collect();
                lab.start_api_vip(node, &flags)
            }
            Self::Keepalived => lab.start_api_keepalived(node),
        }
    }

    /// Ends it on a node in an orderly way.
    pub(crate) async fn stop(self, lab: &Lab, node: &str) -> anyhow::Result<()> {
        match self {
            Self::Windlass | Self::Balanced => lab.stop_vip(node, Signal::SIGTERM).await,
            Self::Keepalived => lab.stop_keepalived(node).await,
        }
    }
}

//! The programs that can hold the VIP.

use std::net::IpAddr;

use windlass_e2e::{Lab, Signal};

/// Program that holds the VIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Holder {
    /// `windlass vip`, whose node answers with its own API server.
    Windlass,
    /// `windlass vip`, whose node hands connections to all API servers that are well.
    Balanced,
    /// As [`Self::Windlass`], with a VIP of IPv6.
    #[value(name = "ipv6")]
    OfIpv6,
    /// keepalived.
    Keepalived,
}

impl Holder {
    /// Name in rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::Balanced => "windlass balanced",
            Self::OfIpv6 => "windlass IPv6",
            Self::Keepalived => "keepalived",
        }
    }

    /// The VIP.
    pub(crate) fn vip(self, lab: &Lab) -> IpAddr {
        match self {
            Self::Windlass | Self::Balanced | Self::Keepalived => lab.api_vip(),
            Self::OfIpv6 => lab.api_vip_of_ipv6(),
        }
    }

    /// Starts it on a node of the control plane.
    pub(crate) fn start(self, lab: &Lab, node: &str) -> anyhow::Result<()> {
        match self {
            Self::Windlass | Self::OfIpv6 => lab.start_api_vip(node, self.vip(lab), &[]),
            Self::Balanced => {
                let backends: Vec<String> =
                    lab.control_plane_nodes().map(|one| format!("{}:6443", one.address())).collect();
                let flags: Vec<&str> = backends.iter().flat_map(|one| ["--backend", one.as_str()]).collect();
                lab.start_api_vip(node, self.vip(lab), &flags)
            }
            Self::Keepalived => lab.start_api_keepalived(node),
        }
    }

    /// Ends it on a node in an orderly way.
    pub(crate) async fn stop(self, lab: &Lab, node: &str) -> anyhow::Result<()> {
        match self {
            Self::Windlass | Self::Balanced | Self::OfIpv6 => lab.stop_vip(node, Signal::SIGTERM).await,
            Self::Keepalived => lab.stop_keepalived(node).await,
        }
    }
}

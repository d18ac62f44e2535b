//! Pod network of a lab.

/// Pod network of a lab with kubelets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cni {
    /// A bridge on each node, and routes between the nodes that the lab makes.
    #[default]
    Routed,
    /// flannel's daemon on each node.
    Flannel {
        /// The way to pods of other nodes.
        backend: FlannelBackend,
        /// Its masquerade rules are nftables' own; else iptables', its default.
        nftables: bool,
    },
}

/// flannel's way to pods of other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlannelBackend {
    /// A VXLAN tunnel, its default.
    Vxlan,
    /// Routes on the LAN.
    HostGw,
}

impl FlannelBackend {
    /// Returns flannel's name of it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::HostGw => "host-gw",
        }
    }
}

//! The setups that are measured, and the sites in which some of them run side by side.

/// Setup that is measured: a program, and its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Setup {
    /// Windlass, with `connections: Replicate`.
    Windlass,
    /// With the default.
    Forward,
    Keepalived,
    Conntrackd,
    /// The same where kube-proxy's masquerading is taken from it: backends answer to the address, as with Windlass.
    ConntrackdVip,
}

/// Setups that run in one lab at the same time, with an address each, so that one fault befalls them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    Windlass,
    Keepalived,
    /// Apart from the one without: conntrackd tells of all connections to a node.
    Conntrackd,
}

impl Setup {
    /// Name in rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::Forward => "windlass forward",
            Self::Keepalived => "keepalived",
            Self::Conntrackd => "keepalived + conntrackd",
            Self::ConntrackdVip => "keepalived + conntrackd, source VIP",
        }
    }

    /// Site that it runs in.
    pub(crate) fn site(self) -> Site {
        match self {
            Self::Windlass | Self::Forward => Site::Windlass,
            Self::Keepalived => Site::Keepalived,
            Self::Conntrackd | Self::ConntrackdVip => Site::Conntrackd,
        }
    }
}

impl Site {
    pub(crate) const ALL: [Self; 3] = [Self::Windlass, Self::Keepalived, Self::Conntrackd];

    /// Name of its lab.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::Keepalived => "keepalived",
            Self::Conntrackd => "conntrackd",
        }
    }
}

//! What is compared: systems, families, faults.

use std::time::Duration;

use windlass_engine::Family;

/// Priorities of the node whose faults are measured and of its successor. The skew time is short: FRR computes it in whole
/// hundredths of a second, so that a long one would be cut to nothing for FRR alone.
pub(crate) const PRIORITIES: [u8; 2] = [254, 253];
/// VRID of every group.
pub(crate) const VRID: u8 = 7;
/// SCHED_FIFO priority of every router, in every row.
pub(crate) const ROUTER: &str = "10";

/// Who made the routers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum System {
    Windlass,
    Keepalived,
    Frr,
}

impl System {
    pub(crate) const ALL: [Self; 3] = [Self::Windlass, Self::Keepalived, Self::Frr];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::Keepalived => "keepalived",
            Self::Frr => "frr",
        }
    }
}

pub(crate) const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

pub(crate) fn family_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "v4",
        Family::V6 => "v6",
    }
}

/// What happens to the Active.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    CablePull,
    Sigkill,
    Sigstop,
    GracefulStop,
}

impl Fault {
    pub(crate) const ALL: [Self; 4] = [Self::CablePull, Self::Sigkill, Self::Sigstop, Self::GracefulStop];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CablePull => "cable-pull",
            Self::Sigkill => "sigkill",
            Self::Sigstop => "sigstop",
            Self::GracefulStop => "graceful-stop",
        }
    }
}

/// A group of two routers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) system: System,
    pub(crate) family: Family,
    pub(crate) interval_ms: u32,
}

impl Group {
    pub(crate) fn interval(self) -> Duration {
        Duration::from_millis(self.interval_ms.into())
    }

    /// Longest that the protocol allows the successor to wait after the last advert (RFC 9568 §6.1): three intervals and
    /// its skew time. In milliseconds.
    pub(crate) fn bound_ms(self) -> f64 {
        let interval = f64::from(self.interval_ms);
        3.0 * interval + interval * (256.0 - f64::from(PRIORITIES[1])) / 256.0
    }
}

/// What loads the machine meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stress {
    Idle,
    Loaded,
}

impl Stress {
    pub(crate) const ALL: [Self; 2] = [Self::Idle, Self::Loaded];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Loaded => "loaded",
        }
    }
}

//! `windlass check --pairs`: whether VRRP passes between every two nodes, tried by a pod on each, which sends to all others and says
//! whom it hears. Needs no agents, so it serves before they are installed as well.
//!
//! | file | concept |
//! |---|---|
//! | `packet` | what is sent (pure) |
//! | `exchange` | what a pod does: sends, listens, tells |
//! | `pods` | the pods (pure) |
//! | `trial` | makes the pods, reads what they say, takes them away |
//! | `findings` | what that means (pure) |

mod exchange;
mod findings;
mod packet;
mod pods;
mod trial;

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

pub(in crate::inspect) use self::exchange::exchange;
pub(super) use self::findings::{facts, findings};
pub(super) use self::trial::{TrialOptions, try_pairs};

#[cfg(test)]
mod tests;

/// A way by which a packet comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Way {
    /// To 224.0.0.18.
    MulticastV4,
    /// To the node's IPv4 address.
    UnicastV4,
    /// To ff02::12.
    MulticastV6,
    /// To the node's IPv6 address.
    UnicastV6,
}

/// What a node has heard so far; its pod prints it as one line of JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Report {
    /// Its addresses in the networks that it has in common with other nodes.
    pub(super) networks: Vec<IpNet>,
    /// The nodes that it hears, and how.
    pub(super) heard: BTreeMap<String, BTreeSet<Way>>,
    /// What it could not do.
    pub(super) failed: BTreeSet<String>,
}

/// A node, and what it heard; or why that is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tried {
    pub(super) node: String,
    pub(super) report: Result<Report, String>,
}

//! `windlass check --pairs`: tests by a pod on each node that VRRP passes between every two nodes. Each pod sends to all others and reports
//! the nodes from which it receives. Needs no agents, so it also works before they are installed.
//!
//! | file | concept |
//! |---|---|
//! | `packet` | what is sent (pure) |
//! | `exchange` | the program of a pod: sends, listens, reports |
//! | `pods` | the pods (pure) |
//! | `trial` | creates the pods, reads their reports, deletes them |
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

/// Report of a node on the packets received so far; its pod prints it as one line of JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Report {
    /// Its addresses in the networks that it has in common with other nodes.
    pub(super) networks: Vec<IpNet>,
    /// The nodes from which it receives, and the ways.
    pub(super) heard: BTreeMap<String, BTreeSet<Way>>,
    /// Operations that failed.
    pub(super) failed: BTreeSet<String>,
}

/// A node with its report; or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tried {
    pub(super) node: String,
    pub(super) report: Result<Report, String>,
}

//! Assignment of one virtual router to a node, as stored on disk and as passed to the engine. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_api::{AddressConflictPolicy, ConnectionPolicy, ExternalTrafficPolicy, NodeCheck, Transport};
use windlass_common::priorities::FIT_FROM;
use windlass_engine::{Hold, RouterConfig, RouterKey};
use windlass_vrrp::auth::KeyId;
use windlass_vrrp::{Family, Interval, Priority, Vrid};

/// Time during which the LAN is probed for another owner before an address is used for the first time: hosts answer ARP and neighbour
/// solicitations within milliseconds, and a new Service should not wait long for its address.
const PROBE: Duration = Duration::from_millis(60);

/// Time that each preferred node has to take an address over before this one does: nodes learn of a changed list at different moments, and
/// an address that moves twice leaves connections behind (docs/connections.md).
const PREEMPT_TURN: Duration = Duration::from_millis(500);
/// Number of preferred nodes that get a turn: more than that are not slow at the same time.
pub(crate) const TURNS: usize = 3;

/// Assignment of one virtual router to this node. Kept on disk, so its fields are part of the state file's format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Assignment {
    /// Name of the `VirtualRouter`.
    pub(crate) virtual_router: String,
    /// This node's interface on the segment.
    pub(crate) interface: String,
    pub(crate) vrid: u8,
    /// This node's priority, 1 to 254.
    pub(crate) priority: u8,
    pub(crate) interval_milliseconds: u32,
    /// Source of this node's adverts: its address on the segment, in IPv6 its interface's link-local one. Its family is
    /// that of the virtual router.
    pub(crate) source: IpAddr,
    /// Addresses of the other candidates: only their adverts are accepted.
    pub(crate) peers: BTreeSet<IpAddr>,
    /// The virtual IPs.
    pub(crate) addresses: BTreeSet<IpAddr>,
    /// Subset of `addresses` that no node is known to announce: the node that becomes Active probes whether another host has them. Left out
    /// where there are none. An agent that does not know the field sets the file aside.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) unproven: BTreeSet<IpAddr>,
    /// Subset of `addresses` that is announced even if another host has them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) forced: BTreeSet<IpAddr>,
    /// Addresses of the first [`TURNS`] candidates that are preferred to this one: each gets a turn to take over before this node does.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) preferred: BTreeSet<IpAddr>,
    /// Number of nodes that are preferred to this one: it determines the priority while one of this node's own checks fails.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) before: u8,
    /// The health checks' node ports of the Services with `externalTrafficPolicy: Local` whose addresses are among these.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) health_check_node_ports: BTreeSet<u16>,
    /// Time for which this node leaves an Active of lower priority in place.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) preempt_delay_seconds: u32,
    /// Transport of the adverts to the peers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) transport: Transport,
    /// True if peers that multicast does not reach also receive unicast adverts.
    #[serde(default = "unicast_fallback", skip_serializing_if = "is_true")]
    pub(crate) unicast_fallback: bool,
    /// True if its addresses use the virtual router MAC address.
    #[serde(default, rename = "virtualMAC", skip_serializing_if = "is_default")]
    pub(crate) virtual_mac: bool,
    /// Id of the key that signs adverts; the secret itself is never written to disk. `None`: they are not signed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) key_id: Option<u8>,
    /// Checks that this node runs itself and that affect its priority.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) checks: BTreeSet<NodeCheck>,
    /// Policy for an announced address that another host claims.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) address_conflict: AddressConflictPolicy,
    /// Policy for established connections when another node takes over.
    #[serde(default = "ConnectionPolicy::forward", skip_serializing_if = "ConnectionPolicy::is_forward")]
    pub(crate) connections: ConnectionPolicy,
    /// Traffic policy of the Services whose addresses these are.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) external_traffic_policy: ExternalTrafficPolicy,
    /// With [`ConnectionPolicy::Replicate`], the other nodes of which some receive the connections while this one is Active, the best
    /// first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) replicas: Vec<Replica>,
}

/// Another node that may receive connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Replica {
    /// Name of the node.
    pub(crate) node: String,
    /// The addresses by which it is a peer.
    pub(crate) addresses: BTreeSet<IpAddr>,
    /// True if it has a higher priority than this node, and may take an address from it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) ranks_above: bool,
}

const fn unicast_fallback() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
const fn is_true(value: &bool) -> bool {
    *value
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Assignment {
    /// Returns true if its connections are replicated to other nodes. With `externalTrafficPolicy: Local` their backends die with the node.
    pub(crate) fn replicates(&self) -> bool {
        match self.connections {
            ConnectionPolicy::Replicate => self.external_traffic_policy.is_cluster(),
            ConnectionPolicy::Forward | ConnectionPolicy::None => false,
        }
    }

    /// Returns the engine's key of the virtual router.
    pub(crate) fn key(&self) -> Result<RouterKey, String> {
        let vrid = Vrid::new(self.vrid).map_err(|error| error.to_string())?;
        Ok(RouterKey { interface: self.interface.clone(), family: Family::of(self.source), vrid })
    }

    /// Builds the engine's config for the case that no check fails, without keys, which the node may lack. Returns the reason if the
    /// assignment is not valid.
    pub(crate) fn config(&self) -> Result<RouterConfig, String> {
        let vrid = Vrid::new(self.vrid).map_err(|error| error.to_string())?;
        if self.priority == 255 {
            return Err(
                "priority 255 is for the owner of the addresses (RFC 9568 §5.2.4), which no node is: use 1 \
                        to 254"
                    .to_owned(),
            );
        }
        let priority = Priority::new(self.priority).map_err(|error| error.to_string())?;
        let interval =
            Interval::from_millis(self.interval_milliseconds).map_err(|error| error.to_string())?;
        let name = &self.interface;
        if name.is_empty()
            || name.len() > 15
            || name.contains(['/', ' ', '\0'])
            || name == "."
            || name == ".."
        {
            return Err(format!(
                "'{name}' is no name of a Linux interface: 1 to 15 characters without '/' or space"
            ));
        }
        if let Some(id) = self.key_id {
            KeyId::new(id).map_err(|error| error.to_string())?;
        }
        let config = RouterConfig {
            priority,
            interval,
            preempt_delay: Duration::from_secs(self.preempt_delay_seconds.into()),
            fit_from: Priority::new(FIT_FROM).map_err(|error| error.to_string())?,
            preferred: self.preferred.clone(),
            preempt_turn: PREEMPT_TURN,
            peers: self.peers.clone(),
            addresses: self.addresses.clone(),
            probe: Some(PROBE),
            unproven: self.unproven.clone(),
            forced: self.forced.clone(),
            transport: self.engine_transport(),
            unicast_fallback: self.unicast_fallback,
            hold: if self.virtual_mac { Hold::Vmac } else { Hold::Respond },
            address_conflict: match self.address_conflict {
                AddressConflictPolicy::Defend => windlass_engine::AddressConflictPolicy::Defend,
                AddressConflictPolicy::Yield => windlass_engine::AddressConflictPolicy::Yield,
            },
            forward_connections: match self.connections {
                ConnectionPolicy::Replicate | ConnectionPolicy::Forward => true,
                ConnectionPolicy::None => false,
            },
            ..RouterConfig::new(name.clone(), vrid, self.source)
        };
        config.check().map_err(|error| error.to_string())?;
        Ok(config)
    }

    /// Returns the engine's transport. Without a peer it is multicast: there is no unicast destination, and no node accepts the adverts.
    fn engine_transport(&self) -> windlass_engine::Transport {
        match self.transport {
            Transport::Unicast if !self.peers.is_empty() => {
                windlass_engine::Transport::Unicast { ttl: u8::MAX, accept_ttl: u8::MAX..=u8::MAX }
            }
            Transport::Unicast | Transport::Multicast => windlass_engine::Transport::default(),
        }
    }
}

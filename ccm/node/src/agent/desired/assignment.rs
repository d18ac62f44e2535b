//! What a node is told about one virtual router, on disk and as the engine wants it. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_api::{AddressConflictPolicy, ConnectionPolicy, ExternalTrafficPolicy, NodeCheck, Transport};
use windlass_common::priorities::FIT_FROM;
use windlass_engine::{Hold, RouterConfig, RouterKey};
use windlass_vrrp::auth::KeyId;
use windlass_vrrp::{Family, Interval, Priority, Vrid};

/// How long the LAN is asked whether somebody has an address before it is used for the first time: hosts answer ARP and
/// neighbour solicitations within milliseconds, and a new Service should not wait long for its address.
const PROBE: Duration = Duration::from_millis(60);

/// How long each node that comes before this one is left to take an address over: nodes hear of a changed list at different
/// moments, and an address that moves twice leaves connections behind (docs/moves.md).
const PREEMPT_TURN: Duration = Duration::from_millis(500);
/// So many nodes have a turn: more than that are not slow at the same time.
pub(crate) const TURNS: usize = 3;

/// What this node is told about one virtual router. Kept on disk, so its fields are part of the state file's format.
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
    /// The other candidates' addresses: only their adverts are obeyed.
    pub(crate) peers: BTreeSet<IpAddr>,
    /// The virtual IPs.
    pub(crate) addresses: BTreeSet<IpAddr>,
    /// Those of them that no node is known to announce: whoever becomes Active asks whether another host has them.
    /// Left out where there are none. An agent that does not know it sets the file aside.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) unproven: BTreeSet<IpAddr>,
    /// Those of them that are announced although another host has them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) forced: BTreeSet<IpAddr>,
    /// The addresses of the candidates that come before this one, the first [`TURNS`] of them: they are left their turn to take over
    /// from another.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) preferred: BTreeSet<IpAddr>,
    /// How many nodes are preferred to this one: what its priority is if a check of its own fails follows from that.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) before: u8,
    /// The health checks' node ports of the Services with `externalTrafficPolicy: Local` whose addresses are among these.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) health_check_node_ports: BTreeSet<u16>,
    /// How long this node leaves an Active of lower priority in place.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) preempt_delay_seconds: u32,
    /// How adverts reach the peers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) transport: Transport,
    /// Whether peers that multicast does not reach are told by unicast, too.
    #[serde(default = "unicast_fallback", skip_serializing_if = "is_true")]
    pub(crate) unicast_fallback: bool,
    /// Whether its addresses are at the virtual router MAC address.
    #[serde(default, rename = "virtualMAC", skip_serializing_if = "is_default")]
    pub(crate) virtual_mac: bool,
    /// The key that signs adverts, by its id alone: the secret itself is never written down. `None`: they are not signed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) key_id: Option<u8>,
    /// What this node asks by itself, for its priority.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) checks: BTreeSet<NodeCheck>,
    /// What becomes of an address that is announced and that another host claims.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) address_conflict: AddressConflictPolicy,
    /// What becomes of established connections when another node takes over.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) connections: ConnectionPolicy,
    /// That of the Services whose addresses these are.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) external_traffic_policy: ExternalTrafficPolicy,
    /// With [`ConnectionPolicy::Replicate`] the other nodes of which some are told the connections while this one is Active, the best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) replicas: Vec<Replica>,
}

/// Another node that may be told connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Replica {
    /// Name of the node.
    pub(crate) node: String,
    /// The addresses by which it is a peer.
    pub(crate) addresses: BTreeSet<IpAddr>,
    /// Whether it has a higher priority than this node, and may take an address from it.
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
    /// Whether other nodes are to know its connections.
    pub(crate) fn replicates(&self) -> bool {
        match self.connections {
            ConnectionPolicy::Replicate => true,
            ConnectionPolicy::Forward | ConnectionPolicy::None => false,
        }
    }

    /// What identifies the virtual router in the engine.
    pub(crate) fn key(&self) -> Result<RouterKey, String> {
        let vrid = Vrid::new(self.vrid).map_err(|error| error.to_string())?;
        Ok(RouterKey { interface: self.interface.clone(), family: Family::of(self.source), vrid })
    }

    /// As the engine wants it while no check fails, but for the keys, which the node has or not; or why it cannot be had.
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

    /// Without a peer there is nobody to speak to: its adverts go to the group, where nobody obeys them.
    fn engine_transport(&self) -> windlass_engine::Transport {
        match self.transport {
            Transport::Unicast if !self.peers.is_empty() => {
                windlass_engine::Transport::Unicast { ttl: u8::MAX, accept_ttl: u8::MAX..=u8::MAX }
            }
            Transport::Unicast | Transport::Multicast => windlass_engine::Transport::default(),
        }
    }
}

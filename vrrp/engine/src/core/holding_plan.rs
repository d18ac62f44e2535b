//! Plan that the helper threads hold for a virtual router, from its configuration and the adverts received.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use windlass_kernel::sockets::LinkSockets;

use crate::config::{RouterConfig, Transport};
use crate::handle::{Plan, Standing};

/// The VIPs that no peer is known to have claimed.
pub(super) fn unproven(config: &RouterConfig, unlisted: &BTreeSet<IpAddr>) -> Arc<BTreeSet<IpAddr>> {
    Arc::new(config.unproven.union(unlisted).copied().collect())
}

/// Builds the plan. `unlisted`: VIPs that the Active did not list. `in_service`: VIPs that were added while this node served them.
pub(crate) fn plan(
    config: &RouterConfig,
    unlisted: &BTreeSet<IpAddr>,
    in_service: &BTreeSet<IpAddr>,
    link: Option<&Arc<LinkSockets>>,
) -> Plan {
    let unicast_source = match config.transport {
        Transport::Multicast { .. } => None,
        Transport::Unicast { .. } => Some(config.source),
    };
    Plan {
        unicast_source,
        standing: Arc::new(Standing::of(config)),
        vip_as_source: config.vip_as_source,
        astray: Arc::new(config.astray.clone()),
        replicas: Arc::new(config.replicas.clone()),
        forward_connections: config.forward_connections,
        addresses: config.addresses.iter().copied().collect(),
        hold: config.hold,
        accept: config.accept,
        probe: config.probe,
        unproven: unproven(config, unlisted),
        forced: Arc::new(config.forced.clone()),
        in_service: Arc::new(in_service.clone()),
        address_conflict: config.address_conflict,
        link: link.map(Arc::clone),
    }
}

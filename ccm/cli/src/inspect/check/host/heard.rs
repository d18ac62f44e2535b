//! Nodes whose adverts should arrive here.

use std::collections::BTreeMap;
use std::net::IpAddr;

use windlass_common::listing::first_of;

use super::Host;
use crate::inspect::problems::Problem;
use crate::inspect::snapshot::Snapshot;

/// Nodes that are Active in a virtual router in which this one takes part, and of which nothing arrived.
pub(super) fn silent_nodes(host: &Host, snapshot: &Snapshot) -> Vec<Problem> {
    let Ok(heard) = &host.adverts else { return Vec::new() };
    let mut silent: BTreeMap<&str, (IpAddr, Vec<u8>)> = BTreeMap::new();
    for router in &snapshot.routers.objects {
        let nodes = &router.spec.nodes;
        let active = router.active_node();
        let Some(active) = nodes.iter().find(|node| Some(node.name.as_str()) == active) else { continue };
        let takes_part = nodes.iter().any(|node| host.addresses.contains(&node.address));
        let is_here = host.addresses.contains(&active.address);
        let is_heard = heard.iter().any(|it| it.source == active.address && it.vrid == router.spec.vrid);
        if takes_part && !is_here && !is_heard {
            silent
                .entry(&active.name)
                .or_insert_with(|| (active.address, Vec::new()))
                .1
                .push(router.spec.vrid);
        }
    }
    let told = |(node, (address, vrids)): (&str, (IpAddr, Vec<u8>))| {
        let message = format!(
            "node {node} ({address}) is Active with VRID {}, and none of its adverts arrived here in {} s",
            first_of(vrids.iter(), 3),
            host.listened.as_secs()
        );
        let remedy = "let IP protocol 112 pass between the nodes, to 224.0.0.18 and ff02::12: firewalls of both hosts, IGMP and MLD snooping of \
                      the switch without a querier, security groups";
        Problem::error("Node", node, "NotHeard").says(message, remedy)
    };
    silent.into_iter().map(told).collect()
}

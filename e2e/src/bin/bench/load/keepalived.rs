//! keepalived's side: on each node one process with a virtual router for each address, adverts as often as Windlass' are.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::Context as _;
use windlass_e2e::{Keepalived, Lab};

use super::{BACKEND, NODES, SERVICES};

/// VRID of the first address; the others follow.
const FIRST_VRID: u8 = 240;
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 180);
const HIGHEST_PRIORITY: u8 = 254;

/// The Services and all routers.
pub(crate) async fn start(lab: &Lab) -> anyhow::Result<Vec<IpAddr>> {
    lab.backend(SERVICES[0], &[BACKEND]).await?;
    let addresses: Vec<IpAddr> = (0_u32..)
        .zip(SERVICES)
        .map(|(nth, _)| Ipv4Addr::from_bits(FIRST_ADDRESS.to_bits() + nth).into())
        .collect();
    for (name, address) in SERVICES.into_iter().zip(&addresses) {
        lab.foreign_service(name, SERVICES[0], *address).await?;
    }
    for node in NODES {
        start_on(lab, node)?;
    }
    Ok(addresses)
}

/// Starts keepalived on a node.
pub(crate) fn start_on(lab: &Lab, node: &str) -> anyhow::Result<()> {
    let position = NODES.iter().position(|one| *one == node).context("no node of the bench")?;
    let routers: Vec<Keepalived> = (0_u8..)
        .zip(SERVICES)
        .map(|(nth, _)| Keepalived {
            vrid: FIRST_VRID + nth,
            priority: HIGHEST_PRIORITY - rank(nth.into(), position),
            interval_ms: windlass_api::DEFAULT_ADVERTISEMENT_INTERVAL_MS,
            address: Ipv4Addr::from_bits(FIRST_ADDRESS.to_bits() + u32::from(nth)).into(),
        })
        .collect();
    lab.start_keepalived_of(node, &routers)
}

/// Which of the nodes is the first for the n-th address (0), which follows it (1, 2). Each is the first for two addresses, and
/// these two have different successors.
fn rank(nth: usize, node: usize) -> u8 {
    let first = nth % NODES.len();
    let step = 1 + nth / NODES.len() % 2;
    let order = [first, (first + step) % NODES.len(), (first + 2 * step) % NODES.len()];
    (0_u8..).zip(order).find(|(_, one)| *one == node).map_or(0, |(rank, _)| rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_is_first_for_two_addresses_and_each_other_node_succeeds_it_at_one() {
        for node in 0..NODES.len() {
            let own: Vec<usize> = (0..SERVICES.len()).filter(|nth| rank(*nth, node) == 0).collect();
            assert_eq!(own.len(), 2, "node {node}");
            for other in (0..NODES.len()).filter(|other| *other != node) {
                assert_eq!(
                    own.iter().filter(|nth| rank(**nth, other) == 1).count(),
                    1,
                    "{other} after {node}"
                );
            }
        }
    }
}

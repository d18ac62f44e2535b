//! Addresses that this node serves together with other nodes: from the objects to the engine's tables. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_api::{
    LOTS, LotTable, PortProtocol, RestrictedPort, SharedLoad, VirtualIP, VirtualRouter,
    load_shared as reasons,
};
use windlass_engine::{Family, Protocol, Share, SharedBy, Shares};

use super::addresses::Answered;

pub(crate) mod ability;
pub(crate) mod finding;
#[cfg(test)]
mod tests;

/// Most elements of each map in the kernel: some 30 MiB. Addresses beyond are not shared.
pub(crate) const MOST_ELEMENTS: usize = 262_144;

/// A virtual IP that several nodes serve. Kept on disk, so its fields are part of the state file's format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SharedAddress {
    pub(crate) address: IpAddr,
    /// This node's interface to the LAN of the address.
    pub(crate) interface: String,
    /// Addresses of all nodes that serve the address or may announce it.
    pub(crate) peers: BTreeSet<IpAddr>,
    /// Ports of the owners, copied from the object.
    pub(crate) ports: Vec<RestrictedPort>,
    /// Nodes of the lots, copied from the object.
    pub(crate) load: SharedLoad,
}

/// A virtual IP that this node does not share, although its object has nodes of lots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unshared {
    pub(crate) address: IpAddr,
    /// Reason of the condition `LoadShared`.
    pub(crate) reason: &'static str,
    pub(crate) why: String,
}

/// Returns the virtual IPs, of these that Services have, that `node` serves with other nodes or may direct packets for, and those that it cannot share, by address.
pub(crate) fn shared<'a>(
    node: &str,
    routers: &[&VirtualRouter],
    vips: impl Iterator<Item = &'a VirtualIP>,
    answered: &Answered,
) -> (Vec<Arc<SharedAddress>>, Vec<Unshared>) {
    let routers: HashMap<Option<&str>, &VirtualRouter> =
        routers.iter().map(|router| (router.metadata.name.as_deref(), *router)).collect();
    let mut vips: Vec<_> = vips.filter(|vip| vip.spec.load_sharing.is_some()).collect();
    vips.sort_by_key(|vip| vip.spec.address);
    vips.dedup_by_key(|vip| vip.spec.address);
    let (mut shared, mut unshared) = (Vec::new(), Vec::new());
    let mut elements = BTreeMap::new();
    for vip in vips {
        let (Some(load), Some(carrier)) = (&vip.spec.load_sharing, &vip.spec.virtual_router) else {
            continue;
        };
        let Some(router) = routers.get(&Some(carrier.as_str())) else { continue };
        let Some(one) = SharedAddress::of(node, vip, load, router, answered) else { continue };
        let of_family = elements.entry(Family::of(one.address)).or_insert(0_usize);
        let outcome = one.check(router).and_then(|()| {
            let sum = of_family.saturating_add(one.elements());
            if sum > MOST_ELEMENTS {
                let why =
                    format!("more addresses are shared than {MOST_ELEMENTS} elements of a map have room for");
                return Err((reasons::NO_ROOM, why));
            }
            *of_family = sum;
            Ok(())
        });
        match outcome {
            Ok(()) => shared.push(Arc::new(one)),
            Err((reason, why)) => unshared.push(Unshared { address: one.address, reason, why }),
        }
    }
    (shared, unshared)
}

impl SharedAddress {
    /// Copies the objects; `None` if `node` neither serves the address nor may announce it.
    pub(crate) fn of(
        node: &str,
        vip: &VirtualIP,
        load: &SharedLoad,
        router: &VirtualRouter,
        answered: &Answered,
    ) -> Option<Self> {
        let candidates = &router.spec.nodes;
        let as_candidate = candidates.iter().find(|one| one.name == node).map(|one| &one.interface);
        let interface = as_candidate.or_else(|| {
            let own = load.nodes.iter().find(|one| one.name == node)?;
            answered.own.get(&own.address)
        })?;
        let directors = candidates.iter().flat_map(windlass_api::RankedNode::addresses);
        Some(Self {
            address: vip.spec.address,
            interface: interface.clone(),
            peers: directors.chain(load.nodes.iter().map(|one| one.address)).collect(),
            ports: vip.spec.ports.clone(),
            load: load.clone(),
        })
    }

    /// Returns the nodes of all lots, or the reason why the object's are not valid.
    pub(crate) fn table(&self) -> Result<LotTable, String> {
        let family = Family::of(self.address);
        let misfit = |one: &&windlass_api::SharingNode| {
            Family::of(one.address) != family || one.address == self.address
        };
        if let Some(one) = self.load.nodes.iter().find(misfit) {
            return Err(format!(
                "spec.loadSharing.nodes has {} for node {}, which is not an address of a node that can serve {}",
                one.address, one.name, self.address
            ));
        }
        self.load.table().map_err(|error| format!("spec.loadSharing: {error}"))
    }

    /// Returns the condition's reason, and why, if the address cannot be shared.
    pub(crate) fn check(&self, router: &VirtualRouter) -> Result<(), (&'static str, String)> {
        self.table().map_err(|why| (reasons::NOT_SUPPORTED, why))?;
        if router.spec.virtual_mac {
            let why =
                "it uses the virtual MAC address, at which no packet is directed: choose one of the two";
            return Err((reasons::VIRTUAL_MAC_ADDRESS, why.to_owned()));
        }
        if self.ports.is_empty() {
            let why = "its Services have more ports than spec.ports has room for";
            return Err((reasons::NO_ROOM, why.to_owned()));
        }
        Ok(())
    }

    /// Returns the largest number of elements that it has in one map or set.
    pub(crate) fn elements(&self) -> usize {
        let protocols: BTreeSet<PortProtocol> = self.ports.iter().map(|one| one.protocol).collect();
        self.ports.len().max(protocols.len().saturating_mul(LOTS))
    }
}

/// A shared address, and its shares in the engine's format.
type ConvertedAddress = (Arc<SharedAddress>, Vec<(Protocol, Arc<Share>)>);

/// Conversion to the engine's format: an address that stays is not converted again.
#[derive(Debug, Default)]
pub(crate) struct Conversion {
    known: BTreeMap<IpAddr, ConvertedAddress>,
}

impl Conversion {
    /// Converts the addresses.
    pub(crate) fn of(&mut self, all: &[Arc<SharedAddress>]) -> Shares {
        let mut before = std::mem::take(&mut self.known);
        let known = all.iter().map(|one| {
            let kept = before.remove(&one.address).filter(|(of, _)| of == one);
            (one.address, kept.unwrap_or_else(|| (Arc::clone(one), converted(one))))
        });
        self.known = known.collect();
        let mut shares = Shares::default();
        for (one, services) in self.known.values().filter(|(_, services)| !services.is_empty()) {
            shares.peers.entry(one.interface.clone()).or_default().extend(&one.peers);
            let services = services.iter();
            shares
                .services
                .extend(services.map(|(protocol, share)| ((one.address, *protocol), Arc::clone(share))));
        }
        shares
    }
}

fn converted(one: &SharedAddress) -> Vec<(Protocol, Arc<Share>)> {
    // Invalid ones were left out before.
    let Ok(table) = one.table() else { return Vec::new() };
    let share = |(protocol, of_engine)| {
        let ports = one.ports.iter().filter(|port| port.protocol == protocol);
        let ports: BTreeSet<u16> = ports.map(|port| port.port).collect();
        (!ports.is_empty()).then(|| (of_engine, Arc::new(share(one, &table, protocol, ports))))
    };
    let protocols = [
        (PortProtocol::Tcp, Protocol::Tcp),
        (PortProtocol::Udp, Protocol::Udp),
        (PortProtocol::Sctp, Protocol::Sctp),
    ];
    protocols.into_iter().filter_map(share).collect()
}

fn share(one: &SharedAddress, table: &LotTable, protocol: PortProtocol, ports: BTreeSet<u16>) -> Share {
    let row = |row: &[Option<u8>; LOTS]| row.map(|node| node.unwrap_or(u8::MAX));
    let (lots, former) = match protocol {
        PortProtocol::Tcp | PortProtocol::Udp => (table.lots, table.former.iter().map(row).collect()),
        // An association may have several addresses and ports: one node serves all.
        PortProtocol::Sctp => ([table.first_server(); LOTS], Vec::new()),
    };
    Share {
        interface: one.interface.clone(),
        ports,
        by: match one.load.by {
            windlass_api::SharedBy::Connection => SharedBy::Connection,
            windlass_api::SharedBy::Client => SharedBy::Client,
        },
        servers: one.load.nodes.iter().map(|node| node.address).collect(),
        lots,
        former,
    }
}

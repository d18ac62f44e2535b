//! The ways back: which mark stands for which peer, and the routing that leads marked answers to it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

use nix::errno::Errno;
use windlass_kernel::mark_mask::MarkMask;
use windlass_kernel::netfilter::failure::Failure;
use windlass_kernel::netlink::{Hop, KeptRouteSocket, NetlinkError, Refusal, Way};
use windlass_kernel::tag::AddressTag;
use windlass_vrrp::Family;

use super::{BalanceError, BalanceObstacle, Balancing};
use crate::marked_ways::{NextHop, Owner, Source, routes_marked_by_port};

#[cfg(test)]
mod tests;

/// Settings of the routing that leads answers back to the peer that the client's packets came by, with
/// [`ClientSource::Keep`](super::ClientSource::Keep).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the user over its default")]
pub struct WaysBack {
    /// Marks the routing rules and tables (256 times its number and what follows), and is the rules' priority: another and a lower one than
    /// that of any engine on the host that has the same marks. Default: 0x50.
    pub tag: AddressTag,
    /// The bits of packet mark and connection mark that tell the peers apart. They may be those of an engine's
    /// `ConnectionForwarding` on the host: it marks what is for a VIP, this what is not. Default: 0xf.
    pub marks: MarkMask,
}

impl Default for WaysBack {
    fn default() -> Self {
        Self { tag: AddressTag::LOWEST, marks: MarkMask::LOWEST }
    }
}

/// The kernel's release.
const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// Link-layer address of a peer, and the mark of connections that come by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Sender {
    pub(super) link_layer: [u8; 6],
    pub(super) mark: u32,
}

/// The number of each peer. It follows from the addresses alone, so that marks mean the same after a restart, and another peer
/// seldom changes it. `None`: there are not as many as peers of one family.
pub(super) fn numbers(peers: &BTreeSet<IpAddr>, count: u32) -> Option<BTreeMap<IpAddr, u32>> {
    let mut taken = BTreeSet::new();
    let number = |peer: &IpAddr| {
        let last = match peer {
            IpAddr::V4(peer) => u32::from(peer.octets()[3]),
            IpAddr::V6(peer) => u32::from(peer.octets()[15]),
        };
        let family = Family::of(*peer);
        let first = last.checked_rem(count)?.saturating_add(1);
        let number = (first..=count).chain(1..first).find(|n| taken.insert((family, *n)))?;
        Some((*peer, number))
    };
    peers.iter().map(number).collect()
}

/// State of the ways back in the kernel.
pub(super) struct Ways {
    owner: Owner,
    route: KeptRouteSocket,
    /// Peers that answers are led to, by family and number, and where on this node they come from.
    told: BTreeMap<(Family, u32), BTreeSet<Source>>,
    /// Rules name the servers' ports.
    by_port: bool,
    /// True once rules that an earlier process left have been removed.
    is_swept: bool,
    /// The link-layer addresses of peers, as they were last known.
    known: BTreeMap<IpAddr, [u8; 6]>,
    obstacles: Vec<BalanceObstacle>,
}

impl Ways {
    pub(super) fn new(settings: WaysBack) -> Self {
        Self {
            owner: Owner { tag: settings.tag.get(), marks: settings.marks },
            route: KeptRouteSocket::default(),
            told: BTreeMap::new(),
            by_port: std::fs::read_to_string(RELEASE).is_ok_and(|release| routes_marked_by_port(&release)),
            is_swept: false,
            known: BTreeMap::new(),
            obstacles: Vec::new(),
        }
    }

    /// The bits of marks that tell the peers apart.
    pub(super) fn marks(&self) -> MarkMask {
        self.owner.marks
    }

    /// Returns the most peers of a family that the marks tell apart.
    pub(super) fn most(&self) -> u32 {
        self.owner.marks.count()
    }

    /// Returns the obstacles that keep answers from peers.
    pub(super) fn obstacles(&self) -> &[BalanceObstacle] {
        &self.obstacles
    }

    /// Leads marked answers of this node's servers to the peers. Returns the senders whose packets are to be marked, by peer.
    pub(super) fn follow(&mut self, wanted: &Balancing) -> Result<BTreeMap<IpAddr, Sender>, BalanceError> {
        let returns = &wanted.returns;
        if returns.servers.is_empty() || returns.peers.is_empty() {
            self.end(wanted)?;
            return Ok(BTreeMap::new());
        }
        let numbers = numbers(&returns.peers, self.most()).unwrap_or_default();
        let vips: BTreeSet<IpAddr> = wanted.services.keys().map(|(vip, _)| *vip).collect();
        let by_port = self.by_port;
        let servers = returns.servers.iter().map(|(address, port)| (*address, by_port.then_some(*port)));
        let servers: BTreeSet<Source> = servers.collect();
        let failed = |error: NetlinkError| refusal("lead answers to peers by routing rules", &error);
        let mut senders = BTreeMap::new();
        let mut led = BTreeMap::new();
        self.obstacles.clear();
        for (peer, number) in numbers {
            let family = Family::of(peer);
            let is_of_family = |address: &IpAddr| Family::of(*address) == family;
            let of_peer = servers.iter().copied().filter(|(address, _)| is_of_family(address));
            let sources: BTreeSet<Source> = of_peer.collect();
            if sources.is_empty() {
                continue;
            }
            let way = self.route.with(|route| route.way_towards(peer)).map_err(failed)?;
            let interface = match way {
                Some(Way::By(Hop { interface, gateway: None })) => interface,
                Some(Way::By(Hop { gateway: Some(_), .. }) | Way::ThisNode) | None => {
                    self.obstacles.push(BalanceObstacle::PeerNotOnLan { peer });
                    continue;
                }
            };
            let hop = NextHop { interface, address: peer };
            let but_to = vips.iter().copied().filter(is_of_family);
            let orders = self.owner.lead_from(hop, number, sources.iter().copied(), but_to);
            let answers = self.route.with(|route| route.batch(orders)).map_err(failed)?;
            if let Some(refused) = answers.into_iter().filter_map(Result::err).find(is_refusal) {
                return Err(failed(refused.into()));
            }
            led.insert((family, number), sources);
            match self.link_layer_address(hop).map_err(failed)? {
                Some(link_layer) => {
                    let mark = self.owner.marks.mark(number);
                    senders.insert(peer, Sender { link_layer, mark });
                }
                None => self.obstacles.push(BalanceObstacle::PeerSilent { peer }),
            }
        }
        self.known.retain(|peer, _| returns.peers.contains(peer));
        self.release_but(&led, &vips).map_err(failed)?;
        self.told = led;
        Ok(senders)
    }

    /// Removes all rules and routes of the ways back.
    pub(super) fn end(&mut self, wanted: &Balancing) -> Result<(), BalanceError> {
        self.obstacles.clear();
        if self.is_swept && self.told.is_empty() {
            return Ok(());
        }
        let vips = wanted.services.keys().map(|(vip, _)| *vip).collect();
        self.release_but(&BTreeMap::new(), &vips)
            .map_err(|error| refusal("remove routing rules of answers to peers", &error))?;
        self.told.clear();
        Ok(())
    }

    /// Removes all rules of this tag but these, and the routes that none leads to any more. What stays is never gone for a moment: an
    /// answer that takes another way has an address that its client does not know.
    fn release_but(
        &mut self,
        wanted: &BTreeMap<(Family, u32), BTreeSet<Source>>,
        vips: &BTreeSet<IpAddr>,
    ) -> Result<(), NetlinkError> {
        if self.is_swept && self.told == *wanted {
            return Ok(());
        }
        let owner = self.owner;
        self.route.with(|route| {
            for rule in route.rules()? {
                let Some((deletion, family, number)) = owner.left_behind(&rule) else { continue };
                let sources = wanted.get(&(family, number));
                let is_wanted = sources.is_some_and(|sources| {
                    sources.iter().any(|source| owner.is_rule_from(&rule, family, number, *source))
                });
                if is_wanted {
                    continue;
                }
                let mut orders = vec![(deletion, 0)];
                if sources.is_none() {
                    let of_family = vips.iter().copied().filter(|vip| Family::of(*vip) == family);
                    orders.extend(owner.release_but_to(family, number, of_family));
                    let [_, default_route] = owner.release(family, number);
                    orders.push(default_route);
                }
                // What is refused is gone already.
                route.batch(orders)?;
            }
            Ok(())
        })?;
        self.is_swept = true;
        Ok(())
    }

    /// The link-layer address of a peer: the last one that was known, while the kernel is asking for it.
    fn link_layer_address(&mut self, hop: NextHop) -> Result<Option<[u8; 6]>, NetlinkError> {
        let NextHop { interface, address } = hop;
        match self.route.with(|route| route.link_layer_address(interface, address))? {
            Some(found) => drop(self.known.insert(address, found)),
            None => self.route.with(|route| route.ask_host(interface, address))?,
        }
        Ok(self.known.get(&address).copied())
    }
}

/// Returns true unless the refusal means only that the rule or route is there already.
fn is_refusal(refusal: &Refusal) -> bool {
    refusal.errno != Errno::EEXIST
}

fn refusal(what: &str, error: &NetlinkError) -> BalanceError {
    BalanceError::Kernel(Failure::new(what, io::Error::other(error.to_string())))
}

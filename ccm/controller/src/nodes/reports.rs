//! Review of the nodes' reports: of a node only what concerns that node is believed. Pure.
//!
//! In: the Nodes and the `NodeNetwork`s as they are. Out: the `NodeNetwork`s without the claims to other nodes' addresses, which are
//! all that the rest of the controller reads, and a [`Doubt`] for each claim that is left out.
//!
//! - An address that another Node has (`status.addresses`), and the node's own does not, is not the node's.
//! - A machine that joined again under another name has the addresses of its former Node, once that is not ready.
//! - If two nodes report one address, the one whose Node's status lists it is believed, and of two such nodes the ready one. Otherwise
//!   the order is: the node that was believed before, the node known by the address in a virtual router, the node that has reported
//!   for the longest.
//! - A prefix length that other nodes of the LAN do not have counts for no node but is reported; see [`Lans`].
//! - VRIDs of foreign routers that no other node receives, and hosts seen with virtual IPs, are believed up to a number.
//! - A report without a Node is believed in nothing that concerns the pools.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use tokio::time::Instant;
use windlass_api::{InterfaceInfo, NodeNetwork, VirtualRouter};
use windlass_ccm::store::{Change, Store};
use windlass_common::bridges::is_inside_the_node;

use super::lans::{Dissent, Lans};

#[cfg(test)]
mod tests;

/// Maximum number of VRIDs of foreign routers that one node alone receives and that no new virtual router gets.
pub(crate) const MAX_FOREIGN_ALONE: usize = 64;
/// Maximum number of hosts with virtual IPs that one node may report.
pub(crate) const MAX_DUPLICATES: usize = 16;
/// Maximum number of addresses that are taken from Services at the same time by the report of one node.
pub(crate) const MAX_TAKEN: usize = 8;
/// Maximum number of addresses that the report of one node alone withholds from the pools, besides those of its Node's status.
pub(crate) const MAX_WITHHELD: usize = 8;

/// Part of a report that is not believed, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doubt {
    /// There is no such Node.
    NoNode,
    /// Another Node has the address.
    AnotherNodes { address: IpAddr, owner: String },
    /// Another node reports it too.
    TwoNodes { address: IpAddr, believed: String },
    /// Other nodes of the LAN have another prefix length.
    Dissents(Dissent),
    /// It alone receives this many foreign VRIDs.
    ForeignRouters { ignored: usize },
    /// It reports so many.
    Duplicates { ignored: usize },
    /// It reported as many lately as may be taken from Services on its word.
    Taken { ignored: usize },
    /// It has so many addresses in pools.
    Withheld { ignored: usize },
    /// A host that it sees answers for any address.
    AnswersForAll { mac: String, addresses: usize },
    /// Its machine is another Node now.
    Succeeded { by: String },
}

impl fmt::Display for Doubt {
    /// A sentence about the node that reports.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNode => {
                write!(
                    f,
                    "it reports a network, but the cluster has no Node of that name: delete its NodeNetwork"
                )
            }
            Self::AnotherNodes { address, owner } => write!(
                f,
                "it reports {address}, which is an address of Node {owner}: remove it from this machine, or \
                 find what else reports under this node's name"
            ),
            Self::TwoNodes { address, believed } => write!(
                f,
                "it reports {address}, which Windlass takes for an address of node {believed}, which reports \
                 it too: give each machine its own addresses"
            ),
            Self::Dissents(Dissent { address, others }) => write!(
                f,
                "it reports {address}, but other nodes of its LAN have {others}, which Windlass uses: give \
                 {} the prefix length {}, or change that of the other nodes",
                address.addr(),
                others.prefix_len()
            ),
            Self::ForeignRouters { ignored } => write!(
                f,
                "it alone reports more than {MAX_FOREIGN_ALONE} VRIDs of foreign routers, and Windlass \
                 ignores {ignored} of them: find what sends VRRP on its LAN, or what else reports under this \
                 node's name"
            ),
            Self::Duplicates { ignored } => write!(
                f,
                "it reports more than {MAX_DUPLICATES} virtual IPs at other hosts, and Windlass ignores \
                 {ignored} of them: check its LAN, or find what else reports under this node's name"
            ),
            Self::Taken { ignored } => write!(
                f,
                "it reported {MAX_TAKEN} addresses within ten minutes as used by other hosts, and Windlass \
                 ignores {ignored} more, which stay with their Services: check its LAN, or find what else \
                 reports under this node's name"
            ),
            Self::AnswersForAll { mac, addresses } => write!(
                f,
                "host {mac} answers for any address ({addresses} virtual IPs so far), so Windlass moves no \
                 Service to another address because of it: turn proxy ARP off on that host, or remove the \
                 pool's range from it"
            ),
            Self::Succeeded { by } => write!(
                f,
                "it is not ready, and its machine joined again as Node {by}, which has its addresses now: \
                 delete this Node"
            ),
            Self::Withheld { ignored } => write!(
                f,
                "it reports more than {MAX_WITHHELD} addresses or subnets of its own within pools, and the \
                 pools do not withhold {ignored} of them: exclude used addresses from the pools \
                 (spec.exclude), or find what else reports under this node's name"
            ),
        }
    }
}

/// The doubts about the report of each node of which there are any.
pub(crate) type DoubtsByNode = BTreeMap<String, BTreeSet<Doubt>>;

/// The reports, as far as they are believed.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ReviewedReports {
    networks: BTreeMap<String, Arc<NodeNetwork>>,
    /// By the node that reports.
    pub(crate) doubts: DoubtsByNode,
    /// Node that holds each reported address.
    holders: BTreeMap<Claim, String>,
}

/// An address that one node has: a link-local one on one link, known by its subnet.
type Claim = (Option<IpNet>, IpAddr);

/// Addresses and machines of the Nodes.
#[derive(Debug)]
struct Identities {
    /// Nodes whose status lists an address.
    vouched: BTreeMap<IpAddr, BTreeSet<String>>,
    /// Nodes that are not ready.
    unready: BTreeSet<String>,
    /// Nodes in `unready` whose machine joined again, each with the machine's current name.
    successors: BTreeMap<String, String>,
}

impl Identities {
    fn new(nodes: &[Arc<Node>]) -> Self {
        let mut vouched: BTreeMap<IpAddr, BTreeSet<String>> = BTreeMap::new();
        for node in nodes {
            for address in status_addresses(node) {
                vouched.entry(address).or_default().insert(node.name_any());
            }
        }
        let unready = nodes.iter().filter(|node| is_ready(node) == Some(false));
        let unready = unready.map(|node| node.name_any()).collect();
        Self { vouched, unready, successors: successors(nodes) }
    }

    /// The Nodes whose status lists the address of a claim.
    fn owners(&self, claim: &Claim) -> Option<&BTreeSet<String>> {
        self.vouched.get(&claim.1).filter(|_| claim.0.is_none())
    }

    /// Returns true if each of `owners` is a former Node of this node's machine.
    fn is_successor(&self, name: &str, owners: &BTreeSet<String>) -> bool {
        owners.iter().all(|owner| self.successors.get(owner).is_some_and(|by| by == name))
    }

    /// Returns true if this node is not ready, and another Node lists the address, too.
    fn is_lost(&self, claim: &Claim, name: &str) -> bool {
        self.owners(claim).is_some_and(|owners| owners.len() > 1) && self.unready.contains(name)
    }

    /// The claimants without former Nodes of a machine and without those that claim what is another Node's.
    fn entitled<'a>(
        &self,
        claim: Claim,
        mut claimants: Vec<(&'a Arc<NodeNetwork>, bool)>,
        refused: &mut Refused,
    ) -> Vec<(&'a Arc<NodeNetwork>, bool)> {
        let names: BTreeSet<String> = claimants.iter().map(|(network, _)| network.name_any()).collect();
        claimants.retain(|(network, _)| {
            let name = network.name_any();
            let by = self.successors.get(&name).filter(|by| names.contains(*by));
            if let Some(by) = by {
                refused.add(name, claim, Doubt::Succeeded { by: by.clone() });
            }
            by.is_none()
        });
        let Some(owners) = self.owners(&claim) else { return claimants };
        claimants.retain(|(network, _)| {
            let name = network.name_any();
            let is_entitled = owners.contains(&name) || self.is_successor(&name, owners);
            if let Some(owner) = owners.first().filter(|_| !is_entitled) {
                let doubt = Doubt::AnotherNodes { address: claim.1, owner: owner.clone() };
                refused.add(name, claim, doubt);
            }
            is_entitled
        });
        claimants
    }
}

/// The claims that are not believed, and why.
#[derive(Debug, Default)]
struct Refused {
    doubts: DoubtsByNode,
    lost: BTreeMap<String, BTreeSet<Claim>>,
}

impl Refused {
    fn add(&mut self, node: String, claim: Claim, doubt: Doubt) {
        self.doubts.entry(node.clone()).or_default().insert(doubt);
        self.lost.entry(node).or_default().insert(claim);
    }
}

impl ReviewedReports {
    /// Reviews the reports. `before`: the last review.
    pub(crate) fn new(
        nodes: &[Arc<Node>],
        networks: &[Arc<NodeNetwork>],
        before: Option<&Self>,
        in_router: impl Fn(&str, IpAddr) -> bool,
    ) -> Self {
        let identities = Identities::new(nodes);
        let names: BTreeSet<String> = nodes.iter().map(|node| node.name_any()).collect();
        let networks: Vec<_> = networks.iter().map(|one| with_way_out(one, &identities.vouched)).collect();
        let networks = networks.as_slice();
        let mut claimants: BTreeMap<Claim, Vec<(&Arc<NodeNetwork>, bool)>> = BTreeMap::new();
        for network in networks.iter().filter(|network| names.contains(&network.name_any())) {
            for (claim, alone) in claims(network) {
                claimants.entry(claim).or_default().push((network, alone));
            }
        }
        let mut review = Self::default();
        let mut refused = Refused::default();
        for (claim, claimants) in claimants {
            let claimants = identities.entitled(claim, claimants, &mut refused);
            let claimants: Vec<_> =
                claimants.iter().filter(|(_, alone)| *alone).map(|(network, _)| *network).collect();
            let held_before = before.and_then(|before| before.holders.get(&claim));
            let believed = claimants.iter().min_by_key(|network| {
                let name = network.name_any();
                let since = network.metadata.creation_timestamp.as_ref().map(|time| time.0);
                let known = (held_before != Some(&name), !in_router(&name, claim.1));
                (identities.is_lost(&claim, &name), known, since.is_none(), since, name)
            });
            let Some(believed) = believed.map(|network| network.name_any()) else { continue };
            for network in claimants.iter().filter(|network| network.name_any() != believed) {
                let doubt = Doubt::TwoNodes { address: claim.1, believed: believed.clone() };
                refused.add(network.name_any(), claim, doubt);
            }
            review.holders.insert(claim, believed);
        }
        let Refused { doubts, mut lost } = refused;
        review.doubts = doubts;
        let heard_by_several = heard_by_several(networks);
        for network in networks {
            let name = network.name_any();
            let mut doubts = review.doubts.remove(&name).unwrap_or_default();
            if !names.contains(&name) {
                doubts.insert(Doubt::NoNode);
            }
            let lost = lost.remove(&name).unwrap_or_default();
            let believed = believed(network, &lost, &heard_by_several, &mut doubts);
            if !doubts.is_empty() {
                review.doubts.insert(name.clone(), doubts);
            }
            review.networks.insert(name, believed);
        }
        review.doubt_prefix_lengths();
        review
    }

    /// Doubts prefix lengths that one node alone has on a LAN.
    fn doubt_prefix_lengths(&mut self) {
        let reports: Vec<Arc<NodeNetwork>> = self.of_nodes().cloned().collect();
        let of_node = |network: &Arc<NodeNetwork>| network.name_any();
        let lans = Lans::new(reports.iter().map(|network| (of_node(network), &network.spec)));
        for network in &reports {
            let dissents = lans.dissents(&network.spec);
            if !dissents.is_empty() {
                let doubts = self.doubts.entry(of_node(network)).or_default();
                doubts.extend(dissents.into_iter().map(Doubt::Dissents));
            }
        }
    }

    /// Returns the believed part of a node's report.
    pub(crate) fn get(&self, node: &str) -> Option<&Arc<NodeNetwork>> {
        self.networks.get(node)
    }

    /// All reports.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<NodeNetwork>> {
        self.networks.values()
    }

    /// Returns the reports of nodes that exist.
    pub(crate) fn of_nodes(&self) -> impl Iterator<Item = &Arc<NodeNetwork>> {
        let is_without =
            |name: &str| self.doubts.get(name).is_some_and(|doubts| doubts.contains(&Doubt::NoNode));
        self.networks.iter().filter(move |(name, _)| !is_without(name)).map(|(_, network)| network)
    }
}

/// Returns true if the kubelet of a node reports it as ready; `None`: there is no report of it.
pub(crate) fn is_ready(node: &Node) -> Option<bool> {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|one| one.type_ == "Ready").map(|one| one.status == "True")
}

/// Returns the IDs that distinguish a machine from others, as its kubelet reports them: system UUID and machine ID.
pub(crate) fn machine_ids(node: &Node) -> Option<(&str, &str)> {
    let info = node.status.as_ref()?.node_info.as_ref()?;
    Some((&info.system_uuid, &info.machine_id))
}

/// Part of a Node from which the nodes' networks are judged: its addresses, machine and readiness.
fn reported(node: &Node) -> impl PartialEq + use<> {
    let addresses = node.status.as_ref().and_then(|status| status.addresses.clone());
    let ids = machine_ids(node).map(|(uuid, machine)| (uuid.to_owned(), machine.to_owned()));
    (addresses, ids, is_ready(node))
}

/// Nodes that are not ready, each with the ready Node that its machine joined again as, under another name.
fn successors(nodes: &[Arc<Node>]) -> BTreeMap<String, String> {
    fn ids(node: &Node) -> impl Iterator<Item = (bool, &str)> {
        let (uuid, machine) = machine_ids(node).unwrap_or_default();
        [(true, uuid), (false, machine)].into_iter().filter(|(_, id)| !id.is_empty())
    }
    let mut by_id: BTreeMap<(bool, &str), &Node> = BTreeMap::new();
    for node in nodes.iter().filter(|node| is_ready(node) == Some(true)) {
        by_id.extend(ids(node).map(|id| (id, &**node)));
    }
    let successor = |node: &Arc<Node>| {
        let by = ids(node).find_map(|id| by_id.get(&id))?;
        Some((node.name_any(), by.name_any()))
    };
    nodes.iter().filter(|node| is_ready(node) == Some(false)).filter_map(successor).collect()
}

/// The report, with a way out for each bridge that has an address by which the node is known: the node is reached by it, whatever its
/// ports look like.
fn with_way_out(
    network: &Arc<NodeNetwork>,
    vouched: &BTreeMap<IpAddr, BTreeSet<String>>,
) -> Arc<NodeNetwork> {
    let (name, primary) = (network.name_any(), &network.spec.primary_addresses);
    let is_known = |address: IpAddr| {
        primary.contains(&address) || vouched.get(&address).is_some_and(|nodes| nodes.contains(&name))
    };
    let leads_out = |interface: &InterfaceInfo| {
        let mut nets = interface.addresses.iter().filter_map(|text| text.parse::<IpNet>().ok());
        interface.isolated && nets.any(|net| is_known(net.addr()))
    };
    if !network.spec.interfaces.iter().any(leads_out) {
        return Arc::clone(network);
    }
    let mut changed = NodeNetwork::clone(network);
    for interface in &mut changed.spec.interfaces {
        interface.isolated &= !leads_out(interface);
    }
    Arc::new(changed)
}

/// The addresses that the Node's status lists.
fn status_addresses(node: &Node) -> impl Iterator<Item = IpAddr> {
    let listed = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    listed.filter_map(|address| address.address.parse().ok())
}

/// Returns the addresses of the node in a report, and whether no other node can have them: those of a subnet with neighbours, on
/// interfaces that are not the same on every node. Several nodes have one address on purpose by host routes (anycast).
fn claims(network: &NodeNetwork) -> BTreeMap<Claim, bool> {
    let spec = &network.spec;
    let elsewhere = spec.primary_addresses.iter().chain(&spec.further_addresses);
    let mut claims: BTreeMap<Claim, bool> = elsewhere.map(|address| ((None, *address), false)).collect();
    for interface in spec.interfaces.iter().filter(|one| !is_inside_the_node(one)) {
        for net in interface.addresses.iter().filter_map(|text| text.parse::<IpNet>().ok()) {
            if matches!(net, IpNet::V6(v6) if v6.addr().is_unicast_link_local()) {
                continue;
            }
            let alone = net.prefix_len() < net.max_prefix_len();
            *claims.entry((None, net.addr())).or_default() |= alone;
            if let Some(link_local) = interface.link_local.filter(|_| alone && net.addr().is_ipv6()) {
                claims.insert((Some(net.trunc()), IpAddr::V6(link_local)), true);
            }
        }
    }
    claims
}

/// Returns family and VRID of the foreign routers that more than one node receives.
fn heard_by_several(networks: &[Arc<NodeNetwork>]) -> BTreeSet<(bool, u8)> {
    let mut heard: BTreeMap<(bool, u8), BTreeSet<String>> = BTreeMap::new();
    for network in networks {
        for router in &network.spec.foreign_routers {
            heard.entry((router.source.is_ipv4(), router.vrid)).or_default().insert(network.name_any());
        }
    }
    heard.into_iter().filter(|(_, nodes)| nodes.len() > 1).map(|(key, _)| key).collect()
}

/// The report without what is not believed.
fn believed(
    network: &Arc<NodeNetwork>,
    lost: &BTreeSet<Claim>,
    heard_by_several: &BTreeSet<(bool, u8)>,
    doubts: &mut BTreeSet<Doubt>,
) -> Arc<NodeNetwork> {
    let mut changed = NodeNetwork::clone(network);
    let spec = &mut changed.spec;
    let is_lost = |address: IpAddr| lost.contains(&(None, address));
    for interface in spec.interfaces.iter_mut().filter(|one| !is_inside_the_node(one)) {
        let nets = interface.addresses.iter().filter_map(|text| text.parse::<IpNet>().ok());
        let on_lost_link =
            |link_local| nets.clone().any(|net| lost.contains(&(Some(net.trunc()), link_local)));
        let link_local_is_lost = interface.link_local.is_some_and(|one| on_lost_link(IpAddr::V6(one)));
        interface.link_local = interface.link_local.filter(|_| !link_local_is_lost);
        interface.addresses.retain(|text| !text.parse::<IpNet>().is_ok_and(|net| is_lost(net.addr())));
    }
    spec.primary_addresses.retain(|address| !is_lost(*address));
    spec.further_addresses.retain(|address| !is_lost(*address));
    let mut alone = BTreeSet::new();
    let mut ignored = BTreeSet::new();
    spec.foreign_routers.retain(|router| {
        let key = (router.source.is_ipv4(), router.vrid);
        let counts = heard_by_several.contains(&key)
            || alone.contains(&key)
            || (alone.len() < MAX_FOREIGN_ALONE && alone.insert(key));
        if !counts {
            ignored.insert(key);
        }
        counts
    });
    if !ignored.is_empty() {
        doubts.insert(Doubt::ForeignRouters { ignored: ignored.len() });
    }
    let beyond = spec.duplicates.len().saturating_sub(MAX_DUPLICATES);
    if beyond > 0 {
        spec.duplicates.truncate(MAX_DUPLICATES);
        doubts.insert(Doubt::Duplicates { ignored: beyond });
    }
    if changed.spec == network.spec { Arc::clone(network) } else { Arc::new(changed) }
}

/// The review of the reports as they are now, made when it is asked for.
#[derive(Debug, Default)]
pub(crate) struct NodeReports {
    now: OnceLock<Arc<ReviewedReports>>,
    before: Option<Arc<ReviewedReports>>,
}

impl NodeReports {
    /// The report of a node came, changed or went.
    pub(crate) fn on_network_change(&mut self, change: &Change<NodeNetwork>) {
        let [old, new] = [&change.old, &change.new].map(|network| network.as_ref().map(|one| &one.spec));
        if old != new {
            self.changed();
        }
    }

    /// A Node came, changed or went. Returns true if the reports are to be judged anew.
    pub(crate) fn on_node_change(&mut self, change: &Change<Node>) -> bool {
        let [old, new] = [&change.old, &change.new].map(|node| node.as_ref().map(|node| reported(node)));
        let is_different = old != new;
        if is_different {
            self.changed();
        }
        is_different
    }

    fn changed(&mut self) {
        if let Some(review) = self.now.take() {
            self.before = Some(review);
        }
    }

    /// The review.
    pub(crate) fn reviewed(
        &self,
        nodes: impl FnOnce() -> Vec<Arc<Node>>,
        networks: &Store<NodeNetwork>,
        routers: &Store<VirtualRouter>,
    ) -> &Arc<ReviewedReports> {
        self.now.get_or_init(|| {
            let networks: Vec<_> = networks.iter().cloned().collect();
            let known: BTreeSet<(&str, IpAddr)> = routers
                .iter()
                .flat_map(|router| &router.spec.nodes)
                .flat_map(|node| node.addresses().map(|address| (node.name.as_str(), address)))
                .collect();
            let in_router = |node: &str, address| known.contains(&(node, address));
            Arc::new(ReviewedReports::new(&nodes(), &networks, self.before.as_deref(), in_router))
        })
    }
}

/// Minimum interval between different messages about a node: an attacker that controls its report must not fill the log and the
/// events.
pub(crate) const TELL_EVERY: Duration = Duration::from_mins(10);
/// Maximum number of doubts about a node in one message.
const NAMED: usize = 3;

/// The first of these doubts, in words, and how many more there are.
pub(crate) fn told(doubts: &BTreeSet<Doubt>) -> String {
    let some: Vec<String> = doubts.iter().take(NAMED).map(ToString::to_string).collect();
    let more = doubts.len() - some.len();
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    format!("{}{more}", some.join("; "))
}

/// Doubts that were published, with the time.
#[derive(Debug, Default)]
pub(crate) struct ToldDoubts(BTreeMap<String, (Instant, BTreeSet<Doubt>)>);

impl ToldDoubts {
    /// Returns the messages to publish now, by node.
    pub(crate) fn news(&mut self, doubts: &DoubtsByNode, now: Instant) -> Vec<(String, String)> {
        self.0.retain(|node, (at, _)| doubts.contains_key(node) || now.duration_since(*at) < TELL_EVERY);
        let mut news = Vec::new();
        for (node, doubts) in doubts {
            let is_due = |(at, told): &(Instant, BTreeSet<Doubt>)| {
                told != doubts && now.duration_since(*at) >= TELL_EVERY
            };
            if self.0.get(node).is_none_or(is_due) {
                let message =
                    format!("Windlass does not act on part of the report of node {node}: {}", told(doubts));
                news.push((node.clone(), message));
                self.0.insert(node.clone(), (now, doubts.clone()));
            }
        }
        news
    }
}

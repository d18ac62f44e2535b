//! Segments of a cluster: the subnets that its nodes agree on. One node's prefix length decides nothing for others. Pure.
//!
//! - A subnet that two nodes report is a segment. Where two nodes that report a wider one have addresses in it, both are the same LAN,
//!   whose prefix length is being changed: the wider one is the segment.
//! - A subnet that one node alone reports is a segment unless it overlaps a subnet of another node. In that case it is a dissenting
//!   one: its node is a candidate of the segments that the others have.
//! - Where no two nodes agree, the widest of subnets that lie in one another is the segment. A subnet that holds separate subnets of
//!   several nodes is none.
//! - A prefix shorter than [`SHORTEST_PREFIX`] is never a segment.
//!
//! Nodes change their prefix length one by one: [`Lans::of_address`] lists the segments that a node takes part in, and
//! [`Lans::current`] is the segment that stands for one that is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use windlass_api::NodeNetworkSpec;
use windlass_common::bridges::is_inside_the_node;

/// No link has a shorter prefix.
pub(crate) const SHORTEST_PREFIX: u8 = 8;
/// Number of nodes that decide by agreeing.
const AGREEING: usize = 2;

/// Returns the longest prefix of a subnet that holds neighbours: an address with a longer one is a host route.
pub(crate) const fn longest_prefix(net: &IpNet) -> u8 {
    match net {
        IpNet::V4(_) => 30,
        IpNet::V6(_) => 126,
    }
}

/// An address whose prefix length other nodes of its LAN do not have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Dissent {
    /// The address with its length.
    pub(crate) address: IpNet,
    /// Subnet of the others.
    pub(crate) others: IpNet,
}

/// The segments, and the subnets that they were found among.
#[derive(Debug, Default)]
pub(crate) struct Lans {
    /// Addresses that nodes report in each subnet.
    reported: BTreeMap<IpNet, BTreeMap<String, BTreeSet<IpAddr>>>,
    /// Lengths of the subnets' prefixes, by whether the family is IPv4.
    lengths: BTreeSet<(bool, u8)>,
    segments: BTreeSet<IpNet>,
}

impl Lans {
    /// Finds the segments of these nodes. Bridges of containers are no part of a LAN.
    pub(crate) fn new<'a>(reports: impl IntoIterator<Item = (String, &'a NodeNetworkSpec)>) -> Self {
        let mut lans = Self::default();
        for (node, spec) in reports {
            for net in lan_addresses(spec).filter(|net| net.prefix_len() >= SHORTEST_PREFIX) {
                lans.lengths.insert((net.addr().is_ipv4(), net.prefix_len()));
                let nodes = lans.reported.entry(net.trunc()).or_default();
                nodes.entry(node.clone()).or_default().insert(net.addr());
            }
        }
        lans.segments = lans.find_segments();
        lans
    }

    fn find_segments(&self) -> BTreeSet<IpNet> {
        let (agreed, alone): (BTreeSet<IpNet>, BTreeSet<IpNet>) =
            self.reported.keys().copied().partition(|net| self.reporters(*net).count() >= AGREEING);
        // Each subnet of one node, and the wider ones of other nodes that hold it.
        let mut is_disputed = BTreeSet::new();
        let mut within: BTreeMap<IpNet, Vec<IpNet>> = BTreeMap::new();
        for &net in self.reported.keys() {
            for wider in self.wider(net).filter(|wider| self.is_of_others(net, *wider)) {
                match (agreed.contains(&net), agreed.contains(&wider)) {
                    (true, true) => {}
                    (true, false) => drop(is_disputed.insert(wider)),
                    (false, true) => drop(is_disputed.insert(net)),
                    (false, false) => within.entry(wider).or_default().push(net),
                }
            }
        }
        let is_wider_the_lan = |net: &IpNet| {
            self.wider(*net).any(|wider| agreed.contains(&wider) && self.is_one_lan(*net, wider))
        };
        let mut segments: BTreeSet<IpNet> =
            agreed.iter().copied().filter(|net| !is_wider_the_lan(net)).collect();
        // From the widest on: what another one is the segment for is none.
        let mut open: Vec<IpNet> = alone.difference(&is_disputed).copied().collect();
        open.sort_by_key(IpNet::prefix_len);
        let mut is_settled = BTreeSet::new();
        for net in open {
            if is_settled.contains(&net) {
                continue;
            }
            let nested = within.get(&net).into_iter().flatten();
            let nested: Vec<IpNet> = nested.filter(|one| !is_disputed.contains(*one)).copied().collect();
            if self.is_chain(&nested) {
                is_settled.extend(nested);
                segments.insert(net);
            }
        }
        segments
    }

    /// Returns true if these subnets, each of one node, are nested in each other, or all are of one node.
    fn is_chain(&self, nets: &[IpNet]) -> bool {
        let mut by_length = nets.to_vec();
        by_length.sort_by_key(IpNet::prefix_len);
        let nodes: BTreeSet<&str> = nets.iter().flat_map(|net| self.reporters(*net)).collect();
        nodes.len() < AGREEING || by_length.windows(2).all(|pair| pair[0].contains(&pair[1]))
    }

    fn reporters(&self, net: IpNet) -> impl Iterator<Item = &str> {
        self.reported.get(&net).into_iter().flatten().map(|(node, _)| node.as_str())
    }

    /// Returns true if the two subnets together are reported by at least two nodes.
    fn is_of_others(&self, one: IpNet, other: IpNet) -> bool {
        self.reporters(one).chain(self.reporters(other)).collect::<BTreeSet<_>>().len() > 1
    }

    /// Subnets that hold `net` and are wider, the narrowest first.
    fn wider(&self, net: IpNet) -> impl Iterator<Item = IpNet> {
        let lengths = self.lengths.range((net.addr().is_ipv4(), 0)..(net.addr().is_ipv4(), net.prefix_len()));
        let nets =
            lengths.rev().filter_map(move |(_, length)| Some(IpNet::new(net.addr(), *length).ok()?.trunc()));
        nets.filter(|net| self.reported.contains_key(net))
    }

    /// Segments within `net` and narrower.
    fn narrower(&self, net: IpNet) -> impl Iterator<Item = IpNet> {
        let after = self.segments.range(net..).take_while(move |one| net.contains(&one.addr()));
        after.filter(move |one| one.prefix_len() > net.prefix_len()).copied()
    }

    /// The segments that a node takes part in by an address with its prefix length, that of its own subnet first.
    pub(crate) fn of_address(&self, net: IpNet) -> Vec<IpNet> {
        let own = net.trunc();
        let is_absurd = net.prefix_len() < SHORTEST_PREFIX;
        // On a bridge of containers, which an Announcement names.
        let is_apart = !is_absurd && !self.reported.contains_key(&own);
        let is_segment = self.segments.contains(&own) || is_apart;
        let mut segments: Vec<IpNet> = is_segment.then_some(own).into_iter().collect();
        segments.extend(self.narrower(own).filter(|one| one.contains(&net.addr())));
        if !is_segment {
            segments.extend(self.wider(own).find(|one| self.segments.contains(one)));
        }
        segments
    }

    /// Returns true if a subnet and a wider one are the same LAN: nodes have addresses of the narrower one with the length of the
    /// wider one.
    fn is_one_lan(&self, narrower: IpNet, wider: IpNet) -> bool {
        let nodes = self.reported.get(&wider).into_iter().flatten();
        let in_both = nodes.filter(|(_, addresses)| addresses.iter().any(|one| narrower.contains(one)));
        in_both.count() >= AGREEING
    }

    /// The segment that a virtual router of `segment` is in: another one where the LAN has another prefix length since. `None`: no node has a
    /// subnet there.
    pub(crate) fn current(&self, segment: IpNet) -> Option<IpNet> {
        if self.segments.contains(&segment) {
            return Some(segment);
        }
        let wider = self.wider(segment).find(|one| self.segments.contains(one));
        wider.or_else(|| {
            let mut within = self.narrower(segment);
            let widest = within.next()?;
            within.all(|one| widest.contains(&one)).then_some(widest)
        })
    }

    /// Addresses of a node whose prefix length is not that of the others on its LAN.
    pub(crate) fn dissents(&self, spec: &NodeNetworkSpec) -> BTreeSet<Dissent> {
        let dissent = |address: IpNet| {
            let own = address.trunc();
            let segments = self.of_address(address);
            let others = segments.first().copied().or_else(|| self.narrower(own).next())?;
            (others != own).then_some(Dissent { address, others })
        };
        lan_addresses(spec).filter_map(dissent).collect()
    }
}

/// The addresses that a node has in subnets, with their prefix lengths.
fn lan_addresses(spec: &NodeNetworkSpec) -> impl Iterator<Item = IpNet> {
    let interfaces = spec.interfaces.iter().filter(|one| !is_inside_the_node(one));
    let nets = interfaces.flat_map(|one| &one.addresses).filter_map(|text| text.parse::<IpNet>().ok());
    nets.filter(|net| {
        let is_link_local = matches!(net, IpNet::V6(v6) if v6.addr().is_unicast_link_local());
        !is_link_local && net.prefix_len() <= longest_prefix(net)
    })
}

//! The node of each lot of a shared address. Pure.
//!
//! A lot moves only from a node that has too many lots, or serves no more, to one that has too few. It returns to a node that it had before
//! rather than to another, so that the connections there are at home again. A move adds one node to the history of a lot.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

use windlass_api::{FORMER_SERVERS, LOTS, LotTable, SHARING_NODES, SharedBy, SharedLoad, SharedLoadError};

use crate::placement::mixed::mixed;

#[cfg(test)]
mod tests;

/// Part of the lots that each node is to serve, in proportion: the nodes with a weight above 0, [`SHARING_NODES`] at most.
pub(crate) type Weights<'a> = BTreeMap<&'a str, usize>;

/// Server and former servers of a lot, as indices of nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Lot {
    /// `None`: nobody served it yet.
    server: Option<usize>,
    /// The newest first.
    former: [Option<usize>; FORMER_SERVERS],
}

impl Lot {
    fn give(&mut self, to: usize) {
        let before = std::mem::replace(self, Self { server: Some(to), ..Self::default() });
        let history = before.server.into_iter().chain(before.former.into_iter().flatten());
        let others = history.filter(|node| *node != to);
        self.former.iter_mut().zip(others).for_each(|(place, node)| *place = Some(node));
    }
}

/// The lots of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lots<'a> {
    address: IpAddr,
    /// Names of nodes.
    nodes: Vec<&'a str>,
    all: [Lot; LOTS],
}

impl<'a> Lots<'a> {
    /// All lots of an address that one node served alone. `None`: nobody served it.
    pub(super) fn of_one(address: IpAddr, node: Option<&'a str>) -> Self {
        let lot = Lot { server: node.map(|_| 0), ..Lot::default() };
        Self { address, nodes: node.into_iter().collect(), all: [lot; LOTS] }
    }

    /// Reads the lots of an object.
    pub(super) fn read(address: IpAddr, shared: &'a SharedLoad) -> Result<Self, SharedLoadError> {
        let LotTable { lots, former } = shared.table()?;
        let lot = |number: usize| {
            let mut lot = Lot { server: Some(lots[number].into()), ..Lot::default() };
            let rows = lot.former.iter_mut().zip(&former);
            rows.for_each(|(place, row)| *place = row[number].map(usize::from));
            lot
        };
        let nodes = shared.nodes.iter().map(|node| node.name.as_str()).collect();
        Ok(Self { address, nodes, all: std::array::from_fn(lot) })
    }

    /// Former servers: each lot and the name of a node.
    pub(super) fn former(&self) -> impl Iterator<Item = (usize, &'a str)> {
        let nodes = |lot: &Lot| lot.former.into_iter().flatten();
        self.all
            .iter()
            .enumerate()
            .flat_map(move |(number, lot)| nodes(lot).map(move |node| (number, self.nodes[node])))
    }

    /// Returns true if a lot has a former server.
    pub(crate) fn have_former(&self) -> bool {
        self.former().next().is_some()
    }

    /// Removes the former servers of lots for which this returns true.
    pub(super) fn forget(&mut self, is_over: impl Fn(usize, &str) -> bool) {
        for (number, lot) in self.all.iter_mut().enumerate() {
            let all = std::mem::take(&mut lot.former);
            let kept = all.into_iter().flatten().filter(|node| !is_over(number, self.nodes[*node]));
            lot.former.iter_mut().zip(kept).for_each(|(place, node)| *place = Some(node));
        }
    }

    /// Returns true if a node that is to serve has no lot, or one that is not has some.
    pub(super) fn lacks(&self, weights: &Weights<'_>) -> bool {
        let targets = self.targets(weights);
        let counts = self.counts(weights);
        counts.total != LOTS
            || targets
                .iter()
                .any(|(node, target)| *target > 0 && counts.of.get(node).is_none_or(|count| *count == 0))
    }

    /// Returns true if a node has a quarter more or less than its share.
    pub(super) fn is_uneven(&self, weights: &Weights<'_>) -> bool {
        let total: usize = weights.values().sum();
        let counts = self.counts(weights);
        weights.iter().any(|(node, weight)| {
            let count = counts.of.get(node).copied().unwrap_or(0);
            let (wanted, has) = (weight * LOTS, count * total);
            let is_rounded = count == wanted / total || count == wanted.div_ceil(total);
            !is_rounded && wanted.abs_diff(has) * 4 > wanted
        })
    }

    /// Gives each node its exact share, with the fewest moves. Without weights nothing moves.
    pub(super) fn share(&mut self, weights: &Weights<'a>) {
        let targets = self.targets(weights);
        for node in weights.keys() {
            if !self.nodes.contains(node) {
                self.nodes.push(node);
            }
        }
        let mut counts = vec![0; self.nodes.len()];
        self.all.iter().filter_map(|lot| lot.server).for_each(|node| counts[node] += 1);
        let target = |node: &&str| targets.get(*node).copied().unwrap_or(0);
        let targets: Vec<usize> = self.nodes.iter().map(target).collect();
        if targets.iter().all(|target| *target == 0) {
            return;
        }
        let mut moves = Vec::new();
        for (number, lot) in self.all.iter().enumerate() {
            if lot.server.is_some_and(|node| counts[node] <= targets[node]) {
                continue;
            }
            for to in (0..self.nodes.len()).filter(|to| counts[*to] < targets[*to]) {
                let is_home = lot.former.contains(&Some(to));
                moves.push((!is_home, self.order(number, self.nodes[to]), number, to));
            }
        }
        moves.sort_unstable();
        let mut is_done = [false; LOTS];
        for (_, _, number, to) in moves {
            let from = self.all[number].server;
            let can_go = !is_done[number] && from.is_none_or(|node| counts[node] > targets[node]);
            if can_go && counts[to] < targets[to] {
                self.all[number].give(to);
                if let Some(node) = from {
                    counts[node] -= 1;
                }
                counts[to] += 1;
                is_done[number] = true;
            }
        }
    }

    /// Returns the object, with the addresses of nodes. Of too many nodes, former servers are left out. `None`: a lot has no node with an
    /// address.
    pub(crate) fn write(
        &self,
        by: SharedBy,
        address_of: impl Fn(&str) -> Option<IpAddr>,
    ) -> Option<SharedLoad> {
        let mut nodes: Vec<(String, IpAddr)> = Vec::new();
        let mut keys: Vec<Option<u8>> = vec![None; self.nodes.len()];
        let serving = |node: usize| self.all.iter().any(|lot| lot.server == Some(node));
        let served = |node: usize| self.all.iter().any(|lot| lot.former.contains(&Some(node)));
        let mut order: Vec<usize> =
            (0..self.nodes.len()).filter(|node| serving(*node) || served(*node)).collect();
        order.sort_by_key(|node| !serving(*node));
        order.truncate(SHARING_NODES);
        order.sort_unstable();
        for node in order {
            if let Some(address) = address_of(self.nodes[node]) {
                keys[node] = u8::try_from(nodes.len()).ok();
                nodes.push((self.nodes[node].to_owned(), address));
            }
        }
        let mut table = LotTable { lots: [0; LOTS], former: vec![[None; LOTS]; FORMER_SERVERS] };
        for (number, lot) in self.all.iter().enumerate() {
            table.lots[number] = keys[lot.server?]?;
            let former = lot.former.into_iter().flatten().filter_map(|node| keys[node]);
            table.former.iter_mut().zip(former).for_each(|(row, key)| row[number] = Some(key));
        }
        table.former.retain(|row| row.iter().any(Option::is_some));
        SharedLoad::of(by, nodes, &table)
    }

    /// Number of lots that each node is to serve. Of equal remainders, that of a node that serves more already counts first.
    fn targets(&self, weights: &Weights<'a>) -> BTreeMap<&'a str, usize> {
        let total: usize = weights.values().sum();
        let counts = self.counts(weights);
        let share = |weight: usize| (weight * LOTS / total, weight * LOTS % total);
        let mut order: Vec<(&'a str, usize, usize)> =
            weights.iter().map(|(node, weight)| (*node, share(*weight).0, share(*weight).1)).collect();
        order.sort_by_cached_key(|(node, least, remainder)| {
            let serves_more = counts.of.get(node).is_some_and(|count| count > least);
            (Reverse(*remainder), !serves_more, self.order(LOTS, node))
        });
        let left = LOTS - order.iter().map(|(_, least, _)| least).sum::<usize>().min(LOTS);
        let more = |place: usize| usize::from(place < left);
        order.into_iter().enumerate().map(|(place, (node, least, _))| (node, least + more(place))).collect()
    }

    /// Number of lots of the nodes with a weight.
    fn counts(&self, weights: &Weights<'_>) -> Counts<'a> {
        let mut counts = Counts { total: 0, of: BTreeMap::new() };
        for node in self.all.iter().filter_map(|lot| Some(self.nodes[lot.server?])) {
            if weights.contains_key(node) {
                counts.total += 1;
                *counts.of.entry(node).or_default() += 1;
            }
        }
        counts
    }

    /// Returns the place of a node in the order of a lot, which is another one for each address.
    fn order(&self, number: usize, node: &str) -> u64 {
        let address = match self.address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        mixed(address.into_iter().chain(u8::try_from(number)).chain(node.bytes()))
    }
}

/// Number of lots.
struct Counts<'a> {
    total: usize,
    of: BTreeMap<&'a str, usize>,
}

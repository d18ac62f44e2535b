//! Servers that take the place of others which do not answer. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::hash::{LOTS, place};
use super::shares::Share;

#[cfg(test)]
mod tests;

/// Index of no server.
const NONE: u8 = u8::MAX;
/// Substitutes of a lot that a node asks after it was away itself: the second one served the lot if the first was away as well.
const ASKED: usize = 2;

impl Share {
    /// Returns the share while servers are out: `silent` ones, which do not answer, and `filtered` ones, to which packets of clients do not
    /// pass. A lot of theirs is served by the next node in the order of the lot that has lots of its own and is not out, or where its packets
    /// arrive if all are silent. If all that answer are filtered, they count as not out: no other node could serve. All other lots stay: every
    /// node that knows of the same servers computes the same.
    #[must_use]
    pub fn without(&self, silent: &BTreeSet<IpAddr>, filtered: &BTreeSet<IpAddr>) -> Self {
        let mut living = self.serving();
        living.retain(|node, _| !silent.contains(node));
        let has_other = living.keys().any(|node| !filtered.contains(node));
        let counts = |node: &IpAddr| silent.contains(node) || (has_other && filtered.contains(node));
        living.retain(|node, _| !counts(node));
        let is_out = |lots, lot| self.at(lots, lot).filter(counts);
        let mut share = self.clone();
        for (lot, index) in (0..).zip(&mut share.lots) {
            if let Some(server) = is_out(&self.lots, lot) {
                *index = nearest(lot, server, &living).map_or(NONE, |(_, _, index)| index);
            }
        }
        for (lots, former) in share.former.iter_mut().zip(&self.former) {
            let gone = (0..).zip(lots).filter(|(lot, _)| is_out(former, *lot).is_some());
            gone.for_each(|(_, index)| *index = NONE);
        }
        share
    }

    /// Returns the share on a node that was away: the first substitutes of each lot are its newest former servers.
    #[must_use]
    pub fn with_substitutes(&self) -> Self {
        let mut former = [[NONE; LOTS]; ASKED];
        let serving = self.serving();
        for (at, lot) in (0..LOTS).zip(0..) {
            let Some(server) = self.server(lot) else { continue };
            let mut left = serving.clone();
            left.remove(&server);
            for lots in &mut former {
                let Some((_, node, index)) = nearest(lot, server, &left) else { break };
                left.remove(&node);
                if let Some(one) = lots.get_mut(at) {
                    *one = index;
                }
            }
        }
        Self { former: former.into_iter().chain(self.former.iter().copied()).collect(), ..self.clone() }
    }

    /// Returns the servers that have lots, with their indexes.
    pub fn serving(&self) -> BTreeMap<IpAddr, u8> {
        let mut has_lots = [false; 1 + u8::MAX as usize];
        self.lots.iter().for_each(|index| has_lots[usize::from(*index)] = true);
        let servers = (0..=u8::MAX).zip(&self.servers).zip(has_lots).filter(|(_, has_lots)| *has_lots);
        servers.map(|((index, server), _)| (*server, index)).collect()
    }
}

/// Returns the next of these nodes after the server in the order of the lot, with its distance and index.
fn nearest(lot: u8, server: IpAddr, nodes: &BTreeMap<IpAddr, u8>) -> Option<(u32, IpAddr, u8)> {
    let from = place(lot, server);
    nodes.iter().map(|(node, index)| (place(lot, *node).wrapping_sub(from), *node, *index)).min()
}

//! Connections by VIP, with a digest of each VIP's that is kept up with every change.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Bound;

use super::connection::{Connection, ConnectionKey, MixedFamilies};
use super::entry::Entry;
use super::flows::{Flows, OtherFamily};

/// Number of connections, and a digest that differs if they do: a receiver compares both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Number of connections.
    pub count: u32,
    /// The sum of [`digest`] of each, in whatever order.
    pub digest: u64,
}

/// 64 bits of a connection: the bytes of its entry on the wire in words of eight (the last filled with zeros), each mixed in
/// by the finalizer of SplitMix64. It finds divergence, and proves nothing: that is what authentication is for.
pub fn digest(connection: &Connection) -> u64 {
    let mut bytes = Vec::with_capacity(Entry::LONGEST);
    Entry::Put(*connection).write(&mut bytes);
    bytes.chunks(8).fold(0, |mixed, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        let mut z = (mixed ^ u64::from_be_bytes(word)).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// Effect of putting a connection into a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placed {
    /// It is new.
    New,
    /// It takes the place of another one with the same original direction.
    Changed,
    /// It was there.
    Same,
}

#[derive(Clone, Debug)]
enum Family {
    V4(Flows<Ipv4Addr>),
    V6(Flows<Ipv6Addr>),
}

#[derive(Clone, Debug)]
struct Vip {
    digest: u64,
    flows: Family,
}

impl Vip {
    fn new(ip: IpAddr) -> Self {
        let flows = match ip {
            IpAddr::V4(_) => Family::V4(Flows::default()),
            IpAddr::V6(_) => Family::V6(Flows::default()),
        };
        Self { digest: 0, flows }
    }

    fn len(&self) -> usize {
        match &self.flows {
            Family::V4(flows) => flows.len(),
            Family::V6(flows) => flows.len(),
        }
    }

    fn get(&self, key: &ConnectionKey) -> Option<Connection> {
        match &self.flows {
            Family::V4(flows) => flows.get(key),
            Family::V6(flows) => flows.get(key),
        }
    }

    fn put(
        &mut self,
        connection: &Connection,
        generation: u32,
        since: u32,
    ) -> Result<Option<Connection>, OtherFamily> {
        match &mut self.flows {
            Family::V4(flows) => flows.put(connection, generation, since),
            Family::V6(flows) => flows.put(connection, generation, since),
        }
    }

    fn remove(&mut self, key: &ConnectionKey) -> Option<Connection> {
        match &mut self.flows {
            Family::V4(flows) => flows.remove(key),
            Family::V6(flows) => flows.remove(key),
        }
    }

    fn after(&self, ip: IpAddr, key: Option<&ConnectionKey>) -> Box<dyn Iterator<Item = Connection> + '_> {
        match &self.flows {
            Family::V4(flows) => Box::new(flows.after(ip, key)),
            Family::V6(flows) => Box::new(flows.after(ip, key)),
        }
    }

    fn take_others(&mut self, ip: IpAddr, generation: u32) -> Vec<Connection> {
        match &mut self.flows {
            Family::V4(flows) => flows.take_others(ip, generation),
            Family::V6(flows) => flows.take_others(ip, generation),
        }
    }

    fn count_ages(&self, ages: &mut BTreeMap<u32, usize>) {
        match &self.flows {
            Family::V4(flows) => flows.count_ages(ages),
            Family::V6(flows) => flows.count_ages(ages),
        }
    }

    fn take_oldest(&mut self, ip: IpAddr, second: u32, of_second: &mut usize) -> Vec<Connection> {
        match &mut self.flows {
            Family::V4(flows) => flows.take_oldest(ip, second, of_second),
            Family::V6(flows) => flows.take_oldest(ip, second, of_second),
        }
    }
}

/// Connections ordered by VIP, then by client. An Active has one table, which the [`super::Sender`]s of all its peers read; each
/// [`super::Receiver`] has its own.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    vips: BTreeMap<IpAddr, Vip>,
    count: usize,
}

impl Connections {
    /// Returns the number of connections.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of connections of a VIP.
    pub fn len_of(&self, vip: IpAddr) -> usize {
        self.vips.get(&vip).map_or(0, Vip::len)
    }

    /// The VIPs that have any.
    pub fn vips(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.vips.keys().copied()
    }

    /// The connection of this original direction.
    pub fn get(&self, key: &ConnectionKey) -> Option<Connection> {
        self.vips.get(&key.vip.ip())?.get(key)
    }

    /// Returns all connections, in order.
    pub fn iter(&self) -> impl Iterator<Item = Connection> + '_ {
        self.vips.iter().flat_map(|(ip, vip)| vip.after(*ip, None))
    }

    /// Returns the connections of a VIP, in order.
    pub fn of_vip(&self, vip: IpAddr) -> impl Iterator<Item = Connection> + '_ {
        self.vips.get(&vip).into_iter().flat_map(move |flows| flows.after(vip, None))
    }

    /// Returns the connections of these VIPs after `cursor`, or all, in order: a walk that continues although the table changes.
    pub fn after<'a>(
        &'a self,
        cursor: Option<&'a ConnectionKey>,
        vips: &'a BTreeSet<IpAddr>,
    ) -> impl Iterator<Item = Connection> + 'a {
        let first = cursor.map(|key| key.vip.ip());
        let begun = first.filter(|ip| vips.contains(ip)).and_then(|ip| Some((ip, self.vips.get(&ip)?)));
        let behind = first.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.vips.range((behind, Bound::Unbounded)).filter(|(ip, _)| vips.contains(ip));
        let begun = begun.into_iter().flat_map(move |(ip, vip)| vip.after(ip, cursor));
        begun.chain(rest.flat_map(|(ip, vip)| vip.after(*ip, None)))
    }

    /// Count and digest of the connections of these VIPs.
    pub fn summary(&self, vips: &BTreeSet<IpAddr>) -> Summary {
        self.vips.iter().filter(|(ip, _)| vips.contains(ip)).map(|(_, vip)| vip).fold(
            Summary::default(),
            |Summary { count, digest }, vip| Summary {
                count: count.saturating_add(u32::try_from(vip.len()).unwrap_or(u32::MAX)),
                digest: digest.wrapping_add(vip.digest),
            },
        )
    }

    /// Puts a connection in.
    pub fn put(&mut self, connection: Connection) -> Result<Placed, MixedFamilies> {
        self.put_as_of(connection, 0, 0)
    }

    /// Removes a connection.
    pub fn remove(&mut self, key: &ConnectionKey) -> Option<Connection> {
        let ip = key.vip.ip();
        let vip = self.vips.get_mut(&ip)?;
        let removed = vip.remove(key)?;
        vip.digest = vip.digest.wrapping_sub(digest(&removed));
        self.count = self.count.saturating_sub(1);
        if vip.len() == 0 {
            self.vips.remove(&ip);
        }
        Some(removed)
    }

    /// Removes all connections of a VIP.
    pub fn remove_vip(&mut self, ip: IpAddr) -> Vec<Connection> {
        let Some(vip) = self.vips.remove(&ip) else { return Vec::new() };
        self.count = self.count.saturating_sub(vip.len());
        vip.after(ip, None).collect()
    }

    /// Puts a connection in as one that this generation names, and that comes in this second, unless it is there already.
    pub(super) fn put_as_of(
        &mut self,
        connection: Connection,
        generation: u32,
        since: u32,
    ) -> Result<Placed, MixedFamilies> {
        let ip = connection.check()?.key.vip.ip();
        let vip = self.vips.entry(ip).or_insert_with(|| Vip::new(ip));
        // Of one family with its VIP, as was checked.
        let former = vip
            .put(&connection, generation, since)
            .map_err(|OtherFamily| MixedFamilies(Box::new(connection)))?;
        let placed = match former {
            Some(former) if former == connection => return Ok(Placed::Same),
            Some(former) => {
                vip.digest = vip.digest.wrapping_sub(digest(&former));
                Placed::Changed
            }
            None => {
                self.count = self.count.saturating_add(1);
                Placed::New
            }
        };
        vip.digest = vip.digest.wrapping_add(digest(&connection));
        Ok(placed)
    }

    /// Removes the connections that this generation does not name.
    pub(super) fn remove_others(&mut self, generation: u32) -> Vec<Connection> {
        self.remove_taken(|ip, vip| vip.take_others(ip, generation))
    }

    /// Removes the `count` oldest connections, except those of the VIPs `kept`.
    pub(super) fn remove_oldest(&mut self, count: usize, kept: &BTreeSet<IpAddr>) -> Vec<Connection> {
        let mut ages = BTreeMap::new();
        let others = self.vips.iter().filter(|(ip, _)| !kept.contains(ip));
        others.for_each(|(_, vip)| vip.count_ages(&mut ages));
        // All that came before this second go, and so many of those that came in it.
        let (mut second, mut of_second) = (0, 0);
        let mut left = count;
        for (since, came) in ages {
            (second, of_second) = (since, came.min(left));
            left = left.saturating_sub(of_second);
            if left == 0 {
                break;
            }
        }
        self.remove_taken(|ip, vip| {
            if kept.contains(&ip) { Vec::new() } else { vip.take_oldest(ip, second, &mut of_second) }
        })
    }

    /// Removes the connections that `take` takes from each VIP.
    fn remove_taken(&mut self, mut take: impl FnMut(IpAddr, &mut Vip) -> Vec<Connection>) -> Vec<Connection> {
        let mut removed = Vec::new();
        for (ip, vip) in &mut self.vips {
            let taken = take(*ip, vip);
            let gone = taken.iter().fold(0, |sum: u64, other| sum.wrapping_add(digest(other)));
            vip.digest = vip.digest.wrapping_sub(gone);
            self.count = self.count.saturating_sub(taken.len());
            removed.extend(taken);
        }
        self.vips.retain(|_, vip| vip.len() > 0);
        removed
    }
}

//! The connections of one VIP in few bytes: 30 each for IPv4, 66 for IPv6, of a map that is three quarters full.

use std::collections::{BTreeMap, btree_map};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Bound;

use super::connection::{Connection, ConnectionKey, Transport};

/// A connection has an address that is not of its VIP's family.
#[derive(Clone, Copy, Debug)]
pub(super) struct OtherFamily;

/// An address of one family.
pub(super) trait Address: Copy + Ord {
    /// The address, if it is of this family.
    fn of(ip: IpAddr) -> Option<Self>;
    fn ip(self) -> IpAddr;
}

impl Address for Ipv4Addr {
    fn of(ip: IpAddr) -> Option<Self> {
        match ip {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        }
    }
    fn ip(self) -> IpAddr {
        self.into()
    }
}

impl Address for Ipv6Addr {
    fn of(ip: IpAddr) -> Option<Self> {
        match ip {
            IpAddr::V4(_) => None,
            IpAddr::V6(address) => Some(address),
        }
    }
    fn ip(self) -> IpAddr {
        self.into()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key<A> {
    client: A,
    client_port: u16,
    vip_port: u16,
    transport: Transport,
}

#[derive(Clone, Copy, Debug)]
struct Value<A> {
    backend: A,
    source: A,
    backend_port: u16,
    source_port: u16,
    generation: u32,
    /// Second in which it came.
    since: u32,
}

/// The connections of one VIP, all of family `A`.
#[derive(Clone, Debug)]
pub(super) struct Flows<A>(BTreeMap<Key<A>, Value<A>>);

impl<A> Default for Flows<A> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<A: Address> Key<A> {
    fn of(key: &ConnectionKey) -> Option<Self> {
        let client = A::of(key.client.ip())?;
        let (client_port, vip_port) = (key.client.port(), key.vip.port());
        Some(Self { client, client_port, vip_port, transport: key.transport })
    }

    fn unpack(self, vip: IpAddr) -> ConnectionKey {
        ConnectionKey {
            transport: self.transport,
            client: SocketAddr::new(self.client.ip(), self.client_port),
            vip: SocketAddr::new(vip, self.vip_port),
        }
    }
}

impl<A: Address> Value<A> {
    /// Returns true if backend and source are equal: it is the same connection.
    fn is(&self, other: &Self) -> bool {
        let connection = |value: &Self| (value.backend, value.backend_port, value.source, value.source_port);
        connection(self) == connection(other)
    }

    fn unpack(self, key: ConnectionKey) -> Connection {
        Connection {
            key,
            backend: SocketAddr::new(self.backend.ip(), self.backend_port),
            source: SocketAddr::new(self.source.ip(), self.source_port),
        }
    }
}

impl<A: Address> Flows<A> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Puts the connection in and returns the one that was in its place.
    pub(super) fn put(
        &mut self,
        connection: &Connection,
        generation: u32,
        since: u32,
    ) -> Result<Option<Connection>, OtherFamily> {
        let value = Value {
            backend: A::of(connection.backend.ip()).ok_or(OtherFamily)?,
            source: A::of(connection.source.ip()).ok_or(OtherFamily)?,
            backend_port: connection.backend.port(),
            source_port: connection.source.port(),
            generation,
            since,
        };
        Ok(match self.0.entry(Key::of(&connection.key).ok_or(OtherFamily)?) {
            btree_map::Entry::Vacant(place) => {
                place.insert(value);
                None
            }
            btree_map::Entry::Occupied(mut place) => {
                let former = *place.get();
                let since = if former.is(&value) { former.since } else { since };
                place.insert(Value { since, ..value });
                Some(former.unpack(connection.key))
            }
        })
    }

    pub(super) fn remove(&mut self, key: &ConnectionKey) -> Option<Connection> {
        Some(self.0.remove(&Key::of(key)?)?.unpack(*key))
    }

    pub(super) fn get(&self, key: &ConnectionKey) -> Option<Connection> {
        Some(self.0.get(&Key::of(key)?)?.unpack(*key))
    }

    /// Returns the connections after `key`, or all without one, in order.
    pub(super) fn after(
        &self,
        vip: IpAddr,
        key: Option<&ConnectionKey>,
    ) -> impl Iterator<Item = Connection> + use<'_, A> {
        let start = key.and_then(Key::of).map_or(Bound::Unbounded, Bound::Excluded);
        self.0.range((start, Bound::Unbounded)).map(move |(key, value)| value.unpack(key.unpack(vip)))
    }

    /// Removes the connections of other generations.
    pub(super) fn take_others(&mut self, vip: IpAddr, generation: u32) -> Vec<Connection> {
        let others = |_: &Key<A>, value: &mut Value<A>| value.generation != generation;
        self.0.extract_if(.., others).map(|(key, value)| value.unpack(key.unpack(vip))).collect()
    }

    /// Adds how many came in each second.
    pub(super) fn count_ages(&self, ages: &mut BTreeMap<u32, usize>) {
        for value in self.0.values() {
            let age = ages.entry(value.since).or_default();
            *age = age.saturating_add(1);
        }
    }

    /// Removes the connections that came before `second`, and `of_second` of those that came in it, which are counted down.
    pub(super) fn take_oldest(&mut self, vip: IpAddr, second: u32, of_second: &mut usize) -> Vec<Connection> {
        let oldest = |_: &Key<A>, value: &mut Value<A>| {
            let is_last = value.since == second && *of_second > 0;
            *of_second = of_second.saturating_sub(usize::from(is_last));
            is_last || value.since < second
        };
        self.0.extract_if(.., oldest).map(|(key, value)| value.unpack(key.unpack(vip))).collect()
    }
}

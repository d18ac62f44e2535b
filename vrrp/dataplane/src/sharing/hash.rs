//! The kernel's hash of a packet's client, which determines its lot (`linux/jhash.h`). Pure.

use std::net::IpAddr;

use windlass_kernel::netfilter::element::{octets, word};

#[cfg(test)]
mod tests;

/// Number of lots of an address: parts of its connections, each of which one node serves.
pub const LOTS: usize = 120;
/// The same on all nodes, so that they agree about each client's lot.
pub(super) const SEED: u32 = 0x7769_6e64;
const INITIAL: u32 = 0xdead_beef;

/// Parts of a packet that determine its lot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::exhaustive_enums, reason = "a caller must not overlook one")]
pub enum SharedBy {
    /// The client's address and port: each connection by itself.
    #[default]
    Connection,
    /// The client's address: all its connections go to one node.
    Client,
}

/// Returns the lot of packets from this port of a client. All nodes must have the same byte order.
pub fn lot(client: IpAddr, port: u16, by: SharedBy) -> u8 {
    let mut key = octets(client);
    match by {
        SharedBy::Connection => key.extend(word(port)),
        SharedBy::Client => {}
    }
    let hash = u64::from(jhash(&key, SEED));
    // The kernel's `reciprocal_scale`.
    let lots = u64::try_from(LOTS).unwrap_or(u64::MAX);
    u8::try_from(hash.wrapping_mul(lots) >> 32).unwrap_or(u8::MAX)
}

/// Returns the place of a node in the order of a lot, which is the same on all nodes: in it, nodes are asked about connections of the lot and
/// take one another's place.
pub(super) fn place(lot: u8, node: IpAddr) -> u32 {
    let mut key = octets(node);
    key.push(lot);
    jhash(&key, SEED)
}

fn jhash(mut key: &[u8], seed: u32) -> u32 {
    let length = u32::try_from(key.len()).unwrap_or(u32::MAX);
    let mut state = [INITIAL.wrapping_add(length).wrapping_add(seed); 3];
    while key.len() > 12
        && let Some((head, rest)) = key.split_first_chunk::<12>()
    {
        add(&mut state, *head, u32::from_ne_bytes);
        mix(&mut state);
        key = rest;
    }
    if key.is_empty() {
        return state[2];
    }
    let mut last = [0; 12];
    last.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    add(&mut state, last, u32::from_le_bytes);
    finish(&mut state);
    state[2]
}

fn add(
    state: &mut [u32; 3],
    [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3]: [u8; 12],
    read: fn([u8; 4]) -> u32,
) {
    let words = [[a0, a1, a2, a3], [b0, b1, b2, b3], [c0, c1, c2, c3]];
    for (one, word) in state.iter_mut().zip(words) {
        *one = one.wrapping_add(read(word));
    }
}

/// `__jhash_mix`: for each step `x -= z; x ^= rol32(z, by); z += y`.
fn mix([a, b, c]: &mut [u32; 3]) {
    let step = |x: &mut u32, y: u32, z: &mut u32, by| {
        *x = x.wrapping_sub(*z) ^ z.rotate_left(by);
        *z = z.wrapping_add(y);
    };
    step(a, *b, c, 4);
    step(b, *c, a, 6);
    step(c, *a, b, 8);
    step(a, *b, c, 16);
    step(b, *c, a, 19);
    step(c, *a, b, 4);
}

/// `__jhash_final`.
fn finish([a, b, c]: &mut [u32; 3]) {
    let step = |x: &mut u32, y: u32, by| *x = (*x ^ y).wrapping_sub(y.rotate_left(by));
    step(c, *b, 14);
    step(a, *c, 11);
    step(b, *a, 25);
    step(c, *b, 16);
    step(a, *c, 4);
    step(b, *a, 14);
    step(c, *b, 24);
}

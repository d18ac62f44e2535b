//! Rules that write some bits of a packet's or a connection's mark. The other bits stay: other programs have theirs there.
//!
//! nf_tables combines a mark with constants alone (with what a map has for a packet only since Linux 6.13), so each bit has a rule. Another
//! packet of the connection may meanwhile find some of the bits: it finds a mark that leads nowhere, and takes the same rules.

use super::expression::{
    Comparison::NotEqual,
    Connection::Mark,
    Expression::{self, Change, Compare, Connection, MarkConnection, MarkPacket, Mask, Meta},
    Meta::Mark as PacketMark,
};

#[cfg(test)]
mod tests;

/// The name of the chain with the rules [`to_packet`].
pub const LEAD: &str = "lead";

/// The rules that give a packet these bits of its connection's mark.
pub fn to_packet(bits: u32) -> Vec<Vec<Expression>> {
    to_packet_from(bits, &[Connection(Mark)])
}

/// The rules that give a packet these bits of the mark that `source` loads.
pub fn to_packet_from(bits: u32, source: &[Expression]) -> Vec<Vec<Expression>> {
    copying(bits, source, [Meta(PacketMark), MarkPacket])
}

/// The rules that give a connection these bits of the mark that `source` loads.
pub fn to_connection(bits: u32, source: &[Expression]) -> Vec<Vec<Expression>> {
    copying(bits, source, [Connection(Mark), MarkConnection])
}

/// The rules that copy these bits to the mark that `load` loads and `store` stores.
fn copying(bits: u32, source: &[Expression], [load, store]: [Expression; 2]) -> Vec<Vec<Expression>> {
    let cleared = vec![load, Mask((!bits).to_ne_bytes()), store];
    let each = (0..u32::BITS).map(|place| 1_u32 << place).filter(|bit| bits & bit != 0);
    let copied = each.map(|bit| {
        let is_set = [Mask(bit.to_ne_bytes()), Compare(NotEqual, &[0; 4])];
        let set = [load, Change((!bit).to_ne_bytes(), bit.to_ne_bytes()), store];
        [source, &is_set, &set].concat()
    });
    std::iter::once(cleared).chain(copied).collect()
}

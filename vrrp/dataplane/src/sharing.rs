//! Directs packets for addresses that several nodes of a LAN share: the node that answers for the address sends each packet to the node that
//! serves its lot, at the interface's ingress hook, before the IP stack. The client's address stays, and answers go to the client directly.
//!
//! [`Sharing`] writes an nftables table of its own (the name is the caller's, the chain of an interface is named after it):
//!
//! ```text
//! table netdev windlass-sharing {
//!   set peers { type ether_addr; }         # other nodes: what comes from them was directed before
//!   set shared4 { type iface_index . ipv4_addr . inet_proto . inet_service; }    # ports by client and port
//!   set shared6 { type iface_index . ipv6_addr . inet_proto . inet_service; }
//!   set sticky4 { type iface_index . ipv4_addr . inet_proto . inet_service; }    # ports by client
//!   set sticky6 { type iface_index . ipv6_addr . inet_proto . inet_service; }
//!   map lots4 { type ipv4_addr . inet_proto . mark : ipv4_addr; }    # the node of each lot of an address
//!   map lots6 { type ipv6_addr . inet_proto . mark : ipv6_addr; }
//!
//!   chain errors4 {                       # @nh is the IP header, @th what follows it: here the packet that an ICMP error is about
//!     @th,64,8 0x45 iif . @nh,128,32 . @th,136,8 . @th,224,16 @shared4 counter
//!       fwd ip to @nh,128,32 . @th,136,8 . jhash @th,192,32 . @th,240,16 mod 120 seed 0x77696e64 map @lots4 device iif
//!     @th,64,8 0x45 iif . @nh,128,32 . @th,136,8 . @th,224,16 @sticky4 counter
//!       fwd ip to @nh,128,32 . @th,136,8 . jhash @th,192,32 mod 120 seed 0x77696e64 map @lots4 device iif
//!   }
//!   chain direct4 {
//!     @nh,64,8 <= 0x1 accept               # ip ttl
//!     @nh,32,32 & 0x3fff != 0x0 accept     # a fragment
//!     iif . @nh,128,32 . meta l4proto . th dport @shared4 counter    # ip daddr
//!       fwd ip to @nh,128,32 . meta l4proto . jhash @nh,96,32 . th sport mod 120 seed 0x77696e64 map @lots4 device iif
//!     iif . @nh,128,32 . meta l4proto . th dport @sticky4 counter
//!       fwd ip to @nh,128,32 . meta l4proto . jhash @nh,96,32 mod 120 seed 0x77696e64 map @lots4 device iif
//!     icmp type destination-unreachable goto errors4
//!     icmp type time-exceeded goto errors4
//!     icmp type parameter-problem goto errors4
//!   }
//!   chain errors6 {
//!     iif . @nh,192,128 . @th,112,8 . @th,384,16 @shared6 counter
//!       fwd ip6 to @nh,192,128 . @th,112,8 . jhash @th,256,128 . @th,400,16 mod 120 seed 0x77696e64 map @lots6 device iif
//!     iif . @nh,192,128 . @th,112,8 . @th,384,16 @sticky6 counter
//!       fwd ip6 to @nh,192,128 . @th,112,8 . jhash @th,256,128 mod 120 seed 0x77696e64 map @lots6 device iif
//!   }
//!   chain direct6 {
//!     @nh,56,8 <= 0x1 accept               # ip6 hoplimit
//!     exthdr frag exists accept
//!     iif . @nh,192,128 . meta l4proto . th dport @shared6 counter
//!       fwd ip6 to @nh,192,128 . meta l4proto . jhash @nh,64,128 . th sport mod 120 seed 0x77696e64 map @lots6 device iif
//!     iif . @nh,192,128 . meta l4proto . th dport @sticky6 counter
//!       fwd ip6 to @nh,192,128 . meta l4proto . jhash @nh,64,128 mod 120 seed 0x77696e64 map @lots6 device iif
//!     icmpv6 type 1-4 goto errors6
//!   }
//!   chain direct {
//!     meta pkttype != host accept          # other hosts' frames, which a promiscuous interface receives
//!     @ll,48,48 @peers accept              # ether saddr
//!     @ll,96,16 0x800 goto direct4         # ether type: of a frame with a VLAN tag, which is another interface's, it is neither
//!     @ll,96,16 0x86dd goto direct6
//!   }
//!   chain from-lo {
//!     type filter hook ingress device "lo" priority filter - 10; policy accept;
//!     goto direct
//!   }
//! }
//! ```
//!
//! All other packets go up to this node's IP stack, guard and service proxy: lots of this node and of nodes whose link-layer address
//! is unknown, ports that are not shared, fragments, and all else. The table is the same on all nodes, whichever answers for an address, so a
//! failover changes no rule.
//!
//! A packet from a peer is never directed again, whatever the tables say: two that differ make no loop between nodes that know each other.
//! A packet is sent only to a peer whose link-layer address is in `peers`. A packet leaves by the interface that it came by; no rule has
//! the number of an interface, but the elements of `shared4` and the like do: a packet for the address that came by another interface is not
//! directed. The frame has one hop less to go, which the kernel counts.
//!
//! An ICMP error is directed as the packet that it is about, so that the node that sent too long a packet learns of it.
//!
//! A kernel may remove an interface's chain with the interface ([`Sharing::update`] with the new index makes it anew).

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_kernel::netfilter::attributes::Attributes;
use windlass_kernel::netfilter::expression::counted;
use windlass_kernel::netfilter::failure::TableError;
use windlass_kernel::netfilter::message::Operation;
use windlass_kernel::netfilter::table::{Checked, OwnedTable};

mod by_share;
mod contents;
mod hash;
mod ruleset;
mod set;
mod shares;
mod substitutes;
#[cfg(test)]
mod tests;

pub use by_share::ByShare;
use contents::Contents;
pub use hash::{LOTS, SharedBy, lot};
pub(crate) use ruleset::{is_about_plain, lot_of_error, lot_of_packet};
use set::Directed;
pub use shares::{FORMER, Share, Shares, SharingLink};

/// Reason why the desired sharing is not in force.
pub type SharingError = TableError;

/// Tries whether the kernel can share addresses: makes a table of this name and deletes it, in one transaction. In the network namespace of
/// the calling thread.
pub fn try_sharing(table: &str) -> Result<(), SharingError> {
    Ok(OwnedTable::<Contents>::open(table)?.try_kernel()?)
}

/// The table in the kernel. Dropping it leaves the table in place, so that packets still find their node while another process takes its
/// place; [`Self::remove`] deletes it. Every call may wait in the kernel.
pub struct Sharing {
    table: OwnedTable<Contents>,
    /// Directed packets of each service, and the links that they follow from.
    directed: (BTreeMap<String, SharingLink>, ByShare<Arc<Directed>>),
}

impl Sharing {
    /// Returns the number of packets that the table of this name has sent to other nodes since it was made; 0 if there is none. In the network
    /// namespace of the calling thread.
    pub fn directed_packets(table: &str) -> Result<u64, SharingError> {
        let rules = OwnedTable::<Contents>::open(table)?
            .ask(Operation::GetRules, &Attributes::new().text(1, table))?;
        Ok(rules.iter().flatten().map(|rule| counted(rule)).sum())
    }

    /// Deletes the table of this name, which an earlier process may have left. In the network namespace of the calling thread.
    pub fn remove_left_over(table: &str) -> Result<(), SharingError> {
        Ok(OwnedTable::<Contents>::open(table)?.remove_left_over()?)
    }

    /// Makes the table anew in the network namespace of the calling thread, in one transaction. The table that it replaces directs packets
    /// up to this moment.
    pub fn install(
        table: &str,
        shares: &Shares,
        links: &BTreeMap<String, SharingLink>,
    ) -> Result<Self, SharingError> {
        let mut sharing = Self { table: OwnedTable::open(table)?, directed: Default::default() };
        sharing.update(shares, links)?;
        Ok(sharing)
    }

    /// Changes what is directed, in transactions of at most 2,000 elements: peers are known before a packet is directed to them, and a
    /// shared address changes at once. After an error a part of them may have been carried out, and the next call continues.
    pub fn update(
        &mut self,
        shares: &Shares,
        links: &BTreeMap<String, SharingLink>,
    ) -> Result<(), SharingError> {
        if self.directed.0 != *links {
            self.directed = (links.clone(), ByShare::default());
        }
        Ok(self.table.apply(Contents::of(shares, links, &mut self.directed.1))?)
    }

    /// Looks whether the table and its rules are there, and makes them anew in one transaction if not. Cheap even while others change
    /// nftables tables all the time.
    pub fn quick_check(&mut self) -> Result<Checked, SharingError> {
        Ok(self.table.quick_check()?)
    }

    /// Checks rules and elements, and makes the table anew if they are not as they were left. Lists all elements if a program has changed
    /// any table of the node.
    pub fn full_check(&mut self) -> Result<Checked, SharingError> {
        Ok(self.table.full_check()?)
    }

    /// Deletes the table, unless it is gone or another process has made it anew.
    pub fn remove(mut self) -> Result<(), SharingError> {
        Ok(self.table.remove()?)
    }
}

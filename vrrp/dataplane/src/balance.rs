//! Sends packets for ports of VIPs to the servers behind them, on this node and on others, without a VIP on any interface.
//!
//! [`Balancer::apply`] sets the backends, [`Balancer::check`] and [`Balancer::local`] are called each second. It writes an nftables
//! table of the process's own (the name is the caller's):
//!
//! ```text
//! table inet windlass-vip-nat {
//!   set own4 { type ipv4_addr; }           # addresses of this node
//!   set own6 { type ipv6_addr; }
//!   set local4 {                           # VIPs to which the node's own packets go the way of others: it is Active for
//!     type ipv4_addr                       # them, and said so at most 15 s ago
//!     timeout 15s
//!   }
//!   set local6 {
//!     type ipv6_addr
//!     timeout 15s
//!   }
//!   map lots4 { type ipv4_addr . inet_proto . inet_service . mark : ipv4_addr . inet_service; }    # who gets each of the
//!   map lots6 { type ipv6_addr . inet_proto . inet_service . mark : ipv6_addr . inet_service; }    # sixty lots of a port
//!   set masqueraded4 { type ipv4_addr . inet_proto . inet_service; }    # ports whose remote backends answer to this node
//!   set masqueraded6 { type ipv6_addr . inet_proto . inet_service; }
//!   set kept4 { type ipv4_addr . inet_proto . inet_service; }    # ports whose remote backends see the client
//!   set kept6 { type ipv6_addr . inet_proto . inet_service; }
//!   set nodes4 { type ipv4_addr; }         # addresses of all nodes, which they do not see as clients
//!   set nodes6 { type ipv6_addr; }
//!   set servers4 { type ipv4_addr . inet_proto . inet_service; }    # this node's servers to which peers send clients' packets
//!   set servers6 { type ipv6_addr . inet_proto . inet_service; }
//!   map senders4 { type ether_addr : mark; }    # the link-layer addresses of those peers, and the marks that lead answers to them
//!   map senders6 { type ether_addr : mark; }
//!   set marks4 { type mark; }
//!   set marks6 { type mark; }
//!
//!   chain backends {
//!     dnat ip to ip daddr . meta l4proto . th dport . numgen random mod 60 map @lots4
//!     dnat ip6 to ip6 daddr . meta l4proto . th dport . numgen random mod 60 map @lots6
//!   }
//!   chain take4 {                         # nft does not know the type of what a map has, and shows its bytes
//!     ct mark set ct mark & 0xfffffff0
//!     ether saddr map @senders4 & 0x1000000 [invalid type] != 0x0 [invalid type] ct mark set ct mark | 0x00000001
//!     ether saddr map @senders4 & 0x2000000 [invalid type] != 0x0 [invalid type] ct mark set ct mark | 0x00000002
//!     ether saddr map @senders4 & 0x4000000 [invalid type] != 0x0 [invalid type] ct mark set ct mark | 0x00000004
//!     ether saddr map @senders4 & 0x8000000 [invalid type] != 0x0 [invalid type] ct mark set ct mark | 0x00000008
//!   }
//!   chain take6 {
//!     ct mark set ct mark & 0xfffffff0
//!     ether saddr map @senders6 & 0x1000000 [invalid type] != 0x0 [invalid type] ct mark set ct mark | 0x00000001
//!     ether saddr map @senders6 & 0x2000000 [invalid type] != 0x0 [invalid type] ct mark set ct mark | 0x00000002
//!     ether saddr map @senders6 & 0x4000000 [invalid type] != 0x0 [invalid type] ct mark set ct mark | 0x00000004
//!     ether saddr map @senders6 & 0x8000000 [invalid type] != 0x0 [invalid type] ct mark set ct mark | 0x00000008
//!   }
//!   chain lead {
//!     meta mark set meta mark & 0xfffffff0
//!     ct mark & 0x00000001 != 0x00000000 meta mark set meta mark | 0x00000001
//!     ct mark & 0x00000002 != 0x00000000 meta mark set meta mark | 0x00000002
//!     ct mark & 0x00000004 != 0x00000000 meta mark set meta mark | 0x00000004
//!     ct mark & 0x00000008 != 0x00000000 meta mark set meta mark | 0x00000008
//!   }
//!   chain prerouting {
//!     type nat hook prerouting priority dstnat; policy accept;
//!     jump backends
//!   }
//!   chain output {
//!     type nat hook output priority -100; policy accept;
//!     ip daddr @local4 jump backends
//!     ip6 daddr @local6 jump backends
//!   }
//!   chain postrouting {
//!     type nat hook postrouting priority srcnat - 5; policy accept;
//!     ct status dnat ct original ip daddr . meta l4proto . ct original proto-dst @masqueraded4 ip daddr != @own4
//!       counter masquerade fully-random
//!     ct status dnat ct original ip6 daddr . meta l4proto . ct original proto-dst @masqueraded6 ip6 daddr != @own6
//!       counter masquerade fully-random
//!     ct status dnat ct original ip daddr . meta l4proto . ct original proto-dst @kept4 ip daddr != @own4
//!       ip saddr @nodes4 counter masquerade fully-random
//!     ct status dnat ct original ip6 daddr . meta l4proto . ct original proto-dst @kept6 ip6 daddr != @own6
//!       ip6 saddr @nodes6 counter masquerade fully-random
//!   }
//!   chain arriving {
//!     type filter hook prerouting priority mangle; policy accept;
//!     ip daddr . meta l4proto . th dport @servers4 ct state new ip saddr != @nodes4
//!       ether saddr map @senders4 != 0x0 [invalid type] counter goto take4
//!     ip6 daddr . meta l4proto . th dport @servers6 ct state new ip6 saddr != @nodes6
//!       ether saddr map @senders6 != 0x0 [invalid type] counter goto take6
//!   }
//!   chain leaving {
//!     type route hook output priority mangle; policy accept;
//!     ip saddr . meta l4proto . th sport @servers4 ct mark & 0x0000000f == @marks4 counter goto lead
//!     ip6 saddr . meta l4proto . th sport @servers6 ct mark & 0x0000000f == @marks6 counter goto lead
//!   }
//! }
//! ```
//!
//! Kernel connection tracking translates all packets of a connection as it did the first: a change of backends is for new
//! connections alone, and no rule concerns others. A change exchanges elements of maps, in one transaction; the rules are always
//! the same. The kernel guarantees that one look-up finds the state before a transaction or after it, but not that two do: so a
//! packet finds its backend by one. With a map of ports that have one backend beside that of lots, a packet that came while a port
//! went from the second to the first found neither, and its connection was refused. A table that a new process makes anew cannot keep
//! to that: a packet that is on its way from one chain to the next at that instant may find neither the old map nor the new one.
//! Of 104,000 connections that were opened while the table was made anew 11,000 times, one was refused.
//!
//! A packet to a VIP comes here by way of the engine's guard, if it has one. The guard refuses packets for no port of the VIP
//! before (at -115), sends packets of connections of the previous Active to that node untranslated (at -105), and refuses packets
//! that nothing took after (at -95, and in the filter chains).
//!
//! `prerouting` does not ask whether the node is Active: packets still on their way after a move are served. The node's own packets
//! must reach the VIP wherever that is, so they are translated only while the process confirms that the node is Active.
//!
//! `postrouting` leaves alone packets for this node's own server, which sees the client. A backend on another node would answer to
//! the client directly, which knows nothing of it: with [`ClientSource::Masquerade`] it answers to this node.
//!
//! With [`ClientSource::Keep`] its node does: `arriving` marks a connection that a client began by the peer whose link-layer
//! address its first packet has, `leaving` marks the answers, and a routing rule leads packets with the mark to that peer, which
//! translates back: a rule for each port of a server (before Linux 5.13 for each of its addresses). Both marks keep the bits that
//! are not of [`WaysBack::marks`]. Clients that are nodes are masqueraded all the same: one could be its own backend, or have a
//! connection to the server beside that to the VIP, from the same port. Each table that a rule leads to leaves out packets for
//! VIPs: an engine that forwards connections to the previous Active may use the same marks for that.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;

use windlass_kernel::netfilter::table::{Checked, OwnedTable};

mod balancing;
mod error;
mod ruleset;
mod set;
mod ways;

pub use balancing::{Backends, Balancing, ClientSource, Returns};
pub use error::{BalanceError, BalanceObstacle, BalancingError};
use set::Contents;
use ways::Ways;
pub use ways::WaysBack;

/// The table in the kernel. Dropping it leaves the table in place, so that packets still find their way while another process
/// takes its place; [`Self::close`] removes it. Every call may wait in the kernel.
pub struct Balancer {
    table: OwnedTable<Contents>,
    /// Desired balancing; `None`: not known yet, and what an earlier process left stays as it is.
    wanted: Option<Balancing>,
    ways: Ways,
}

impl Balancer {
    /// Opens a balancer for a table of this name, of family `inet`, in the network namespace of the calling thread. Nothing is
    /// changed there before [`Self::apply`].
    pub fn open(table: &str) -> Result<Self, BalanceError> {
        Ok(Self { table: OwnedTable::open(table)?, wanted: None, ways: Ways::new(WaysBack::default()) })
    }

    /// Sets other marks and rules than the defaults for [`ClientSource::Keep`]. Call it before [`Self::apply`].
    #[must_use]
    pub fn with_ways_back(self, settings: WaysBack) -> Self {
        Self { ways: Ways::new(settings), ..self }
    }

    /// Sends new connections to these backends, in one step. Established connections stay with the backends that they have. After
    /// an error from the kernel nothing is changed, and [`Self::check`] tries again; after another it is as if it had not been
    /// called.
    pub fn apply(&mut self, balancing: &Balancing) -> Result<(), BalanceError> {
        balancing.check(self.ways.most()).map_err(BalanceError::Contents)?;
        self.wanted = Some(balancing.clone());
        self.bring()
    }

    /// Restores what another program has removed or changed. Call it each second.
    pub fn check(&mut self) -> Result<Checked, BalanceError> {
        if self.wanted.is_none() {
            return Ok(Checked::Intact);
        }
        let checked = self.table.full_check()?;
        self.bring()?;
        Ok(checked)
    }

    /// Sends the node's own packets to these VIPs, for which it is Active, and to no others, to backends for the next 15 s. Call it
    /// each second: a process that was killed or frozen leaves nothing behind that keeps the node from the VIP, which is on another
    /// node by then.
    pub fn local(&mut self, vips: &BTreeSet<IpAddr>) -> Result<(), BalanceError> {
        if vips.is_empty() && self.table.installed().local.is_empty() {
            return Ok(());
        }
        Ok(self.table.renew(|contents| contents.local.clone_from(vips))?)
    }

    /// Returns the obstacles to packets for backends on other nodes, though the table is there. Reads the network namespace of the
    /// calling thread.
    pub fn obstacles(&self) -> Vec<BalanceObstacle> {
        let remote: Vec<_> = self.wanted.iter().flat_map(Balancing::remote).collect();
        let forwards = |setting: &str| {
            fs::read_to_string(format!("/proc/sys/{}", setting.replace('.', "/")))
                .is_ok_and(|value| value.trim() != "0")
        };
        [(true, "net.ipv4.ip_forward"), (false, "net.ipv6.conf.all.forwarding")]
            .into_iter()
            .filter(|(is_v4, setting)| {
                remote.iter().any(|target| target.is_ipv4() == *is_v4) && !forwards(setting)
            })
            .map(|(_, setting)| BalanceObstacle::NotForwarding { setting })
            .chain(self.ways.obstacles().iter().cloned())
            .collect()
    }

    /// Deletes the table, unless it is gone or another process has made it anew. Established translations stay while any nftables
    /// or iptables table of the node translates addresses.
    pub fn close(mut self) -> Result<(), BalanceError> {
        // First what marks, then where marks lead.
        let removed = self.table.remove();
        if let Some(wanted) = &self.wanted {
            self.ways.end(wanted)?;
        }
        Ok(removed?)
    }

    /// Changes the kernel from the installed to the desired balancing.
    fn bring(&mut self) -> Result<(), BalanceError> {
        let Some(balancing) = self.wanted.clone() else { return Ok(()) };
        // Where marks lead first, then what marks. What is in the way of that is in no other's.
        let led = self.ways.follow(&balancing);
        let installed = self.table.installed();
        let senders = led.as_ref().ok().unwrap_or(&installed.senders).clone();
        let (local, marks) = (installed.local.clone(), self.ways.marks());
        self.table.apply(Contents { balancing, senders, local, marks })?;
        led.map(drop)
    }
}

//! The nftables guard: what happens to packets for a VIP that no Service takes.
//!
//! A VIP that is on no interface would have its echo requests and its packets to ports of no Service routed back to the
//! LAN; a VIP that is on one would expose the host's sockets. The table says instead:
//!
//! ```text
//! table inet windlass {
//!   set vips4 { type ipv4_addr; }          # VIPs of this node's virtual routers, Active or not:
//!   set vips6 { type ipv6_addr; }          # a failover changes nothing here
//!   set held4 { type ipv4_addr; }          # those that this node is Active for
//!   set held6 { type ipv6_addr; }
//!   set restricted4 { type ipv4_addr . inet_proto . inet_service; }    # ports of VIPs, any node's, that not everybody may use
//!   set restricted6 { type ipv6_addr . inet_proto . inet_service; }
//!   set sources4 {                         # and who may: address, protocol, port and source as one number, in which each
//!     type 0                               # takes whole words
//!     flags interval
//!   }
//!   set sources6 {
//!     type 0
//!     flags interval
//!   }
//!   set owned4 { type ipv4_addr . inet_proto; }   # VIPs of this node's virtual routers whose ports are known, with TCP, UDP and SCTP
//!   set owned6 { type ipv6_addr . inet_proto; }
//!   set ports4 { type ipv4_addr . inet_proto . inet_service; }         # and those ports
//!   set ports6 { type ipv6_addr . inet_proto . inet_service; }
//!   set moved4 { type ipv4_addr . mark; }  # VIPs that another node handed over, with the mark that sends packets to it
//!   set moved6 { type ipv6_addr . mark; }
//!   map window4 { type ipv4_addr : mark; } # those of them of which unknown connections are taken for that node's
//!   map window6 { type ipv6_addr : mark; }
//!   set left4 { type ipv4_addr; }          # VIPs that this node was Active for a moment ago
//!   set left6 { type ipv6_addr; }
//!   set strays4 {                          # ends of TCP connections with packets that do not fit what the kernel knows of them
//!     type ipv4_addr . inet_service . ipv4_addr . inet_service
//!     size 256
//!     flags dynamic,timeout
//!     timeout 5s
//!   }
//!   set strays6 {
//!     type ipv6_addr . inet_service . ipv6_addr . inet_service
//!     size 256
//!     flags dynamic,timeout
//!     timeout 5s
//!   }
//!   set movable4 { type ipv4_addr . iface_index; }    # VIPs whose connections another node can go on with, and by
//!   set movable6 { type ipv6_addr . iface_index; }    # which interface their clients come
//!   set replicated4 { type ipv4_addr; }    # VIPs whose connections are told to other nodes
//!   set replicated6 { type ipv6_addr; }
//!   set astray4 {                          # where backends are whose answers to a VIP would not arrive
//!     type ipv4_addr
//!     flags interval
//!   }
//!   set astray6 {
//!     type ipv6_addr
//!     flags interval
//!   }
//!   set ended4 { type ipv4_addr; }         # addresses that lost all their owners a moment ago, any node's
//!   set ended6 { type ipv6_addr; }
//!   set known4 { type ipv4_addr; }         # addresses that any rule is about
//!   set known6 { type ipv6_addr; }
//!   set open4 { type ipv4_addr . inet_proto . inet_service; }          # those ports of VIPs to which any client may send
//!   set open6 { type ipv6_addr . inet_proto . inet_service; }
//!   map next4 { type ipv4_addr . inet_proto . mark : mark; }     # lots of shared VIPs with former servers: the mark of the next node
//!   map next6 { type ipv6_addr . inet_proto . mark : mark; }     # to ask, and how often a packet is passed on; by client and port
//!   map sticky4 { type ipv4_addr . inet_proto . mark : mark; }   # and by client
//!   map sticky6 { type ipv6_addr . inet_proto . mark : mark; }
//!   set awake {                            # empty 15 s after this process was killed or frozen
//!     type nf_proto
//!     timeout 15s
//!   }
//!
//!   chain refuse {
//!     icmpv6 type 133-137 drop             # neighbour discovery is never forwarded
//!     ct state invalid counter drop
//!     meta l4proto tcp counter reject with tcp reset
//!     counter reject with icmpx port-unreachable
//!   }
//!   chain arrived {
//!     icmp type echo-request accept        # a VIP that is the first address of the interface
//!     icmpv6 type echo-request accept
//!     icmpv6 type 133-137 accept
//!     goto refuse
//!   }
//!   chain untaken {
//!     meta l4proto tcp accept              # judged in input and forward
//!     goto arrived
//!   }
//!   chain over {
//!     meta l4proto icmp accept
//!     meta l4proto ipv6-icmp accept
//!     tcp flags rst accept
//!     goto refuse
//!   }
//!   chain lead {                          # the connection's mark, of which the packet gets the bits 0xf0
//!     ip ttl <= 4 goto refuse              # two nodes that send to each other end soon
//!     ip ttl >= 9 ip ttl set 8
//!     ip6 hoplimit <= 4 goto refuse
//!     ip6 hoplimit >= 9 ip6 hoplimit set 8
//!     ct state new iif != 0 th dport set 0   # hidden from kube-proxy's filters
//!     counter
//!     meta mark set meta mark & 0xffffff0f
//!     ct mark & 0x00000010 != 0x00000000 meta mark set meta mark | 0x00000010
//!     ct mark & 0x00000020 != 0x00000000 meta mark set meta mark | 0x00000020
//!     ct mark & 0x00000040 != 0x00000000 meta mark set meta mark | 0x00000040
//!     ct mark & 0x00000080 != 0x00000000 meta mark set meta mark | 0x00000080
//!     accept
//!   }
//!   chain take4 {                         # nft does not know the type of what a map has, and shows its bytes
//!     ct mark set ct mark & 0xffffff0f
//!     ip daddr map @window4 & 0x10000000 [invalid type] != 0x0 [invalid type] ct mark set ct mark | 0x00000010
//!     ip daddr map @window4 & 0x20000000 [invalid type] != 0x0 [invalid type] ct mark set ct mark | 0x00000020
//!     ip daddr map @window4 & 0x40000000 [invalid type] != 0x0 [invalid type] ct mark set ct mark | 0x00000040
//!     ip daddr map @window4 & 0x80000000 [invalid type] != 0x0 [invalid type] ct mark set ct mark | 0x00000080
//!     goto lead
//!   }
//!   chain take6 {
//!     ct mark set ct mark & 0xffffff0f
//!     ip6 daddr map @window6 & 0x10000000 [invalid type] != 0x0 [invalid type] ct mark set ct mark | 0x00000010
//!     ip6 daddr map @window6 & 0x20000000 [invalid type] != 0x0 [invalid type] ct mark set ct mark | 0x00000020
//!     ip6 daddr map @window6 & 0x40000000 [invalid type] != 0x0 [invalid type] ct mark set ct mark | 0x00000040
//!     ip6 daddr map @window6 & 0x80000000 [invalid type] != 0x0 [invalid type] ct mark set ct mark | 0x00000080
//!     goto lead
//!   }
//!   chain front4 {
//!     @nh,128,32 @known4 goto about4     # the destination
//!     ct status dnat ct original ip daddr @known4 goto about4
//!   }
//!   chain own4 {
//!     icmp type redirect @th,192,32 @vips4 counter drop     # about which address it is
//!     @nh,128,32 @known4 goto judge-own4
//!     ct status dnat ct original ip daddr @known4 goto about4
//!   }
//!   chain about4 {                        # the first three only where there are such VIPs
//!     ct state new ip daddr @replicated4 meta l4proto tcp ct event set assured,label
//!     ct state new ip daddr @replicated4 meta l4proto udp ct event set destroy,assured
//!     tcp flags fin,rst meta nfproto ipv4 ct original ip daddr @replicated4 ct label set 127
//!     ct status dnat ct original ip daddr . meta l4proto . ct original proto-dst @open4 accept
//!     meta nfproto ipv4 ct original ip daddr @ended4 ct status dnat goto over
//!     ct status dnat ct original ip daddr . meta l4proto . ct original proto-dst @ports4
//!       ct original ip daddr . meta l4proto . ct original proto-dst . ct original ip saddr @sources4 accept
//!     goto judge4
//!   }
//!   chain judge4 {
//!     ip daddr . ct mark & 0x000000f0 @moved4 goto lead
//!     ct direction reply ct status ! dnat ip daddr map @window4 != 0x0 [invalid type] goto take4
//!     tcp flags != syn / fin,syn,rst,ack ct state new ct status ! dnat ip daddr map @window4 != 0x0 [invalid type] goto take4
//!     tcp flags != syn / fin,syn,rst,ack ct state new ct status ! dnat ip daddr @left4 drop
//!     ct state invalid ip daddr @vips4
//!       add @strays4 { ip saddr . tcp sport . ip daddr . tcp dport }
//!     meta nfproto ipv4 ct original ip daddr . meta l4proto . ct original proto-dst @restricted4 ct direction reply ct status dnat
//!       ct original ip daddr . meta l4proto . ct original proto-dst . ct original ip saddr != @sources4 goto over
//!     meta nfproto ipv4 ct original ip daddr . meta l4proto @owned4 ct direction reply ct status dnat
//!       ct original ip daddr . meta l4proto . ct original proto-dst != @ports4 goto over
//!     ct direction reply accept
//!     ip daddr . meta l4proto . th dport @restricted4 ct state established
//!       ip daddr . meta l4proto . tcp dport . ip saddr != @sources4 goto over
//!     ip daddr . meta l4proto . th dport @restricted4 ip daddr . meta l4proto . th dport . ip saddr != @sources4 counter drop
//!     ip daddr . meta l4proto @owned4 ip daddr . meta l4proto . th dport != @ports4 goto refuse
//!     ip daddr @vips4 ct state established,related ct status ! dnat goto arrived
//!   }
//!   chain judge-own4 {
//!     ip daddr . ct mark & 0x000000f0 @moved4 goto lead
//!     ct direction reply ct status ! dnat ip daddr map @window4 != 0x0 [invalid type] goto take4
//!     meta nfproto ipv4 ct original ip daddr @ended4 ct status dnat goto over
//!     meta nfproto ipv4 ct original ip daddr . meta l4proto . ct original proto-dst @restricted4 ct direction reply ct status dnat
//!       ct original ip daddr . meta l4proto . ct original proto-dst . ct original ip saddr != @sources4 goto over
//!     meta nfproto ipv4 ct original ip daddr . meta l4proto @owned4 ct direction reply ct status dnat
//!       ct original ip daddr . meta l4proto . ct original proto-dst != @ports4 goto over
//!     ct direction reply accept
//!     ip daddr . meta l4proto . th dport @restricted4 ct state established
//!       ip daddr . meta l4proto . tcp dport . ip saddr != @sources4 goto over
//!     ip daddr . meta l4proto . th dport @restricted4 ip daddr . meta l4proto . th dport . ip saddr != @sources4 counter drop
//!     ip daddr . meta l4proto @owned4 ip daddr . meta l4proto . th dport != @ports4 goto refuse
//!     ip daddr @held4 meta nfproto @awake ct state established,related ct status ! dnat goto refuse
//!   }
//!   chain front6 {
//!     @nh,192,128 @known6 goto about6
//!     ct status dnat ct original ip6 daddr @known6 goto about6
//!   }
//!   chain own6 {
//!     icmpv6 type nd-redirect @th,192,128 @vips6 counter drop
//!     @nh,192,128 @known6 goto judge-own6
//!     ct status dnat ct original ip6 daddr @known6 goto about6
//!   }
//!   chain about6 {
//!     ct state new ip6 daddr @replicated6 meta l4proto tcp ct event set assured,label
//!     ct state new ip6 daddr @replicated6 meta l4proto udp ct event set destroy,assured
//!     tcp flags fin,rst meta nfproto ipv6 ct original ip6 daddr @replicated6 ct label set 127
//!     ct status dnat ct original ip6 daddr . meta l4proto . ct original proto-dst @open6 accept
//!     meta nfproto ipv6 ct original ip6 daddr @ended6 ct status dnat goto over
//!     ct status dnat ct original ip6 daddr . meta l4proto . ct original proto-dst @ports6
//!       ct original ip6 daddr . meta l4proto . ct original proto-dst . ct original ip6 saddr @sources6 accept
//!     goto judge6
//!   }
//!   chain judge6 {
//!     ip6 daddr . ct mark & 0x000000f0 @moved6 goto lead
//!     ct direction reply ct status ! dnat ip6 daddr map @window6 != 0x0 [invalid type] goto take6
//!     tcp flags != syn / fin,syn,rst,ack ct state new ct status ! dnat ip6 daddr map @window6 != 0x0 [invalid type] goto take6
//!     tcp flags != syn / fin,syn,rst,ack ct state new ct status ! dnat ip6 daddr @left6 drop
//!     ct state invalid ip6 daddr @vips6
//!       add @strays6 { ip6 saddr . tcp sport . ip6 daddr . tcp dport }
//!     meta nfproto ipv6 ct original ip6 daddr . meta l4proto . ct original proto-dst @restricted6 ct direction reply ct status dnat
//!       ct original ip6 daddr . meta l4proto . ct original proto-dst . ct original ip6 saddr != @sources6 goto over
//!     meta nfproto ipv6 ct original ip6 daddr . meta l4proto @owned6 ct direction reply ct status dnat
//!       ct original ip6 daddr . meta l4proto . ct original proto-dst != @ports6 goto over
//!     ct direction reply accept
//!     ip6 daddr . meta l4proto . th dport @restricted6 ct state established
//!       ip6 daddr . meta l4proto . tcp dport . ip6 saddr != @sources6 goto over
//!     ip6 daddr . meta l4proto . th dport @restricted6 ip6 daddr . meta l4proto . th dport . ip6 saddr != @sources6 counter drop
//!     ip6 daddr . meta l4proto @owned6 ip6 daddr . meta l4proto . th dport != @ports6 goto refuse
//!     ip6 daddr @vips6 ct state established,related ct status ! dnat goto arrived
//!   }
//!   chain judge-own6 {
//!     ip6 daddr . ct mark & 0x000000f0 @moved6 goto lead
//!     ct direction reply ct status ! dnat ip6 daddr map @window6 != 0x0 [invalid type] goto take6
//!     meta nfproto ipv6 ct original ip6 daddr @ended6 ct status dnat goto over
//!     meta nfproto ipv6 ct original ip6 daddr . meta l4proto . ct original proto-dst @restricted6 ct direction reply ct status dnat
//!       ct original ip6 daddr . meta l4proto . ct original proto-dst . ct original ip6 saddr != @sources6 goto over
//!     meta nfproto ipv6 ct original ip6 daddr . meta l4proto @owned6 ct direction reply ct status dnat
//!       ct original ip6 daddr . meta l4proto . ct original proto-dst != @ports6 goto over
//!     ct direction reply accept
//!     ip6 daddr . meta l4proto . th dport @restricted6 ct state established
//!       ip6 daddr . meta l4proto . tcp dport . ip6 saddr != @sources6 goto over
//!     ip6 daddr . meta l4proto . th dport @restricted6 ip6 daddr . meta l4proto . th dport . ip6 saddr != @sources6 counter drop
//!     ip6 daddr . meta l4proto @owned6 ip6 daddr . meta l4proto . th dport != @ports6 goto refuse
//!     ip6 daddr @held6 meta nfproto @awake ct state established,related ct status ! dnat goto refuse
//!   }
//!   chain front {
//!     type filter hook prerouting priority mangle; policy accept;
//!     meta nfproto ipv6 goto front6
//!     goto front4
//!   }
//!   chain own {
//!     type route hook output priority mangle; policy accept;
//!     meta nfproto ipv6 goto own6
//!     goto own4
//!   }
//!   chain before-nat {
//!     type nat hook prerouting priority dstnat - 5; policy accept;
//!     ip daddr @vips4 icmp type echo-request counter redirect
//!     ip6 daddr @vips6 icmpv6 type echo-request counter redirect
//!     ip daddr . ct mark & 0x000000f0 @moved4 dnat ip to ip daddr        # as it is: kube-proxy leaves it alone
//!     ip6 daddr . ct mark & 0x000000f0 @moved6 dnat ip6 to ip6 daddr
//!   }
//!   chain before-nat-own {
//!     type nat hook output priority -105; policy accept;
//!     ip daddr @held4 meta nfproto @awake icmp type echo-request counter redirect
//!     ip6 daddr @held6 meta nfproto @awake icmpv6 type echo-request counter redirect
//!   }
//!   chain after-nat {                     # asked about what nothing has translated
//!     type nat hook prerouting priority dstnat + 5; policy accept;
//!     ip daddr @vips4 goto untaken
//!     ip6 daddr @vips6 goto untaken
//!   }
//!   chain input {
//!     type filter hook input priority filter + 10; policy accept;
//!     ct state established,related accept     # judged in front
//!     ip daddr @vips4 goto arrived
//!     ip6 daddr @vips6 goto arrived
//!   }
//!   chain forward {
//!     type filter hook forward priority filter + 10; policy accept;
//!     ct state established,related accept
//!     ip daddr . meta mark & 0x000000f0 @moved4 ct state new th dport 0 th dport set ct original proto-dst
//!     ip daddr . meta mark & 0x000000f0 @moved4 accept
//!     ip6 daddr . meta mark & 0x000000f0 @moved6 ct state new th dport 0 th dport set ct original proto-dst
//!     ip6 daddr . meta mark & 0x000000f0 @moved6 accept
//!     ip daddr @vips4 ct direction reply accept
//!     ip6 daddr @vips6 ct direction reply accept
//!     ip daddr @vips4 goto refuse
//!     ip6 daddr @vips6 goto refuse
//!   }
//!   chain output {
//!     type filter hook output priority filter + 10; policy accept;
//!     ct state established,related accept
//!     ip daddr @held4 meta nfproto @awake ct direction reply accept
//!     ip6 daddr @held6 meta nfproto @awake ct direction reply accept
//!     ip daddr @held4 meta nfproto @awake goto refuse
//!     ip6 daddr @held6 meta nfproto @awake goto refuse
//!   }
//!   chain movable {
//!     type nat hook postrouting priority srcnat - 10; policy accept;
//!     iif 0 icmp type echo-request @th,64,64 0x77696e646c617373 snat ip to ip saddr fully-random     # its own questions for the way back
//!     iif 0 icmpv6 type echo-request @th,64,64 0x77696e646c617373 snat ip6 to ip6 saddr fully-random
//!     ct original ip daddr . iif @movable4 meta mark & 0x00004000 != 0x00000000 ip daddr != @astray4
//!       meta mark set meta mark & 0xffffbfff counter snat ip to ct original ip daddr fully-random
//!     ct original ip6 daddr . iif @movable6 meta mark & 0x00004000 != 0x00000000 ip6 daddr != @astray6
//!       meta mark set meta mark & 0xffffbfff counter snat ip6 to ct original ip6 daddr fully-random
//!   }
//! }
//! ```
//!
//! Each packet that the node forwards passes `front` and `forward`, and is let through by both after a look-up or two unless it is for an
//! address of `known4` or belongs to a translated connection to one. Most of those belong to translated connections to a port
//! of `open4`, or from one of its sources to a port of `ports4`, and nothing else has to be asked about them; `judge4` has all other rules. The kernel asks the chains of type nat about the first packet
//! of a connection only. `make bench-dataplane` says what that costs.
//!
//! `lead`, `take4` and the rules that lead there, with `moved4`, `window4` and `left4`, forward packets of connections that began on the
//! previous Active: `ConnectionForwarding` of the engine. Such a packet is marked, and a routing rule leads packets with the mark
//! to that node. Both marks keep their other bits ([`Guarded::marks`]). From `lead` to `forward` the packet has port 0, which is no
//! Service's: kube-proxy drops what is new to this node for a Service with `externalTrafficPolicy: Local` that has no endpoint here, and
//! the packet's connection lives on another node.
//!
//! Packets of shared VIPs that this node does not know are passed to other nodes in the same way, by rules of `judge4` that are there only
//! while there are shared VIPs: `guard/ruleset/passed_on.rs`.
//!
//! The first rules of `about4` have the kernel report two events of a TCP connection to replicated VIPs instead of five: the handshake is
//! over, and one side has ended, which a changed label shows. [`connections`](windlass_kernel::connections) describes what follows them. A
//! kernel without labels or without events of connection tracking reports all.
//!
//! What kube-proxy would masquerade gets the VIP itself as its source, in `movable`: backends answer to the VIP then, which is wherever
//! the VIP is (`RouterConfig::vip_as_source` of the engine). Such answers have the VIP as their
//! destination on the backend's node and on the way, and pass as what they are: answers of a connection that is tracked. Backends whose
//! answers would not arrive (`RouterConfig::astray`) answer to this node, as kube-proxy has it.
//!
//! A packet that kube-proxy (in nftables or in iptables mode) translated has another destination by then.
//!
//! The sources of a port are checked before any translation, for every packet and not for a connection's first alone: a client that
//! is taken off the list is kept out immediately, and one that stays on it notices nothing of a change.
//!
//! The rules about `ended4` and about answers end connections that were translated before the claim to their address, their port or their
//! client's permission went: a packet of either direction is judged by where its connection began, and its sender gets a reset. The
//! engine's `endings` removes what is left of them from the kernel.
//!
//! A packet for a port that no owner of the VIP has is refused there as well: kube-proxy would give it to any Service that names
//! the VIP in `spec.externalIPs`. For VIPs whose ports are not known, and for protocols without ports, nothing is decided there.
//!
//! Other TCP is refused after kube-proxy's filter chains (priority 0 in both modes), not in prerouting: what kube-proxy drops on
//! purpose, as for source ranges or for an `externalTrafficPolicy: Local` Service whose endpoints are on other nodes,
//! stays dropped, and a client that tries again finds the node that has become Active. So TCP to a VIP that is on no
//! interface is refused only where the node forwards (`net.ipv4.ip_forward`, `net.ipv6.conf.all.forwarding`), as every
//! node with kube-proxy does. All else is refused in prerouting, by `after-nat`: the kernel, about to forward a packet out of the interface
//! it came by, sends an ICMP redirect and then, by its rate limit, no port-unreachable. Of a connection that goes on although nothing
//! translated it, as one to a server of the host before its address became a VIP, any packet is refused in `judge4`.
//!
//! An echo request is answered from the first address of the interface it came by; where that has no IPv4 address (as
//! pods' interfaces with Calico) the kernel drops one of IPv4.
//!
//! The table is this engine's alone and replaced as a whole; manual additions to it are lost. After a crash it stays and guards on
//! until [`Guard::install`] replaces it in one step. Only the node's own packets pass again soon after the crash: another node
//! serves the VIPs.

use std::sync::Arc;
use std::time::Duration;

use windlass_kernel::netfilter::attributes::{self, Attributes};
use windlass_kernel::netfilter::expression;
use windlass_kernel::netfilter::failure::{Failure, TableError};
use windlass_kernel::netfilter::fingerprint::{Compared, Comparison};
use windlass_kernel::netfilter::marks::LEAD;
use windlass_kernel::netfilter::message::Operation;
use windlass_kernel::netfilter::table::OwnedTable;

mod connections;
mod guarded;
mod ports;
mod ruleset;
mod set;
#[cfg(test)]
mod tests;
mod trails;

pub use guarded::{Guarded, Moved, UnknownConnections};
use ruleset::{Contents, Parts};
pub use trails::{Step, Steps, Trails};

use crate::restriction::Restrictions;
pub use windlass_kernel::netfilter::table::Checked;

/// Time for which the node's own packets are guarded after the process last showed that it lives.
pub const AWAKE: Duration = Duration::from_secs(15);

/// Reason why the guard is not in force.
pub type GuardError = TableError;

/// The table in the kernel. Dropping it leaves the table in place. Every call may wait in the kernel: not for the timer
/// thread.
pub struct Guard {
    table: OwnedTable<Contents>,
    /// Optional parts of the table, as far as this kernel supports them.
    can: Parts,
}

impl Guard {
    /// Makes the table anew in the network namespace of the calling thread. The table that it replaces guards up to this moment.
    pub fn install(table: &str, wanted: &Guarded) -> Result<Self, GuardError> {
        Self::install_for(table, wanted, AWAKE)
    }

    /// Like [`Self::install`], but guards the node's own packets for `awake` after this process last showed that it lives.
    pub fn install_for(table: &str, wanted: &Guarded, awake: Duration) -> Result<Self, GuardError> {
        let awake_ms = u64::try_from(awake.as_millis()).unwrap_or(u64::MAX);
        let mut guard = Self {
            table: OwnedTable::open(table)?,
            can: Parts {
                forwards: true,
                shares: true,
                masks_events: true,
                masquerade_mark: Restrictions::MASQUERADE_MARK,
                marks: wanted.marks,
                awake_ms,
            },
        };
        match guard.apply(wanted) {
            Err(failure) if failure.is_lack() => {
                tracing::warn!(
                    table,
                    %failure,
                    "this kernel's nf_tables cannot forward connections to the previous Active: planned moves break them"
                );
                guard.can.forwards = false;
                guard.apply(wanted)?;
            }
            answer => answer?,
        }
        Ok(guard)
    }

    /// Packets that were marked for a previous Active since the table was made.
    pub fn forwarded(&mut self) -> Result<u64, GuardError> {
        let named = Attributes::new().text(1, self.table.name());
        let rules = self.table.ask(Operation::GetRules, &named)?.unwrap_or_default();
        let of_chain = |rule: &&Vec<u8>| {
            attributes::find(rule, 2).and_then(|name| name.split(|byte| *byte == 0).next())
                == Some(LEAD.as_bytes())
        };
        Ok(rules.iter().filter(of_chain).map(|rule| expression::counted(rule)).sum())
    }

    /// The restrictions that are in force, as far as is known.
    pub fn restrictions(&self) -> Arc<Restrictions> {
        let installed = &self.table.installed().guarded;
        if self.table.is_known() { Arc::clone(&installed.restrictions) } else { Arc::default() }
    }

    /// Changes what is guarded: in one step, or in several if thousands of ports and ranges change, those of an address in one. If the
    /// table is gone it is made anew. After an error the step that failed has changed nothing.
    pub fn update(&mut self, wanted: &Guarded) -> Result<(), GuardError> {
        let installed = self.table.installed();
        // Asked each second: thousands of addresses are not copied for nothing.
        if self.table.is_known() && installed.parts == self.parts(wanted) && installed.guarded == *wanted {
            return Ok(());
        }
        Ok(self.apply(wanted)?)
    }

    /// Looks whether the table and its rules are there, and makes them anew if not. Cheap even while others change nftables
    /// tables all the time; to be called each second or so.
    pub fn quick_check(&mut self) -> Result<Checked, GuardError> {
        Ok(self.table.quick_check()?)
    }

    /// Checks whether the table is as it was left, and makes it anew if not; then shows that this process lives. Cheap while no
    /// program changes any nftables table of the node; to be called every five seconds or so.
    pub fn full_check(&mut self) -> Result<Checked, GuardError> {
        let checked = self.table.full_check()?;
        if checked == Checked::Intact {
            self.stay_awake()?;
        }
        Ok(checked)
    }

    /// The slow part of [`Self::full_check`], for another thread, whose answer is for [`Self::settle`]; `None` if the table cannot
    /// have changed.
    pub fn comparison(&mut self) -> Result<Option<Comparison>, GuardError> {
        Ok(self.table.comparison()?)
    }

    /// Makes the table anew if its sets were not as they were left. `None` if that is not known, as they were changed by this process.
    pub fn settle(&mut self, compared: &Compared) -> Result<Option<Checked>, GuardError> {
        Ok(self.table.settle(compared)?)
    }

    /// Deletes the table, unless it is gone or another process has made it anew.
    pub fn remove(mut self) -> Result<(), GuardError> {
        Ok(self.table.remove()?)
    }

    /// Shows that this process lives, if any VIP is held.
    pub fn stay_awake(&mut self) -> Result<(), GuardError> {
        Ok(self.table.renew(|_| {})?)
    }

    /// Puts this in force, with all events of connections if the kernel cannot limit them.
    fn apply(&mut self, wanted: &Guarded) -> Result<(), Failure> {
        let next = self.contents(wanted);
        let limits_events = next.parts.masks_events;
        match self.table.apply(next) {
            Err(failure) if failure.is_lack() && limits_events => {
                tracing::info!(
                    table = self.table.name(),
                    %failure,
                    "this kernel cannot filter connection tracking events by VIP: it sends all of them, \
                     which costs more processor time"
                );
                self.can.masks_events = false;
                self.table.apply(self.contents(wanted))
            }
            outcome => outcome,
        }
    }

    /// Returns the contents of the table for `wanted`.
    fn contents(&self, wanted: &Guarded) -> Contents {
        Contents { guarded: wanted.clone(), parts: self.parts(wanted) }
    }

    /// Returns the optional parts of the table for `wanted`.
    fn parts(&self, wanted: &Guarded) -> Parts {
        Parts {
            shares: wanted.trails.is_some(),
            masks_events: self.can.masks_events && !wanted.replicated.is_empty(),
            masquerade_mark: wanted.restrictions.masquerade_mark(),
            marks: wanted.marks,
            ..self.can
        }
    }
}

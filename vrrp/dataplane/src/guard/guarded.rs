//! Desired contents of the guard.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use windlass_kernel::mark_mask::MarkMask;

use super::trails::Trails;
use crate::restriction::Restrictions;

/// VIPs to guard, and restrictions to enforce. Neither set of VIPs may have an address whose packets are meant for the host's
/// sockets: a VIP in Accept_Mode (RFC 9568 §6.1), an address of the node's own.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Guarded {
    /// VIPs of all virtual routers of this node, Active or not.
    pub vips: BTreeSet<IpAddr>,
    /// VIPs that this node is Active for: the node's own packets to them are guarded too.
    pub held: BTreeSet<IpAddr>,
    /// Ports of addresses, and the sources that may send to them.
    pub restrictions: Arc<Restrictions>,
    /// VIPs that another node handed over to this one, or that this one handed over a moment ago.
    pub moved: Arc<BTreeMap<IpAddr, Moved>>,
    /// Other nodes that may have connections of lots of shared addresses; `None`: no address is shared.
    pub trails: Option<Arc<Trails>>,
    /// The bits of packet marks and connection marks that tell such nodes apart. The other bits are left as they are.
    pub marks: MarkMask,
    /// VIPs that become the source of what kube-proxy would masquerade, with the number of the interface by which their clients
    /// come.
    pub movable: BTreeMap<IpAddr, u32>,
    /// VIPs whose connections are replicated: the kernel reports only such events of them as that needs.
    pub replicated: BTreeSet<IpAddr>,
    /// Ranges of backends that do not get a VIP as the source: their answers to it would not arrive.
    pub astray: BTreeSet<IpNet>,
}

/// No address at all.
static NONE: BTreeSet<IpAddr> = BTreeSet::new();

impl Guarded {
    /// Returns the VIPs to which only translated packets pass.
    pub(super) fn refused(&self) -> &BTreeSet<IpAddr> {
        if self.restrictions.passes_untranslated() { &NONE } else { &self.vips }
    }

    /// Returns the VIPs to which only translated packets of the node's own pass.
    pub(super) fn refused_here(&self) -> &BTreeSet<IpAddr> {
        if self.restrictions.passes_untranslated() { &NONE } else { &self.held }
    }
}

impl Guarded {
    /// Returns the addresses that any rule is about, those of `other` left out, whose restrictions differ for these addresses.
    pub(super) fn known_unlike<'a>(
        &'a self,
        other: &'a Self,
        differing: &'a BTreeSet<IpAddr>,
    ) -> impl Iterator<Item = &'a IpAddr> {
        let restricted = differing.iter().filter(|address| self.knows(**address));
        let moved = self.moved.keys().filter(|address| !other.moved.contains_key(*address));
        let marked = self.marked().map(|(address, _)| address);
        self.refused()
            .difference(other.refused())
            .chain(self.replicated.difference(&other.replicated))
            .chain(restricted)
            .chain(moved)
            .chain(marked)
            .filter(|address| !other.knows(**address))
    }

    /// Returns the shared addresses with the marks of nodes to which packets are passed.
    pub(super) fn marked(&self) -> impl Iterator<Item = &(IpAddr, u32)> {
        self.trails.iter().flat_map(|trails| &trails.marked)
    }

    /// Returns true if any rule is about this address.
    fn knows(&self, address: IpAddr) -> bool {
        self.refused().contains(&address)
            || self.replicated.contains(&address)
            || self.moved.contains_key(&address)
            || self.trails.as_ref().is_some_and(|trails| trails.knows(address))
            || self.restrictions.ports().contains_key(&address)
            || !self.restrictions.is_open(address)
    }
}

/// Treatment of packets to a VIP that belong to connections of the previous Active.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the parts of an element")]
pub struct Moved {
    /// The mark of those connections and of their packets, which are sent to that node. `None`: there are none.
    pub mark: Option<u32>,
    /// Treatment of TCP connections that this node does not know and whose beginning it did not see.
    pub unknown: UnknownConnections,
}

/// Treatment of packets to a VIP of TCP connections that began elsewhere and have no mark yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a caller must not overlook one")]
pub enum UnknownConnections {
    /// They are taken for those of the node that was Active before, and get its mark.
    Forwarded,
    /// They are kube-proxy's, as new ones are: it gives them to an endpoint that does not know them, which resets them.
    Untouched,
    /// They are dropped: this node is no longer Active, and a client that sends again has learnt of the new Active by then.
    Dropped,
}

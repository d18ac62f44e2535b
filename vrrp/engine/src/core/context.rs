//! Parts of the thread that a link uses while it is at work.

use windlass_kernel::sockets::LinkSockets;
use windlass_vrrp::{Family, Time, Vrid};

use crate::event::Event;

use super::deadlines::Deadlines;
use super::instance::InstanceContext;
use super::poller::Poller;

/// A router on its interface.
pub(super) type RouterId = (Family, Vrid);

/// An interface of the thread. Not the kernel's index: it stays when the interface goes and comes back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct LinkId(u32);

impl LinkId {
    pub(super) const FIRST: Self = Self(1);

    pub(super) fn next(self) -> Self {
        Self(self.0.wrapping_add(1).max(1))
    }

    /// The poller's token of its socket for a family; never 0.
    pub(super) fn token(self, family: Family) -> u64 {
        u64::from(self.0) << 1
            | match family {
                Family::V4 => 0,
                Family::V6 => 1,
            }
    }
}

/// Whose token it is, if it is a socket's.
pub(super) fn socket_of(token: u64) -> Option<(LinkId, Family)> {
    let id = u32::try_from(token >> 1).ok().filter(|id| *id > 0)?;
    Some((LinkId(id), if token & 1 == 0 { Family::V4 } else { Family::V6 }))
}

pub(super) struct Context<'a> {
    /// Instant at which the kernel was last asked which sockets are not empty.
    pub(super) now: Time,
    /// True if addresses may be put on interfaces.
    pub(super) net_admin: bool,
    pub(super) events: &'a mut Vec<Event>,
    /// Router handles have changed: the helper threads are to be woken.
    pub(super) wake_helpers: &'a mut bool,
    pub(super) deadlines: &'a mut Deadlines<(LinkId, RouterId)>,
    pub(super) poller: &'a mut Poller,
}

impl Context<'_> {
    pub(super) fn instance_context<'b>(
        &'b mut self,
        sockets: Option<&'b LinkSockets>,
    ) -> InstanceContext<'b> {
        InstanceContext { sockets, events: self.events, wake_helpers: self.wake_helpers, now: self.now }
    }
}

//! The solicited-node groups of an interface's VIPs. Joining them opens the interface's filter for their solicitations and
//! makes the kernel tell switches that snoop MLD.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv6Addr;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use windlass_vrrp::Time;

/// Groups joined or left before looking for something more urgent.
const CHANGES_A_ROUND: usize = 32;
/// Groups joined by one socket: their number is limited by net.core.optmem_max (20 KiB on older kernels).
const GROUPS_A_SOCKET: usize = 128;
/// Time until a group is tried again that could not be joined.
const RETRY: Duration = Duration::from_secs(10);

/// The groups of one interface. Left when it is dropped.
#[derive(Debug)]
pub(super) struct Groups {
    index: u32,
    wanted: BTreeSet<Ipv6Addr>,
    /// With the socket that joined it.
    joined: BTreeMap<Ipv6Addr, usize>,
    sockets: Vec<(Socket, usize)>,
    /// What is to be joined and left, the last first.
    to_join: Vec<Ipv6Addr>,
    to_leave: Vec<Ipv6Addr>,
    /// When to try again what failed.
    retry: Option<Time>,
}

impl Groups {
    pub(super) fn new(index: u32) -> Self {
        Self {
            index,
            wanted: BTreeSet::new(),
            joined: BTreeMap::new(),
            sockets: Vec::new(),
            to_join: Vec::new(),
            to_leave: Vec::new(),
            retry: None,
        }
    }

    /// These shall be joined.
    pub(super) fn want(&mut self, groups: BTreeSet<Ipv6Addr>) {
        self.wanted = groups;
        self.compare();
    }

    /// Joins and leaves some; whether there are more.
    pub(super) fn step(&mut self, now: Time) -> bool {
        if self.retry.is_some_and(|retry| retry <= now) {
            self.retry = None;
            self.compare();
        }
        for _ in 0..CHANGES_A_ROUND {
            if let Some(group) = self.to_leave.pop() {
                self.leave(group);
            } else if let Some(group) = self.to_join.pop() {
                if let Err(error) = self.join(group) {
                    self.give_up(&error, group, now);
                }
            } else {
                return false;
            }
        }
        true
    }

    /// When [`Self::step`] has something to do.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.retry
    }

    fn compare(&mut self) {
        self.to_leave = self.joined.keys().filter(|group| !self.wanted.contains(*group)).copied().collect();
        self.to_join =
            self.wanted.iter().filter(|group| !self.joined.contains_key(*group)).copied().collect();
    }

    /// Tries again later: what is in the way of one group is in the way of all.
    fn give_up(&mut self, error: &io::Error, group: Ipv6Addr, now: Time) {
        tracing::warn!(
            %error, %group, interface_index = self.index,
            "cannot join the group in which a VIP is asked for; trying again in 10 s. Until then hosts that do not know the \
             VIP yet may not reach it: is IPv6 enabled on the interface?"
        );
        self.to_join = Vec::new();
        self.retry = Some(now + RETRY);
    }

    fn join(&mut self, group: Ipv6Addr) -> io::Result<()> {
        let free = self.sockets.iter().position(|(_, count)| *count < GROUPS_A_SOCKET);
        let at = free.unwrap_or(self.sockets.len());
        if free.is_none() {
            self.sockets.push((Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP))?, 0));
        }
        let (socket, count) = &mut self.sockets[at];
        socket.join_multicast_v6(&group, self.index)?;
        *count += 1;
        self.joined.insert(group, at);
        Ok(())
    }

    fn leave(&mut self, group: Ipv6Addr) {
        if let Some((socket, count)) = self.joined.remove(&group).and_then(|at| self.sockets.get_mut(at)) {
            // Fails only if the interface is gone, and the membership with it.
            let _ = socket.leave_multicast_v6(&group, self.index);
            *count -= 1;
        }
    }
}

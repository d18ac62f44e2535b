//! The solicited-node groups of an interface's VIPs. Joining them opens the interface's filter for their solicitations and makes
//! the kernel report to switches that snoop MLD.
//!
//! A socket whose membership the kernel has dropped (see [`Memberships`]) does not notice that, and ends another's when it leaves.
//! So groups are left, not merely closed, before others join them, and the joined groups are compared with the kernel's list a
//! little later.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use windlass_kernel::sockets::Memberships;
use windlass_vrrp::Time;

#[cfg(test)]
mod tests;

/// Groups joined or left before looking for something more urgent.
const CHANGES_A_ROUND: usize = 32;
/// Groups joined by one socket: their number is limited by net.core.optmem_max (20 KiB on older kernels).
const GROUPS_A_SOCKET: usize = 128;
/// Time until a group is tried again that could not be joined.
const RETRY: Duration = Duration::from_secs(10);
/// Time until the joined groups are compared with the kernel's list; doubled while they differ, up to the longest.
const FIRST_CHECK: Duration = Duration::from_secs(1);
const LONGEST_CHECK: Duration = Duration::from_mins(1);
/// The group of all nodes, in which every interface with IPv6 is.
const ALL_NODES: IpAddr = IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1));

/// The groups of one interface. Left when it is dropped.
#[derive(Debug)]
pub(super) struct Groups {
    index: u32,
    wanted: BTreeSet<Ipv6Addr>,
    /// Joined groups, each with the index of its socket.
    joined: BTreeMap<Ipv6Addr, usize>,
    sockets: Vec<(Socket, usize)>,
    /// Groups to join and to leave, the last first.
    to_join: Vec<Ipv6Addr>,
    to_leave: Vec<Ipv6Addr>,
    /// Time at which a failure is tried again.
    retry: Option<Time>,
    /// Time of the next comparison with the kernel's list, and the interval to the one after it.
    check: Option<Time>,
    check_interval: Duration,
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
            check: None,
            check_interval: FIRST_CHECK,
        }
    }

    /// Sets the groups to join.
    pub(super) fn want(&mut self, groups: BTreeSet<Ipv6Addr>) {
        self.wanted = groups;
        self.compare();
    }

    /// Joins and leaves some groups. Returns true if there are more.
    pub(super) fn step(&mut self, now: Time) -> bool {
        if self.retry.is_some_and(|retry| retry <= now) {
            self.retry = None;
            self.compare();
        }
        if self.check.is_some_and(|check| check <= now) {
            self.check = None;
            self.rejoin_lost(&Memberships::read());
        }
        for _ in 0..CHANGES_A_ROUND {
            if let Some(group) = self.to_leave.pop() {
                self.leave(group);
            } else if let Some(group) = self.to_join.pop() {
                match self.join(group) {
                    Ok(()) => {
                        self.check.get_or_insert(now + self.check_interval);
                    }
                    Err(error) => self.retry_later(&error, group, now),
                }
            } else {
                return false;
            }
        }
        true
    }

    /// Returns the time at which [`Self::step`] has something to do.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.retry.into_iter().chain(self.check).min()
    }

    /// Joins again the groups that the kernel has lost.
    fn rejoin_lost(&mut self, memberships: &Memberships) {
        // Without IPv6 there are no memberships, and new sockets are on their way. Or the kernel does not list them at all.
        if !memberships.contains(self.index, ALL_NODES) {
            return;
        }
        let is_lost = |group: &&Ipv6Addr| !memberships.contains(self.index, IpAddr::V6(**group));
        let lost: Vec<Ipv6Addr> = self.joined.keys().filter(is_lost).copied().collect();
        self.check_interval = if lost.is_empty() {
            FIRST_CHECK
        } else {
            self.check_interval.saturating_mul(2).min(LONGEST_CHECK)
        };
        for group in lost {
            self.leave(group);
            if self.wanted.contains(&group) {
                self.to_join.push(group);
            }
        }
    }

    fn compare(&mut self) {
        self.to_leave = self.joined.keys().filter(|group| !self.wanted.contains(*group)).copied().collect();
        self.to_join =
            self.wanted.iter().filter(|group| !self.joined.contains_key(*group)).copied().collect();
    }

    /// Tries again later: an obstacle to one group is an obstacle to all.
    fn retry_later(&mut self, error: &io::Error, group: Ipv6Addr, now: Time) {
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
        *count = count.saturating_add(1);
        self.joined.insert(group, at);
        Ok(())
    }

    fn leave(&mut self, group: Ipv6Addr) {
        if let Some((socket, count)) = self.joined.remove(&group).and_then(|at| self.sockets.get_mut(at)) {
            // Fails only if the interface is gone, and the membership with it.
            let _ = socket.leave_multicast_v6(&group, self.index);
            *count = count.saturating_sub(1);
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        // Closing the sockets does not do it while a child process that was just forked has them too.
        for group in self.joined.keys().copied().collect::<Vec<_>>() {
            self.leave(group);
        }
    }
}

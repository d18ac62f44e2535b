//! Session with one peer.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use windlass_vrrp::Time;
use windlass_vrrp::replication::{
    Change, Connection, ConnectionKey, Connections, Envelopes, Epoch, Receiver, ReceiverConfig, Sender,
    SenderConfig, Way,
};

use super::plan::{Ends, PeerPlan};
use super::served::Told;
use crate::rate_limit::RateLimiter;
use crate::status::PeerReplication;

#[cfg(test)]
mod tests;

/// Time for which a peer counts as alive after its last datagram: without a sender here it asks for one each five seconds.
const LIVES: Duration = Duration::from_secs(15);

/// Both directions with one peer.
pub(super) struct Session {
    ends: Ends,
    plan: PeerPlan,
    envelopes: Envelopes,
    /// Sends the peer the connections that this node serves, if it is a replica.
    sender: Option<Sender>,
    receiver: Receiver,
    /// VIPs for which this node is Active.
    kept: BTreeSet<IpAddr>,
    /// Time of the last valid datagram from the peer.
    heard: Option<Time>,
    refused: u64,
    told_refusals: RateLimiter<usize>,
    /// The replica that was renewed last, while they are being renewed.
    pub(super) renewed: Option<ConnectionKey>,
    /// Time at which renewing continues.
    pub(super) renewal_due: Time,
    /// True if this renewal gives what this node serves since it has taken over the lifetime of its own connections.
    pub(super) extends: bool,
}

impl Session {
    /// Creates a session without any message yet. `challenge` is drawn for this session alone.
    pub(super) fn new(ends: Ends, challenge: u64, now: Time) -> Self {
        Self {
            ends,
            plan: PeerPlan::default(),
            envelopes: Envelopes::default(),
            sender: None,
            receiver: Receiver::new(challenge, ReceiverConfig::default(), Arc::default(), now),
            kept: BTreeSet::new(),
            heard: None,
            refused: 0,
            told_refusals: RateLimiter::new(),
            renewed: None,
            renewal_due: now,
            extends: false,
        }
    }

    /// Takes the plan, with the VIPs for which this node is Active. Returns the changes for the kernel. `epoch` is for a new
    /// sender: not that of a former one to this peer, which knows greater tickets of it and would take those of this one for old.
    pub(super) fn follow(
        &mut self,
        plan: &PeerPlan,
        active: &BTreeSet<IpAddr>,
        table: &Connections,
        epoch: impl FnOnce() -> Epoch,
        now: Time,
    ) -> Vec<Change> {
        if self.plan.keys != plan.keys {
            self.envelopes = Envelopes::new(plan.keys.clone());
        }
        let told = || Arc::new(plan.told.clone());
        match &mut self.sender {
            Some(sender) if plan.is_replica => {
                if self.plan.told != plan.told {
                    sender.set_vips(told(), table, now);
                }
            }
            sender => {
                *sender = plan.is_replica.then(|| Sender::new(epoch(), SenderConfig::default(), told(), now));
            }
        }
        for vip in active.difference(&self.kept) {
            self.receiver.keep(*vip);
        }
        let mut changes = Vec::new();
        for vip in self.kept.difference(active) {
            changes.extend(self.receiver.release(*vip, now));
        }
        self.kept.clone_from(active);
        if self.plan.believed != plan.believed {
            changes.extend(self.receiver.set_vips(Arc::new(plan.believed.clone()), now));
        }
        self.plan.clone_from(plan);
        changes
    }

    /// Passes changes of what this node serves to the sender; the table has them already.
    pub(super) fn tell(&mut self, told: &[Told], now: Time) {
        let Some(sender) = &mut self.sender else { return };
        for one in told {
            match one {
                Told::Added(connection) => sender.added(connection, now),
                Told::Ended(key) => sender.ended(key, now),
            }
        }
    }

    /// Receives a datagram of the peer. Returns the changes for the kernel.
    pub(super) fn receive(&mut self, datagram: &[u8], now: Time) -> Vec<Change> {
        let way = Way { from: self.ends.peer, to: self.ends.own };
        let opened = self.envelopes.open(datagram, way);
        if opened.is_ok() {
            self.heard = Some(now);
        }
        match opened {
            Ok(message) if message.is_for_sender() => {
                if let Some(sender) = &mut self.sender {
                    sender.receive(&message, now);
                }
                Vec::new()
            }
            Ok(message) => self.receiver.receive(message, now),
            Err(refusal) => {
                // By its kind: a sender that forges datagrams chooses the numbers in it.
                if self.told_refusals.permits(refusal.index(), now) {
                    tracing::warn!(
                        peer = %self.ends.peer,
                        reason = %refusal,
                        "refused a replication datagram from a peer; each kind of reason is logged once a \
                         minute"
                    );
                }
                self.refused = self.refused.saturating_add(1);
                Vec::new()
            }
        }
    }

    /// Begins to renew all replicas, some at a time.
    pub(super) fn renew_from_the_beginning(&mut self, now: Time) {
        (self.renewed, self.renewal_due) = (None, now);
    }

    /// Likewise, and gives what this node has taken over the lifetime of its own.
    pub(super) fn extend_from_the_beginning(&mut self, now: Time) {
        self.extends = true;
        self.renew_from_the_beginning(now);
    }

    /// Sets whether this node's record of what it serves lags behind.
    pub(super) fn set_lagging(&mut self, lags: bool) {
        if let Some(sender) = &mut self.sender {
            sender.set_lagging(lags);
        }
    }

    /// Sets whether the kernel has no room for some of the peers' replicas.
    pub(super) fn set_kernel_full(&mut self, full: bool) {
        self.receiver.set_kernel_full(full);
    }

    /// Handles a time-out. Returns the changes for the kernel.
    pub(super) fn handle_timeout(&mut self, now: Time) -> Vec<Change> {
        self.receiver.handle_timeout(now)
    }

    /// Returns the next datagram for the peer. `answers`: the peer's connections are in the kernel, so that they may be
    /// acknowledged, and more asked for.
    pub(super) fn poll_transmit(&mut self, table: &Connections, answers: bool, now: Time) -> Option<Vec<u8>> {
        let sender = self.sender.as_mut();
        let receiver = Some(&mut self.receiver).filter(|_| answers);
        let message = receiver
            .and_then(|receiver| receiver.poll_transmit(now))
            .or_else(|| sender.and_then(|sender| sender.poll_transmit(table, now)))?;
        Some(self.envelopes.close(message, Way { from: self.ends.own, to: self.ends.peer }))
    }

    /// Returns the time at which it has something to do without a cause.
    pub(super) fn poll_timeout(&self, answers: bool) -> Option<Time> {
        let sender = self.sender.as_ref().map(Sender::poll_timeout);
        let receiver = Some(&self.receiver).filter(|_| answers).and_then(Receiver::poll_timeout);
        sender.into_iter().chain(receiver).min()
    }

    /// Sets how many connections of the peer are taken.
    pub(super) fn set_room(&mut self, entries: usize) {
        self.receiver.set_room(entries);
    }

    /// Gives up the `count` oldest replicas. Returns the changes for the kernel.
    pub(super) fn give_up(&mut self, count: usize) -> Vec<Change> {
        self.receiver.give_up(count)
    }

    /// Returns how often there was no room for a connection of the peer.
    pub(super) fn untaken(&self) -> u64 {
        self.receiver.counters().refused_full
    }

    /// Returns the peer's connections.
    pub(super) fn replicas(&self) -> &Connections {
        self.receiver.connections()
    }

    /// Returns the peer's replica of this connection, if this node is not Active for it.
    pub(super) fn replica(&self, key: &ConnectionKey) -> Option<Connection> {
        self.replicas().get(key).filter(|_| !self.kept.contains(&key.vip.ip()))
    }

    /// Returns the status. `has_all`: the peer's connections are in the kernel.
    pub(super) fn status(&self, has_all: bool, now: Time) -> PeerReplication {
        PeerReplication {
            peer: self.ends.peer,
            own: self.ends.own,
            answers: self.heard.is_some_and(|heard| now < heard + LIVES),
            is_replica: self.sender.is_some(),
            is_full: self.sender.as_ref().is_some_and(Sender::peer_is_full),
            knows_all: self.sender.as_ref().is_some_and(Sender::is_told),
            in_sync: has_all && self.receiver.is_in_sync(now),
            connections: self.replicas().len(),
            untaken: self.untaken(),
            refused: self.refused,
        }
    }
}

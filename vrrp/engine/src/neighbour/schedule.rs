//! Which gratuitous ARP is due, decided without clock or socket.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use windlass_vrrp::Time;

#[cfg(test)]
mod tests;

/// When a burst is repeated, counted from the takeover: hosts and switches may miss the first.
const REPEATS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(5)];
/// From then on: switches forget a station (300 s by default) sooner than hosts and routers an ARP entry.
const REFRESH: Duration = Duration::from_mins(1);
/// Least time between bursts of one router for contention, so that a peer that does not hear us cannot make us storm.
const CONTENTION_PAUSE: Duration = Duration::from_secs(1);
/// Addresses sent before looking for something more urgent.
pub(crate) const BATCH: usize = 32;

/// The announcements of one router's addresses. `K` identifies the router, `V` is what sending needs.
struct Campaign<K, V> {
    key: K,
    via: V,
    addresses: Arc<[Ipv4Addr]>,
    /// First address not yet sent in this burst.
    cursor: usize,
    /// Index into [`REPEATS`]; beyond its end the campaign refreshes.
    step: usize,
    /// Start of step 0.
    started: Time,
    due: Time,
    /// For addresses added later: ends after the repeats, the router's main campaign refreshes them.
    once: bool,
}

/// All campaigns.
pub(crate) struct Schedule<K, V> {
    campaigns: Vec<Campaign<K, V>>,
}

/// What to do next.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Next<V> {
    /// Announce these now, then ask again.
    Send(V, Vec<Ipv4Addr>),
    /// Nothing before this instant.
    Wait(Time),
    /// Nothing at all.
    Idle,
}

impl<K: PartialEq + Clone, V: Clone> Schedule<K, V> {
    pub(crate) fn new() -> Self {
        Self { campaigns: Vec::new() }
    }

    /// The router has become Active: all its addresses, at once.
    pub(crate) fn takeover(&mut self, key: K, via: V, addresses: Arc<[Ipv4Addr]>, now: Time) {
        self.withdraw(&key);
        self.start(key, via, addresses, false, now);
    }

    /// Another router also thought it was Active: all addresses again, at once unless that was just done.
    pub(crate) fn contention(&mut self, key: &K, now: Time) {
        for campaign in self.campaigns.iter_mut().filter(|c| c.key == *key && !c.once) {
            if now.since(campaign.started) >= CONTENTION_PAUSE {
                (campaign.cursor, campaign.step) = (0, 0);
                (campaign.started, campaign.due) = (now, now);
            } else if campaign.cursor == 0 {
                campaign.due = campaign.due.min(now + REPEATS[1]);
            }
        }
    }

    /// The router's addresses are these now; those not announced before are, at once.
    pub(crate) fn update(&mut self, key: &K, all: &Arc<[Ipv4Addr]>, added: &BTreeSet<Ipv4Addr>, now: Time) {
        let Some(main) = self.campaigns.iter_mut().find(|c| c.key == *key && !c.once) else { return };
        main.addresses = Arc::clone(all);
        // A burst that is under way may miss an address that moved below the cursor; the next one has it.
        main.cursor = main.cursor.min(all.len());
        let via = main.via.clone();
        for campaign in self.campaigns.iter_mut().filter(|c| c.key == *key && c.once) {
            campaign.addresses = campaign.addresses.iter().filter(|a| all.contains(a)).copied().collect();
            campaign.cursor = campaign.cursor.min(campaign.addresses.len());
        }
        if !added.is_empty() {
            self.start(key.clone(), via, added.iter().copied().collect(), true, now);
        }
    }

    /// The router is no longer Active: nothing of it any more.
    pub(crate) fn withdraw(&mut self, key: &K) {
        self.campaigns.retain(|campaign| campaign.key != *key);
    }

    /// What is most urgent: the lowest step first, of these the newest.
    pub(crate) fn next(&mut self, now: Time) -> Next<V> {
        let due = self.campaigns.iter_mut().filter(|campaign| campaign.due <= now);
        let Some(campaign) = due.min_by_key(|c| (c.step, std::cmp::Reverse(c.started))) else {
            return self.campaigns.iter().map(|c| c.due).min().map_or(Next::Idle, Next::Wait);
        };
        let end = campaign.addresses.len().min(campaign.cursor + BATCH);
        let batch = campaign.addresses[campaign.cursor..end].to_vec();
        let via = campaign.via.clone();
        campaign.cursor = end;
        if end == campaign.addresses.len() {
            campaign.cursor = 0;
            campaign.step += 1;
            if let Some(offset) = REPEATS.get(campaign.step) {
                campaign.due = campaign.started + *offset;
            } else {
                campaign.step = REPEATS.len();
                campaign.due = now + REFRESH;
            }
        }
        self.campaigns.retain(|campaign| !(campaign.once && campaign.step == REPEATS.len()));
        Next::Send(via, batch)
    }

    fn start(&mut self, key: K, via: V, addresses: Arc<[Ipv4Addr]>, once: bool, now: Time) {
        self.campaigns.push(Campaign {
            key,
            via,
            addresses,
            cursor: 0,
            step: 0,
            started: now,
            due: now,
            once,
        });
    }
}

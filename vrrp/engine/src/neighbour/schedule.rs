//! Decides which announcement is due, without clock or socket.

#![cfg_attr(not(test), expect(clippy::arithmetic_side_effects, reason = "positions in its own lists"))]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use windlass_vrrp::Time;

#[cfg(test)]
mod tests;

/// Times at which a burst is repeated, counted from the takeover: hosts and switches may miss the first.
const REPEATS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(5)];
/// Interval from then on: switches expire a host (300 s by default) sooner than hosts and routers an ARP entry.
const REFRESH: Duration = Duration::from_mins(1);
/// Least time between bursts of one router for contention, so that a peer that does not hear us cannot make us storm.
const CONTENTION_PAUSE: Duration = Duration::from_secs(1);

/// A series of announcements of one router.
struct AnnouncementSeries<K> {
    router: K,
    addresses: Arc<[IpAddr]>,
    /// Frames of an address in one burst: one in each form. All addresses in the first form come before any in the second, so that
    /// no address waits for another's repetition.
    forms: usize,
    /// Frames sent of this burst.
    cursor: usize,
    /// Index into [`REPEATS`]; beyond its end the series refreshes.
    step: usize,
    /// Start of step 0.
    started: Time,
    due: Time,
    /// True once `due` has come.
    ready: bool,
    occasion: Occasion,
}

impl<K> AnnouncementSeries<K> {
    fn frames(&self) -> usize {
        self.addresses.len() * self.forms
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Occasion {
    /// All the router's addresses, for as long as it is Active.
    Takeover,
    /// Addresses added later: ends after the repeats, the takeover's series refreshes them.
    Addition,
    /// One burst, to defend an address.
    Defence,
}

type Serial = u64;

/// All series. `K` identifies the router.
pub(super) struct Schedule<K> {
    all_series: BTreeMap<Serial, AnnouncementSeries<K>>,
    by_router: BTreeSet<(K, Serial)>,
    /// Series whose time has not come.
    waiting: BTreeSet<(Time, Serial)>,
    /// Series with something to send: the lowest step first, of these the newest.
    ready: BTreeSet<(usize, Reverse<Time>, Serial)>,
    next_serial: Serial,
}

/// Frames to send next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct AnnouncementBatch<K> {
    pub(super) router: K,
    /// (address, form).
    pub(super) frames: Vec<(IpAddr, usize)>,
    series: Serial,
}

impl<K: Ord + Copy> Schedule<K> {
    pub(super) fn new() -> Self {
        Self {
            all_series: BTreeMap::new(),
            by_router: BTreeSet::new(),
            waiting: BTreeSet::new(),
            ready: BTreeSet::new(),
            next_serial: 0,
        }
    }

    /// Announces all addresses of a router that has become Active, immediately.
    pub(super) fn takeover(&mut self, router: K, addresses: Arc<[IpAddr]>, forms: usize, now: Time) {
        self.withdraw(router);
        self.start(router, addresses, forms, Occasion::Takeover, now);
    }

    /// Announces all addresses again, because another router also acted as Active: immediately, unless that was just done.
    pub(super) fn contention(&mut self, router: K, now: Time) {
        let Some(serial) = self.main(router) else { return };
        self.change(serial, |series| {
            if now.since(series.started) >= CONTENTION_PAUSE {
                // A burst that is under way goes on, so that its end is reached however often it is contested.
                (series.step, series.started) = (0, now);
                if series.cursor == 0 {
                    (series.due, series.ready) = (now, false);
                }
            } else if series.cursor == 0 {
                series.due = series.due.min(now + REPEATS[1]);
            }
        });
    }

    /// Sets the router's addresses, and announces those not announced before, immediately.
    pub(super) fn update(&mut self, router: K, all: &Arc<[IpAddr]>, added: Vec<IpAddr>, now: Time) {
        let Some(main) = self.main(router) else { return };
        let Some(forms) = self.all_series.get(&main).map(|series| series.forms) else { return };
        // A burst that is under way may miss an address that moved below the cursor; the next one has it.
        self.change(main, |series| series.addresses = Arc::clone(all));
        let kept: BTreeSet<IpAddr> = all.iter().copied().collect();
        for serial in self.serials(router).into_iter().filter(|serial| *serial != main) {
            self.change(serial, |series| {
                series.addresses =
                    series.addresses.iter().filter(|address| kept.contains(address)).copied().collect();
            });
        }
        if !added.is_empty() {
            self.start(router, added.into(), forms, Occasion::Addition, now);
        }
    }

    /// Announces one address once, immediately.
    pub(super) fn defend(&mut self, router: K, address: IpAddr, now: Time) {
        let main = self.main(router).and_then(|serial| self.all_series.get(&serial));
        if let Some(forms) = main.map(|series| series.forms) {
            self.start(router, [address].into(), forms, Occasion::Defence, now);
        }
    }

    /// Ends all announcements of a router that is no longer Active.
    pub(super) fn withdraw(&mut self, router: K) {
        for serial in self.serials(router) {
            self.remove(serial);
        }
    }

    /// Returns up to `limit` frames that are due, of the most urgent router; `None`: nothing is due. To be answered by
    /// [`Self::sent`] or [`Self::postpone`].
    pub(super) fn next(&mut self, now: Time, limit: usize) -> Option<AnnouncementBatch<K>> {
        while let Some((_, serial)) = self.waiting.first().filter(|(due, _)| *due <= now) {
            let serial = *serial;
            self.change(serial, |series| series.ready = true);
        }
        let &(_, _, serial) = self.ready.first()?;
        let series = self.all_series.get(&serial)?;
        let count = series.addresses.len();
        let frames = series.cursor..(series.cursor + limit).min(series.frames());
        let frames = frames.map(|frame| (series.addresses[frame % count], frame / count)).collect();
        Some(AnnouncementBatch { router: series.router, frames, series: serial })
    }

    /// Records that so many frames of this batch were sent, or given up.
    pub(super) fn sent(&mut self, batch: &AnnouncementBatch<K>, frames: usize, now: Time) {
        self.change(batch.series, |series| series.cursor += frames);
        if self.all_series.get(&batch.series).is_some_and(|series| series.cursor >= series.frames()) {
            self.finish_burst(batch.series, now);
        }
    }

    /// Postpones the rest of this batch's series.
    pub(super) fn postpone(&mut self, batch: &AnnouncementBatch<K>, until: Time) {
        self.change(batch.series, |series| (series.due, series.ready) = (until, false));
    }

    /// Returns the time at which there is something to send: past if there is now.
    pub(super) fn deadline(&self) -> Option<Time> {
        if self.ready.is_empty() { self.waiting.first().map(|(due, _)| *due) } else { Some(Time::default()) }
    }

    fn finish_burst(&mut self, serial: Serial, now: Time) {
        let Some(series) = self.all_series.get(&serial) else { return };
        let over = match series.occasion {
            Occasion::Takeover => false,
            Occasion::Addition => series.step + 1 == REPEATS.len(),
            Occasion::Defence => true,
        };
        if over {
            return self.remove(serial);
        }
        self.change(serial, |series| {
            (series.cursor, series.ready) = (0, false);
            series.step = (series.step + 1).min(REPEATS.len());
            series.due = match REPEATS.get(series.step) {
                // A burst of many addresses takes its time: not one after the other without a pause.
                Some(offset) => (series.started + *offset).max(now + REPEATS[1]),
                None => now + REFRESH,
            };
        });
    }

    fn start(&mut self, router: K, addresses: Arc<[IpAddr]>, forms: usize, occasion: Occasion, now: Time) {
        let serial = self.next_serial;
        self.next_serial += 1;
        let (started, due) = (now, now);
        let series = AnnouncementSeries {
            router,
            addresses,
            forms,
            cursor: 0,
            step: 0,
            started,
            due,
            ready: false,
            occasion,
        };
        self.all_series.insert(serial, series);
        self.by_router.insert((router, serial));
        self.waiting.insert((now, serial));
    }

    /// Changes a series and puts it where it then belongs.
    fn change(&mut self, serial: Serial, change: impl FnOnce(&mut AnnouncementSeries<K>)) {
        let Some(series) = self.all_series.get_mut(&serial) else { return };
        self.waiting.remove(&(series.due, serial));
        self.ready.remove(&(series.step, Reverse(series.started), serial));
        change(series);
        series.cursor = series.cursor.min(series.frames());
        if series.ready {
            self.ready.insert((series.step, Reverse(series.started), serial));
        } else {
            self.waiting.insert((series.due, serial));
        }
    }

    fn remove(&mut self, serial: Serial) {
        if let Some(series) = self.all_series.remove(&serial) {
            self.by_router.remove(&(series.router, serial));
            self.waiting.remove(&(series.due, serial));
            self.ready.remove(&(series.step, Reverse(series.started), serial));
        }
    }

    fn serials(&self, router: K) -> Vec<Serial> {
        self.by_router.range((router, 0)..=(router, Serial::MAX)).map(|(_, serial)| *serial).collect()
    }

    fn main(&self, router: K) -> Option<Serial> {
        // It is the first: the others are started while it is there.
        self.by_router.range((router, 0)..=(router, Serial::MAX)).next().map(|(_, serial)| *serial)
    }
}

//! One round of the thread: what is wanted, what is there, what is told.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use windlass_vrrp::Time;

use super::Settings;
use super::address::Addresses;
use super::bindings::Place;
use super::claim::Claim;
use super::guarding::Guarding;
use super::kernel::{Heard, Kernel};
use super::report::{Report, Way};
use super::vmac::{Devices, Obstacle};
use crate::clock;
use crate::config::RouterKey;
use crate::delivery::Sink;
use crate::inbox::Inbox;
use crate::netlink::{NetlinkError, Route};
use crate::restriction::{GuardStatus, Restrictions};

/// Pause after netlink failed.
const RETRY: Duration = Duration::from_millis(100);

/// Why nothing is restricted without a guard.
const NO_GUARD: &str = "the guard is switched off: start the engine with `Options::guard`";

/// The thread's state.
pub(super) struct Holder<'a> {
    net_admin: bool,
    /// Opened when the first router binds addresses.
    kernel: Option<Kernel>,
    addresses: Addresses,
    devices: Devices,
    guarding: Option<Guarding>,
    report: Report<'a>,
}

/// How a round went.
pub(super) struct Round {
    /// What is bound has changed.
    pub(super) news: bool,
    /// Netlink failed: the round is to be repeated.
    pub(super) failed: bool,
    /// There is more to do than one round does.
    pub(super) more: bool,
}

impl<'a> Holder<'a> {
    pub(super) fn new(settings: &Settings, inbox: &'a Inbox, events: &'a Sink) -> Self {
        let addresses = Addresses::new(settings.tag.get());
        let devices = Devices::new(settings.tag.get());
        let report = Report::new(inbox, events);
        let guarding = settings.guard.then(|| Guarding::new(settings.table.clone(), clock::now()));
        Self { net_admin: settings.net_admin, kernel: None, addresses, devices, guarding, report }
    }

    /// Removes what an earlier engine left behind.
    pub(super) fn sweep(&mut self) {
        if !self.net_admin {
            return;
        }
        let swept = Route::open()
            .and_then(|mut route| Ok((self.addresses.sweep(&mut route)?, self.devices.sweep(&mut route)?)));
        match swept {
            Ok((0, 0)) => {}
            Ok((addresses, devices)) => {
                tracing::info!(
                    addresses,
                    devices,
                    "removed VIPs that an earlier engine had left on interfaces"
                );
            }
            Err(error) => tracing::warn!(
                %error,
                "cannot look for VIPs that an earlier engine left on interfaces; they expire by themselves"
            ),
        }
    }

    /// Readable when the kernel has told something.
    pub(super) fn hearing(&self) -> Option<BorrowedFd<'_>> {
        self.kernel.as_ref().map(AsFd::as_fd)
    }

    /// Does what the claims say.
    pub(super) fn round(&mut self, claims: &mut [Claim], restrictions: &Arc<Restrictions>) -> Round {
        if let Some(guarding) = &mut self.guarding {
            guarding.ahead(claims, restrictions, clock::now());
        }
        let outcome = self.settle(claims);
        if let Err(error) = &outcome {
            // What was ordered may or may not have been done: the next round finds out.
            tracing::warn!(%error, "cannot put VIPs on interfaces; trying again");
            self.kernel = None;
        }
        let now = clock::now();
        let keys: BTreeSet<_> = claims.iter().map(|claim| &claim.duty.key).collect();
        self.report.forget(&keys);
        let mut news = false;
        for claim in claims.iter() {
            news |= self.publish(claim, now);
        }
        Round { news, failed: outcome.is_err(), more: outcome.unwrap_or_default() }
    }

    /// Lets go of what is left when the last round has unbound everything.
    pub(super) fn end(&mut self) {
        if let Some(guarding) = &mut self.guarding {
            guarding.end();
        }
    }

    /// What can wait until the others have been told.
    pub(super) fn afterwards(&mut self, claims: &[Claim], restrictions: &Arc<Restrictions>) {
        if let Some(guarding) = &mut self.guarding {
            guarding.afterwards(claims, restrictions, clock::now());
        }
    }

    /// Which restrictions are in force.
    pub(super) fn guard_status(&self) -> GuardStatus {
        let off = || GuardStatus { error: Some(NO_GUARD.to_owned()), ..GuardStatus::default() };
        self.guarding.as_ref().map_or_else(off, Guarding::status)
    }

    /// Until there is something to do without a cause; `None`: never. Renewals that are due soon after one another go together.
    pub(super) fn patience(&self, round: &Round) -> Option<Duration> {
        if round.failed {
            return Some(RETRY);
        }
        if round.more {
            return Some(Duration::ZERO);
        }
        let now = clock::now();
        let guarding = self.guarding.as_ref().map(Guarding::due);
        let own = self.addresses.due(now).into_iter().chain(self.devices.due(now));
        let due = own.chain(self.report.due()).chain(guarding).min();
        due.map(|due| due.since(now).max(self.addresses.breath()))
    }

    /// Whether there is more to do.
    fn settle(&mut self, claims: &mut [Claim]) -> Result<bool, NetlinkError> {
        let needed =
            claims.iter().any(Claim::binds) || !self.addresses.is_empty() || !self.devices.is_empty();
        let kernel = match self.kernel.take() {
            Some(kernel) => kernel,
            None if needed => {
                let mut kernel = Kernel::open()?;
                // From here on the monitor hears of changes: nothing is missed.
                let lost = self.addresses.resync(&mut kernel.route, clock::now())?;
                self.devices.resync(&mut kernel.route)?;
                self.tell_lost(&lost, claims);
                kernel
            }
            None => return Ok(false),
        };
        let kernel = self.kernel.insert(kernel);
        let heard = kernel.hear()?;
        let lost = Self::take(&mut self.addresses, &mut self.devices, kernel, &heard)?;
        let active = |key: &RouterKey| {
            let claim = claims.iter().find(|claim| claim.duty.key == *key);
            claim.is_some_and(|claim| claim.duty.holds(clock::now()))
        };
        self.devices.prepare(claims, &active, &mut kernel.route)?;
        for claim in claims.iter_mut() {
            (claim.device, claim.open) = self.devices.of(claim);
        }
        let now = clock::now();
        let free = |claim: &Claim, place: &Place| {
            let near = claim.contested().find(|near| near.address == place.address);
            near.is_none_or(|near| near == *place || self.addresses.objection(&near, now).is_none())
        };
        let wanted = |claim: &Claim| claim.wanted().filter(|place| free(claim, place)).collect::<Vec<_>>();
        let wanted: BTreeMap<Place, &Claim> = claims
            .iter()
            .flat_map(|claim| wanted(claim).into_iter().map(move |place| (place, claim)))
            .collect();
        let permits = |place: &Place| wanted.get(place).is_some_and(|claim| claim.duty.holds(clock::now()));
        let mut more =
            self.addresses.settle(&wanted.keys().copied().collect(), &permits, &mut kernel.route)?;
        more |= self.devices.release(&mut kernel.route)?;
        // The kernel tells of what was just ordered: taken in at once, it does not wake the thread.
        let heard = kernel.hear()?;
        let lost_since = Self::take(&mut self.addresses, &mut self.devices, kernel, &heard)?;
        self.tell_lost(&lost, claims);
        self.tell_lost(&lost_since, claims);
        Ok(more)
    }

    fn take(
        addresses: &mut Addresses,
        devices: &mut Devices,
        kernel: &mut Kernel,
        heard: &Heard,
    ) -> Result<Vec<Place>, NetlinkError> {
        let now = clock::now();
        if heard.lost {
            devices.resync(&mut kernel.route)?;
            return addresses.resync(&mut kernel.route, now);
        }
        heard.changes.iter().for_each(|change| devices.hear(change));
        Ok(heard.changes.iter().filter_map(|change| addresses.hear(change, now)).collect())
    }

    fn tell_lost(&self, lost: &[Place], claims: &[Claim]) {
        if lost.is_empty() {
            return;
        }
        // Whatever removes one address may have removed thousands.
        let mut by_place: BTreeMap<Place, &Claim> = BTreeMap::new();
        for claim in claims {
            for place in claim.wanted() {
                by_place.entry(place).or_insert(claim);
            }
        }
        for place in lost {
            if let Some(claim) = by_place.get(place) {
                self.report.lost(claim, place.address);
            }
        }
    }

    /// Tells the others what became of a claim. Whether that is another than before.
    fn publish(&mut self, claim: &Claim, now: Time) -> bool {
        if !claim.binds() {
            return false;
        }
        let wanted: BTreeSet<Place> = claim.wanted().collect();
        let held = |place: &&Place| self.addresses.serves(place);
        let in_place: BTreeSet<_> = wanted.iter().filter(held).map(|place| place.address).collect();
        for (place, near) in claim.places().zip(claim.contested()) {
            let objection = self.objection(claim, &near, now);
            let reason = self.addresses.obstacle(&place).or(objection.as_deref());
            self.report.address(claim, place.address, reason.filter(|_| wanted.contains(&place)));
        }
        let way = self.way(claim, &wanted, in_place.is_empty(), now);
        self.report.way(&claim.duty.key, way, now);
        let mut news = claim.duty.set_unicast(self.devices.socket_for(claim));
        if *claim.duty.in_place() != in_place {
            news = true;
            claim.duty.set_in_place(in_place);
        }
        news
    }

    /// Why others on this node keep an address from being bound, on the router's interface or on its device.
    fn objection(&self, claim: &Claim, near: &Place, now: Time) -> Option<String> {
        let on_device = || {
            let place = Place { interface: claim.device?, address: near.address };
            self.addresses.objection(&place, now)
        };
        self.addresses.objection(near, now).or_else(on_device)
    }

    fn way(&self, claim: &Claim, wanted: &BTreeSet<Place>, nothing_held: bool, now: Time) -> Way {
        let objections: Option<Vec<String>> =
            claim.contested().map(|near| self.objection(claim, &near, now)).collect();
        if let Some(first) = objections.into_iter().flatten().next() {
            return Way::Barred(format!("{}: {first}", claim.duty.key));
        }
        match self.devices.obstacle(claim) {
            Some(Obstacle::Missing(reason)) => return Way::Barred(format!("{}: {reason}", claim.duty.key)),
            Some(Obstacle::Closed(reason)) => return Way::Refused(format!("{}: {reason}", claim.duty.key)),
            None => {}
        }
        let refusals: Option<Vec<(Place, &str)>> = wanted
            .iter()
            .map(|place| self.addresses.obstacle(place).map(|reason| (*place, reason)))
            .collect();
        match refusals.as_deref() {
            Some([(place, reason), ..]) if nothing_held => Way::Refused(format!(
                "{}: {} cannot be put on the interface: {reason}",
                claim.duty.key, place.address
            )),
            Some(_) | None => Way::Free,
        }
    }
}

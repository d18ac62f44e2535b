//! One interface: demultiplexes adverts to its routers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use windlass_kernel::clock::{self, Clocks};
use windlass_kernel::sockets::{AdvertFilter, LinkCounters, LinkSockets, ReceiveBuffer, is_empty};
use windlass_vrrp::wire::{self, Datagram, Rejection};
use windlass_vrrp::{AdvertOutcome, Family, Time};

use crate::checks::source_error;
use crate::config::{Hold, RouterConfig};
use crate::event::Event;
use crate::handle::RouterHandle;
use crate::link_state::LinkState;
use crate::rate_limit::RateLimiter;
use crate::status::{LinkStatus, RouterStatus};

use super::backlog::Backlog;
use super::context::{Context, LinkId, RouterId};
use super::heard_peers::HeardPeers;
use super::instance::{Instance, Refusal};
use super::postponed::{self, Interim};
use super::receive_filter::ReceiveFilter;

/// Most packets read from a socket in one round: a flood must not keep own adverts waiting for more than a millisecond.
const BUDGET: usize = 256;
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];
/// Time for which a router stays Active without VIPs after they moved to other routers on this node. A peer that learns of the move later
/// would take them over if the old router resigned or stopped sending. It is as long as a peer that has lost contact with the source of
/// changes takes to find it again.
const EMPTIED_FOR: Duration = Duration::from_secs(20);

/// Configuration to be run once other nodes have taken VIPs away from the routers that keep them until then.
struct Postponed {
    desired: BTreeMap<RouterId, RouterConfig>,
    overlaps: BTreeMap<RouterId, String>,
    /// Routers that keep them, each with the number of the last list received there.
    kept: BTreeMap<RouterId, u64>,
}

pub(super) struct Link {
    id: LinkId,
    name: String,
    /// `None` until the watcher has reported it.
    state: Option<LinkState>,
    routers: BTreeMap<RouterId, Instance>,
    /// By family.
    receive_filters: [ReceiveFilter; 2],
    /// Routers with a VIP that another has, and what is wrong with that.
    overlaps: BTreeMap<RouterId, String>,
    /// Routers that are no longer configured and whose VIPs have moved to others here, and until when each stays Active without any.
    emptied: BTreeMap<RouterId, Time>,
    /// Desired configuration that waits for other nodes.
    postponed: Option<Postponed>,
    /// State of the sockets' queues, by family.
    backlogs: [Backlog; 2],
    foreign_reports: RateLimiter<wire::ForeignRouter>,
    heard_peers: HeardPeers,
    /// Counters of the present sockets, or of the last ones.
    counters: Arc<LinkCounters>,
}

impl Link {
    pub(super) fn new(id: LinkId, name: String, foreign_router_period: Duration) -> Self {
        Self {
            id,
            name,
            state: None,
            routers: BTreeMap::new(),
            receive_filters: Default::default(),
            overlaps: BTreeMap::new(),
            emptied: BTreeMap::new(),
            postponed: None,
            backlogs: [(); 2].map(|()| Backlog::new(0, clock::both())),
            foreign_reports: RateLimiter::with_period(foreign_router_period),
            heard_peers: HeardPeers::default(),
            counters: Arc::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn sockets(&self) -> Option<&Arc<LinkSockets>> {
        usable(self.state.as_ref())
    }

    /// Returns true if it is not wanted and nothing runs on it.
    pub(super) fn is_forgotten(&self) -> bool {
        self.routers.is_empty() && matches!(self.state, Some(LinkState::Unwanted))
    }

    /// Runs exactly these routers but for the `overlaps`, which fail with these reasons. A VIP that another node has in another router
    /// waits there until that node has moved it.
    pub(super) fn apply(
        &mut self,
        desired: BTreeMap<RouterId, RouterConfig>,
        overlaps: BTreeMap<RouterId, String>,
        context: &mut Context<'_>,
    ) {
        self.end_reused(&desired, context);
        let kept = self.postponed.take().map(|postponed| postponed.kept).unwrap_or_default();
        let running = self.routers.iter().map(|(id, instance)| (*id, instance.config())).collect();
        let is_elsewhere = |id: RouterId, address| {
            self.routers.get(&id).is_some_and(|instance| {
                // One that began to take over here goes on where it has begun.
                instance.is_elsewhere(address, desired.contains_key(&id))
                    || kept.contains_key(&id) && instance.is_taking_over()
            })
        };
        let interim = postponed::interim(&desired, &running, is_elsewhere);
        let Some(Interim { routers, kept }) = interim else { return self.run(desired, overlaps, context) };
        self.run(routers, overlaps.clone(), context);
        let lists = |id| self.routers.get(&id).map(|instance| (id, instance.lists()));
        let kept = kept.into_iter().filter_map(lists).collect();
        self.postponed = Some(Postponed { desired, overlaps, kept });
    }

    /// Returns true if [`Self::settle`] has something to do.
    pub(super) fn is_to_settle(&self, now: Time) -> bool {
        self.emptied_until().is_some_and(|until| until <= now) || self.is_free_to_follow()
    }

    /// Ends the routers that have been Active without VIPs for long enough, and runs what was postponed if it need wait no longer.
    pub(super) fn settle(&mut self, context: &mut Context<'_>) {
        self.end_emptied(context);
        if self.is_free_to_follow()
            && let Some(Postponed { desired, overlaps, kept: _ }) = self.postponed.take()
        {
            self.apply(desired, overlaps, context);
        }
    }

    /// Returns true if the postponed configuration need wait no longer.
    fn is_free_to_follow(&self) -> bool {
        let Some(Postponed { kept, .. }) = &self.postponed else { return false };
        let is_free = |(id, lists): (&RouterId, &u64)| {
            self.routers.get(id).is_none_or(|instance| instance.lists() != *lists || instance.has_settled())
        };
        kept.iter().any(is_free)
    }

    fn run(
        &mut self,
        mut desired: BTreeMap<RouterId, RouterConfig>,
        overlaps: BTreeMap<RouterId, String>,
        context: &mut Context<'_>,
    ) {
        let gains = |(id, config): (&RouterId, &RouterConfig)| {
            let known = self.routers.get(id).map(|instance| &instance.config().addresses);
            known.is_none_or(|known| !config.addresses.is_subset(known))
        };
        // With thousands of VIPs it is not looked for where nobody can take one over.
        let served = if desired.iter().any(gains) { self.served() } else { BTreeSet::new() };
        let in_service = self.in_service(&desired, &served);
        let (name, state, emptied) = (&self.name, self.state.as_ref(), &mut self.emptied);
        let (net_admin, now) = (context.net_admin, context.now);
        let some_end = self.routers.keys().any(|id| !desired.contains_key(id));
        let wanted =
            desired.values().filter(|_| some_end).flat_map(|config| config.addresses.iter().copied());
        let wanted: BTreeSet<IpAddr> = wanted.collect();
        emptied.retain(|id, until| !desired.contains_key(id) && now < *until && !wanted.is_empty());
        self.routers.retain(|id, instance| {
            let mut out = context.instance_context(usable(state).map(Arc::as_ref));
            let Some(config) = desired.remove(id) else {
                if emptied.contains_key(id) {
                    return true;
                }
                if instance.serves_any(&wanted) {
                    instance.empty(net_admin, &mut out);
                    emptied.insert(*id, now + EMPTIED_FOR);
                    return true;
                }
                instance.resign(&mut out);
                context.deadlines.remove(instance.timer_id());
                return false;
            };
            // Nothing may be sent from a source that is not there: the obstacle first.
            if let Some(overlap) = overlaps.get(id) {
                instance.step_down(&mut out);
                instance.set_readiness(Err(overlap.clone()), &mut out);
            } else if let Some(Err(error)) = readiness(name, state, &config) {
                instance.set_readiness(Err(error), &mut out);
            }
            instance.reconfigure(config, &served, net_admin, &mut out);
            true
        });
        for (id, config) in desired {
            let timer = context.deadlines.add((self.id, id));
            self.routers.insert(id, Instance::new(config, timer, in_service.contains(&id)));
        }
        self.overlaps = overlaps;
        *context.wake_helpers = true;
        self.update_filters();
        self.update_readiness(context);
    }

    /// Returns when the first of the routers that are Active without VIPs has been so for long enough.
    pub(super) fn emptied_until(&self) -> Option<Time> {
        self.emptied.values().min().copied()
    }

    /// Ends the routers that have been Active without VIPs for long enough.
    fn end_emptied(&mut self, context: &mut Context<'_>) {
        let now = context.now;
        let ended = self.emptied.iter().filter(|(_, until)| **until <= now).map(|(id, _)| *id);
        self.end(ended.collect(), context);
    }

    /// Ends the routers that are Active without VIPs and whose VRID is now that of VIPs that are not served here: above all peers, this
    /// node would take them from the node that serves them.
    fn end_reused(&mut self, desired: &BTreeMap<RouterId, RouterConfig>, context: &mut Context<'_>) {
        if self.emptied.is_empty() {
            return;
        }
        let served = self.served();
        let is_reused =
            |id: &&RouterId| desired.get(*id).is_some_and(|config| !config.addresses.is_subset(&served));
        self.end(self.emptied.keys().filter(is_reused).copied().collect(), context);
    }

    fn end(&mut self, ids: Vec<RouterId>, context: &mut Context<'_>) {
        let some_end = !ids.is_empty();
        for id in ids {
            self.emptied.remove(&id);
            if let Some(mut instance) = self.routers.remove(&id) {
                instance.resign(&mut context.instance_context(usable(self.state.as_ref()).map(Arc::as_ref)));
                context.deadlines.remove(instance.timer_id());
            }
        }
        if some_end {
            self.update_filters();
        }
    }

    /// The VIPs that are answered for here now. What is bound to an interface is handed over by the peers' adverts instead.
    fn served(&self) -> BTreeSet<IpAddr> {
        let responds = |instance: &&Instance| instance.config().hold == Hold::Respond;
        self.routers.values().filter(responds).flat_map(Instance::claimed).collect()
    }

    /// Returns the routers to be started whose VIPs are all `served` here now, by routers that lose them.
    fn in_service(
        &self,
        desired: &BTreeMap<RouterId, RouterConfig>,
        served: &BTreeSet<IpAddr>,
    ) -> BTreeSet<RouterId> {
        let is_new = |(id, config): &(&RouterId, &RouterConfig)| {
            !self.routers.contains_key(id) && !config.addresses.is_empty() && config.hold == Hold::Respond
        };
        let new: Vec<_> = desired.iter().filter(is_new).collect();
        new.into_iter().filter(|(_, config)| config.addresses.is_subset(served)).map(|(id, _)| *id).collect()
    }

    pub(super) fn change_state(&mut self, state: LinkState, context: &mut Context<'_>) {
        let previous = self.state.replace(state);
        let (old, new) = (usable(previous.as_ref()), usable(self.state.as_ref()));
        let same = match (old, new) {
            (None, None) => true,
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (None, Some(_)) | (Some(_), None) => false,
        };
        // Peers, and those who know its VIPs by the old link-layer address, are on the same LAN behind the same interface.
        let stays = old.zip(new).is_some_and(|(old, new)| old.index == new.index);
        if let Some(old) = old.filter(|_| !same) {
            unwatch(old, context);
            self.receive_filters = Default::default();
            if !stays && new.is_some() {
                let replaced = format!("interface {} was replaced by another of its name", self.name);
                let mut out = context.instance_context(None);
                for instance in self.routers.values_mut() {
                    instance.set_readiness(Err(replaced.clone()), &mut out);
                }
            }
        }
        if let Some(new) = new.cloned() {
            self.watch(&new, context);
        }
        self.update_filters();
        self.update_readiness(context);
    }

    /// The hold thread has met an obstacle, or overcome it.
    pub(super) fn set_hold_error(
        &mut self,
        id: RouterId,
        hold_error: Option<String>,
        context: &mut Context<'_>,
    ) {
        if let Some(instance) = self.routers.get_mut(&id) {
            instance.set_hold_error(hold_error);
            self.update_readiness(context);
        }
    }

    /// Returns true if something without which routers do not run was refused, and may be granted later: [`Self::try_again`].
    pub(super) fn is_to_try_again(&self) -> bool {
        self.receive_filters.iter().any(ReceiveFilter::is_refused)
            || self.routers.values().any(Instance::lacks_vrid)
    }

    /// Asks again for what was refused.
    pub(super) fn try_again(&mut self, context: &mut Context<'_>) {
        if let Some(sockets) = self.sockets().cloned() {
            self.watch(&sockets, context);
        }
        self.update_filters();
        self.update_readiness(context);
    }

    /// Begins to read those of these sockets that are not read yet: a family may come later than the other.
    fn watch(&mut self, sockets: &Arc<LinkSockets>, context: &mut Context<'_>) {
        for family in FAMILIES {
            let Ok(raw) = sockets.family(family) else { continue };
            if self.receive_filters[index(family)].is_polled() {
                continue;
            }
            // What came before is old: no router was running.
            let began = clock::both();
            raw.adverts.discard();
            self.backlogs[index(family)] = Backlog::new(raw.adverts.capacity(), began);
            let answer = context.poller.add(raw.adverts.descriptor(), self.id.token(family));
            self.receive_filters[index(family)].polled(answer.map_err(|error| {
                format!(
                    "interface {}: adverts for {family} cannot be waited for: {error}; tried again each second. If no \
                     space is left, raise fs.epoll.max_user_watches",
                    self.name
                )
            }));
        }
        if !Arc::ptr_eq(&sockets.counters, &self.counters) {
            sockets.counters.inherit(&self.counters);
            self.counters = Arc::clone(&sockets.counters);
        }
    }

    /// Has the kernel sort adverts by the routers there are and their candidates.
    fn update_filters(&mut self) {
        let Some(sockets) = usable(self.state.as_ref()) else { return };
        for family in FAMILIES {
            let Ok(raw) = sockets.family(family) else { continue };
            let own = own_adverts(family, &self.routers);
            let receive_filter = &mut self.receive_filters[index(family)];
            // Compiling filters takes longer than sending an advert.
            if receive_filter.passes_exactly(&own) {
                continue;
            }
            // Where the kernel has no room for the sources, strangers are heard, too, and not obeyed.
            let answer = raw.sort(family, &own).or_else(|_| raw.sort(family, &own.with_any_source()));
            receive_filter.filtered(
                own,
                answer.map_err(|error| {
                    format!(
                        "interface {}: adverts for {family} cannot be sorted by VRID: {error}; tried again each second. If \
                         memory is lacking, raise net.core.optmem_max",
                        self.name
                    )
                }),
            );
        }
    }

    /// Starts and stops routers according to what the interface can do.
    fn update_readiness(&mut self, context: &mut Context<'_>) {
        let (name, state) = (&self.name, self.state.as_ref());
        for (id, instance) in &mut self.routers {
            instance.claim_vrid(context.events);
            let hearing = self.receive_filters[index(id.0)].hears(id.1, &instance.config().peers);
            let config_error =
                instance.config_error(context.net_admin).or_else(|| self.overlaps.get(id).cloned());
            let readiness = match (config_error, readiness(name, state, instance.config()), hearing) {
                (Some(reason), _, _) | (None, Some(Ok(())), Some(Err(reason))) => {
                    instance.step_down(&mut context.instance_context(usable(state).map(Arc::as_ref)));
                    Some(Err(reason))
                }
                (None, Some(Ok(())), hearing) => hearing,
                (None, readiness, _) => readiness,
            };
            instance.use_sockets(usable(state));
            if let Some(LinkState::Usable { sources, .. }) = state {
                instance.report_own_addresses(&sources.usable, context.events);
            }
            if let Some(readiness) = readiness {
                instance
                    .set_readiness(readiness, &mut context.instance_context(usable(state).map(Arc::as_ref)));
            }
            context.deadlines.set(instance.timer_id(), instance.deadline());
        }
    }

    /// A router's timer has fired; when it was due, unless it is put off to `later` because the advert that it misses may
    /// wait to be read.
    pub(super) fn handle_timeout(
        &mut self,
        id: RouterId,
        later: Time,
        context: &mut Context<'_>,
    ) -> Option<Time> {
        let read_through = self.backlogs[index(id.0)].read_through(context.now);
        let instance = self.routers.get_mut(&id)?;
        let due = instance.deadline();
        if due.is_some_and(|due| !instance.is_active() && due > read_through) {
            context.deadlines.set(instance.timer_id(), Some(later));
            return None;
        }
        let mut out = context.instance_context(usable(self.state.as_ref()).map(Arc::as_ref));
        instance.handle_timeout(&self.heard_peers, &mut out);
        // Never twice in one round, whatever it wants.
        context.deadlines.set(instance.timer_id(), instance.deadline().map(|due| due.max(later)));
        due
    }

    /// Reads the adverts that have arrived.
    pub(super) fn receive_adverts(
        &mut self,
        family: Family,
        buffer: &mut ReceiveBuffer,
        context: &mut Context<'_>,
    ) {
        let Some(sockets) = self.sockets().cloned() else { return };
        let Ok(raw) = sockets.family(family) else { return };
        let began = Clocks { now: context.now, ..clock::both() };
        for _ in 0..BUDGET {
            match raw.adverts.receive(buffer) {
                Ok(Ok(datagram)) => self.handle_datagram(&sockets, &datagram, context),
                Ok(Err(rejection)) => sockets.counters.count_rejected(rejection),
                Err(error) if is_empty(&error) => {
                    return self.backlogs[index(family)].emptied(began);
                }
                // Another error (as: the interface went down) is taken from the socket by reading it.
                Err(_) => {}
            }
        }
        let backlog = &mut self.backlogs[index(family)];
        match raw.adverts.next_stamp(buffer) {
            // Told by this alone: a socket that is empty is not read in the next round.
            Err(error) if is_empty(&error) => backlog.emptied(began),
            Err(_) => backlog.read(BUDGET, began),
            Ok(stamp) => {
                backlog.read(BUDGET, began);
                if let Some(stamp) = stamp {
                    backlog.next_is_of(stamp, clock::both());
                }
            }
        }
    }

    fn handle_datagram(&mut self, sockets: &LinkSockets, datagram: &Datagram<'_>, context: &mut Context<'_>) {
        let family = Family::of(datagram.source);
        let routers = &self.routers;
        let is_foreign = match wire::parse(datagram, |vrid| {
            routers.get(&(family, vrid)).map(Instance::expected_advert)
        }) {
            Ok(packet) => {
                let Some(instance) = self.routers.get_mut(&(family, packet.vrid)) else { return };
                let group = instance.config().group().filter(|_| !packet.unicast);
                let outcome = instance.handle_advert(&packet, &mut context.instance_context(Some(sockets)));
                context.deadlines.set(instance.timer_id(), instance.deadline());
                match outcome {
                    Ok(AdvertOutcome::NotAPeer) => true,
                    Ok(AdvertOutcome::OwnAddress) => false,
                    Ok(
                        AdvertOutcome::Obeyed
                        | AdvertOutcome::Inferior
                        | AdvertOutcome::IntervalMismatch
                        | AdvertOutcome::Superseded
                        | AdvertOutcome::Asked
                        | AdvertOutcome::NotRunning,
                    ) => {
                        if let Some(group) = group {
                            self.heard_peers.note(packet.source, group, context.now);
                        }
                        false
                    }
                    Err(Refusal::Unauthentic(error)) => return sockets.counters.count_unauthenticated(error),
                    Err(Refusal::NotRecognised) => return,
                }
            }
            Err(rejection) => {
                sockets.counters.count_rejected(rejection);
                matches!(
                    rejection,
                    Rejection::UnknownVrid(_) | Rejection::Version(_) | Rejection::Length { .. }
                )
            }
        };
        let Some(foreign) = wire::foreign_router(datagram).filter(|_| is_foreign) else { return };
        sockets.counters.count_foreign();
        if self.foreign_reports.permits(foreign, context.now) {
            context.events.push(Event::foreign_router(&self.name, foreign, datagram));
        }
    }

    pub(super) fn handles(&self) -> impl Iterator<Item = Arc<RouterHandle>> + '_ {
        self.routers.values().map(|instance| Arc::clone(instance.handle()))
    }

    pub(super) fn router_statuses(&self) -> impl Iterator<Item = RouterStatus> + '_ {
        self.routers.values().map(Instance::status)
    }

    pub(super) fn status(&self) -> LinkStatus {
        LinkStatus {
            interface: self.name.clone(),
            error: match &self.state {
                None | Some(LinkState::Usable { .. } | LinkState::Unwanted) => None,
                Some(LinkState::Unusable(reason)) => Some(reason.clone()),
            },
            rejected: self.counters.rejected().filter(|(_, count)| *count > 0).collect(),
            foreign_adverts: self.counters.foreign_adverts(),
        }
    }
}

/// Adverts of these routers of a family, from their candidates, and from this node's own addresses, which are reported.
fn own_adverts(family: Family, routers: &BTreeMap<RouterId, Instance>) -> AdvertFilter {
    let of_family = || routers.iter().filter(|((of, _), _)| *of == family);
    let candidates = |(_, instance)| {
        let RouterConfig { source, peers, .. } = Instance::config(instance);
        peers.iter().chain([source]).copied()
    };
    let filter = AdvertFilter::new(
        of_family().map(|((_, vrid), _)| *vrid).collect(),
        of_family().flat_map(candidates),
    );
    // Who is recognised by its adverts has to be heard first.
    let recognises = of_family().any(|(_, instance)| instance.config().recognise_peers);
    if recognises { filter.with_any_source() } else { filter }
}

fn index(family: Family) -> usize {
    match family {
        Family::V4 => 0,
        Family::V6 => 1,
    }
}

/// No longer reads these sockets.
fn unwatch(sockets: &LinkSockets, context: &mut Context<'_>) {
    for raw in sockets.families() {
        context.poller.remove(raw.adverts.descriptor());
    }
}

/// Returns whether this router can run, or the reason why not; `None` while that is not known.
fn readiness(name: &str, state: Option<&LinkState>, config: &RouterConfig) -> Option<Result<(), String>> {
    match state? {
        LinkState::Usable { sources, sockets } => {
            if let Some(error) = source_error(name, config.source, sources) {
                return Some(Err(error));
            }
            if let Err(reason) = sockets.family(config.family()) {
                return Some(Err(reason));
            }
            config.group().map_or(Some(Ok(())), |group: IpAddr| sockets.hears(group))
        }
        LinkState::Unusable(reason) => Some(Err(reason.clone())),
        // Wanted again a moment after it was let go: the watcher is about to say more.
        LinkState::Unwanted => None,
    }
}

fn usable(state: Option<&LinkState>) -> Option<&Arc<LinkSockets>> {
    match state? {
        LinkState::Usable { sockets, .. } => Some(sockets),
        LinkState::Unusable(_) | LinkState::Unwanted => None,
    }
}

//! The thread `windlass-vrrp`: waits for packets and deadlines and lets the state machines decide.
//!
//! A round: wait; note the time; ask the kernel again which sockets are not empty; read these, within a budget; act on the
//! deadlines that have passed; wake the helper threads; take commands; deliver events. Reading adverts before acting on
//! deadlines, in this order, is what keeps a thread that was held up from taking over from an Active that was not silent;
//! a queue that could not be read to its end is taken into account, see [`backlog`]. Sending own adverts waits for nothing.
//!
//! Nothing is allocated for an advert, sent or received (but for the first signed one of a peer, and for one with a longer list of VIPs),
//! or for a timer; and no lock is waited for: threads exchange state through atomics, an inbox that is only tried, and wakers.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use windlass_kernel::clock;
use windlass_kernel::sockets::ReceiveBuffer;
use windlass_vrrp::Time;

use crate::config::{RouterConfig, RouterKey};
use crate::event::Event;
use crate::event_queue::EventSender;
use crate::faults;
use crate::handle::SharedState;
use crate::inbox::{Inbox, StatusReport};
use crate::lateness::LatenessMeter;

mod backlog;
mod context;
mod deadlines;
mod fault_reports;
mod heard_adverts;
mod heard_peers;
mod heartbeat;
pub(crate) mod holding_plan;
mod instance;
mod link;
mod peer_authentication;
mod poller;
mod postponed;
pub(crate) mod predecessor;
mod prepared;
mod receive_filter;
mod recognised;
#[cfg(test)]
mod tests;

use context::{Context, LinkId, RouterId};
use deadlines::Deadlines;
use heartbeat::Heartbeat;
use link::Link;
use poller::Poller;

/// Token of the inbox's waker; those of links' sockets are above.
const WAKER: u64 = 0;
/// Until a Backup's deadline is looked at again that passed while adverts waited to be read.
const RECHECK_DELAY: Duration = Duration::from_micros(20);
/// Until the kernel is asked again for what it refused.
const RETRY: Duration = Duration::from_secs(1);

/// The thread's state.
pub(crate) struct Core {
    links: BTreeMap<LinkId, Link>,
    next_link: LinkId,
    deadlines: Deadlines<(LinkId, RouterId)>,
    poller: Poller,
    /// Time of the next attempt at what the kernel refused.
    retry: Option<Time>,
    shared: Arc<SharedState>,
    inbox: Arc<Inbox>,
    lateness: Arc<LatenessMeter>,
    heartbeat: Heartbeat,
    /// True if the process may put addresses on interfaces.
    net_admin: bool,
    /// Minimum time between two reports of the same foreign router.
    foreign_router_period: Duration,
    buffer: ReceiveBuffer,
    /// Router handles have changed in this round.
    wake_helpers: bool,
    /// Events of this round, delivered at its end, after everything was sent.
    events: Vec<Event>,
    event_sender: EventSender,
}

impl Core {
    pub(crate) fn new(
        shared: Arc<SharedState>,
        inbox: Arc<Inbox>,
        event_sender: EventSender,
        lateness: Arc<LatenessMeter>,
        net_admin: bool,
        foreign_router_period: Duration,
    ) -> io::Result<Self> {
        let mut poller = Poller::new()?;
        poller.add(inbox.waker(), WAKER)?;
        Ok(Self {
            links: BTreeMap::new(),
            next_link: LinkId::FIRST,
            deadlines: Deadlines::new(),
            poller,
            retry: None,
            shared,
            inbox,
            lateness,
            heartbeat: Heartbeat::default(),
            net_admin,
            foreign_router_period,
            buffer: ReceiveBuffer::new(),
            wake_helpers: false,
            events: Vec::new(),
            event_sender,
        })
    }

    /// Body of the thread. Returns on the stop command, after every router has resigned.
    pub(crate) fn run(mut self) {
        while !self.round() {
            faults::round();
        }
    }

    /// Runs one round. Returns true if the thread is to stop.
    fn round(&mut self) -> bool {
        let deadline = self.deadlines.first().map(|(due, _)| due);
        let emptied = self.links.values().filter_map(Link::emptied_until);
        let others = self.retry.into_iter().chain(self.heartbeat.due());
        let now = self.poller.wait(deadline.into_iter().chain(others).chain(emptied).min());
        if let Some(late) = self.heartbeat.act(now) {
            self.lateness.note(late);
        }
        let woken = self.receive(now);
        self.act_on_deadlines(now);
        self.settle_routers(now);
        if self.retry.is_some_and(|due| due <= now) {
            self.try_again(now);
        }
        if std::mem::take(&mut self.wake_helpers) {
            self.shared.wake();
        }
        let stop = woken && self.handle_commands();
        for event in self.events.drain(..) {
            self.event_sender.send(event);
        }
        stop
    }

    /// Reads the sockets that are not empty. Returns true if there are commands.
    fn receive(&mut self, now: Time) -> bool {
        let mut woken = false;
        let mut number = 0_usize;
        while let Some(token) = self.poller.ready(number) {
            number = number.saturating_add(1);
            woken |= token == WAKER;
            let Some((id, family)) = context::socket_of(token) else { continue };
            let (links, buffer, mut context) = self.parts(now);
            if let Some(link) = links.get_mut(&id) {
                link.receive_adverts(family, buffer, &mut context);
            }
        }
        woken
    }

    fn act_on_deadlines(&mut self, now: Time) {
        while let Some((due, (link_id, id))) = self.deadlines.first()
            && due <= now
        {
            let (links, _, mut context) = self.parts(now);
            let acted = links
                .get_mut(&link_id)
                .and_then(|link| link.handle_timeout(id, now + RECHECK_DELAY, &mut context));
            if let Some(due) = acted {
                self.lateness.note(clock::now().since(due));
            }
        }
    }

    /// Ends routers that were left for long enough, and starts those that waited for other nodes.
    fn settle_routers(&mut self, now: Time) {
        if !self.links.values().any(|link| link.is_to_settle(now)) {
            return;
        }
        let (links, _, mut context) = self.parts(now);
        for link in links.values_mut() {
            link.settle(&mut context);
        }
        self.shared.publish(self.links.values().flat_map(Link::handles).collect());
    }

    /// Asks the kernel again for what it refused.
    fn try_again(&mut self, now: Time) {
        let (links, _, mut context) = self.parts(now);
        for link in links.values_mut().filter(|link| link.is_to_try_again()) {
            link.try_again(&mut context);
        }
        self.retry = self.links.values().any(Link::is_to_try_again).then(|| now + RETRY);
    }

    /// Carries out the commands of other threads. Returns true if the thread is to stop.
    fn handle_commands(&mut self) -> bool {
        let commands = self.inbox.take();
        let stop = commands.stop;
        let links_changed = !commands.links.is_empty();
        for name in commands.listen.unwrap_or_default() {
            self.link_id(&name);
        }
        if let Some(desired) = commands.desired.filter(|_| !stop) {
            self.apply(desired, commands.overlaps);
        }
        for (name, state) in commands.links {
            self.with_link(&name, |link, context| link.change_state(state, context));
        }
        for (key, hold_error) in commands.hold_errors {
            self.with_link(&key.interface, |link, context| {
                link.set_hold_error((key.family, key.vrid), hold_error, context);
            });
        }
        if stop {
            // The router handles stay with the helper threads: what is bound is still to be handed over.
            self.apply(Vec::new(), BTreeMap::new());
            self.shared.wake();
        }
        self.links.retain(|_, link| !link.is_forgotten());
        if self.retry.is_none() && self.links.values().any(Link::is_to_try_again) {
            self.retry = Some(clock::now() + RETRY);
        }
        if links_changed {
            self.shared.publish_links(self.links.values().filter_map(|l| l.sockets().cloned()).collect());
        }
        if std::mem::take(&mut self.wake_helpers) && !stop {
            self.shared.publish(self.links.values().flat_map(Link::handles).collect());
        }
        for request in commands.status_requests {
            request.answer(self.status_report());
        }
        stop
    }

    /// Runs exactly these routers but for the `overlaps`, which fail with these reasons.
    fn apply(&mut self, desired: Vec<RouterConfig>, overlaps: BTreeMap<RouterKey, String>) {
        let mut overlaps_by_link: BTreeMap<String, BTreeMap<RouterId, String>> = BTreeMap::new();
        for (RouterKey { interface, family, vrid }, overlap) in overlaps {
            overlaps_by_link.entry(interface).or_default().insert((family, vrid), overlap);
        }
        let shortest = desired.iter().map(|config| config.interval.duration()).min();
        self.heartbeat.follow(shortest, clock::now());
        let mut by_link: BTreeMap<String, BTreeMap<RouterId, RouterConfig>> = BTreeMap::new();
        for config in desired {
            let id = (config.family(), config.vrid);
            by_link.entry(config.interface.clone()).or_default().insert(id, config);
        }
        let known = self.links.values().map(|link| link.name().to_owned());
        let names: BTreeSet<String> = known.chain(by_link.keys().cloned()).collect();
        for name in names {
            let routers = by_link.remove(&name).unwrap_or_default();
            let overlaps = overlaps_by_link.remove(&name).unwrap_or_default();
            self.with_link(&name, |link, context| link.apply(routers, overlaps, context));
        }
    }

    fn with_link(&mut self, name: &str, act: impl FnOnce(&mut Link, &mut Context<'_>)) {
        let id = self.link_id(name);
        let (links, _, mut context) = self.parts(clock::now());
        if let Some(link) = links.get_mut(&id) {
            act(link, &mut context);
        }
    }

    /// The links, room to receive, and what a link has of the thread while it is at work.
    fn parts(&mut self, now: Time) -> (&mut BTreeMap<LinkId, Link>, &mut ReceiveBuffer, Context<'_>) {
        let Self { links, buffer, poller, deadlines, net_admin, wake_helpers, events, .. } = self;
        (links, buffer, Context { now, net_admin: *net_admin, events, wake_helpers, deadlines, poller })
    }

    /// The link of this name, made if it is new.
    fn link_id(&mut self, name: &str) -> LinkId {
        if let Some((id, _)) = self.links.iter().find(|(_, link)| link.name() == name) {
            return *id;
        }
        let id = self.next_link;
        self.next_link = id.next();
        self.links.insert(id, Link::new(id, name.to_owned(), self.foreign_router_period));
        id
    }

    fn status_report(&self) -> StatusReport {
        let mut links: Vec<&Link> = self.links.values().collect();
        links.sort_by_key(|link| link.name());
        StatusReport {
            routers: links.iter().flat_map(|link| link.router_statuses()).collect(),
            links: links.iter().map(|link| link.status()).collect(),
        }
    }
}

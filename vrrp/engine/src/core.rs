//! The thread `windlass-vrrp`: waits for packets and deadlines and lets the state machines decide.
//!
//! A round: wait; note the time; ask the kernel again which sockets are not empty; read these, within a budget; act on the
//! deadlines that have passed; wake the helper threads; take orders; deliver events. Reading adverts before believing
//! deadlines, in this order, is what keeps a thread that was held up from taking over from an Active that was not silent;
//! a queue that could not be read to its end is taken into account, see [`backlog`]. Sending own adverts waits for nothing.
//!
//! Nothing is allocated for an advert, sent or received (but for the first signed one of a peer), or for a timer; and no lock
//! is waited for: what other threads are told and tell goes through atomics, an inbox that is only tried, and bells.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use windlass_vrrp::Time;

use crate::clock;
use crate::config::{RouterConfig, RouterKey};
use crate::delivery::Sink;
use crate::duty::Roster;
use crate::event::Event;
use crate::inbox::{Answer, Inbox};
use crate::lateness::LatenessMeter;
use crate::sockets::Room;

mod backlog;
mod context;
mod deadlines;
mod ears;
mod grievances;
mod instance;
mod link;
mod poller;
pub(crate) mod predecessor;
mod prepared;
#[cfg(test)]
mod tests;
mod trust;

use context::{Context, Id, LinkId};
use deadlines::Deadlines;
use link::Link;
use poller::Poller;

/// Token of the inbox's bell; those of links' sockets are above.
const BELL: u64 = 0;
/// Until a Backup's deadline is looked at again that passed while adverts waited to be read.
const AGAIN: Duration = Duration::from_micros(20);
/// Until the kernel is asked again for what it refused.
const RETRY: Duration = Duration::from_secs(1);

/// The thread's state.
pub(crate) struct Core {
    links: BTreeMap<LinkId, Link>,
    next_link: LinkId,
    deadlines: Deadlines<(LinkId, Id)>,
    poller: Poller,
    /// When to ask the kernel again for what it refused.
    retry: Option<Time>,
    roster: Arc<Roster>,
    inbox: Arc<Inbox>,
    lateness: Arc<LatenessMeter>,
    /// Whether the process may put addresses on interfaces.
    net_admin: bool,
    room: Room,
    /// Duties have changed in this round.
    ring: bool,
    /// Events of this round, delivered at its end, after everything was sent.
    events: Vec<Event>,
    sink: Sink,
}

impl Core {
    pub(crate) fn new(
        roster: Arc<Roster>,
        inbox: Arc<Inbox>,
        sink: Sink,
        lateness: Arc<LatenessMeter>,
        net_admin: bool,
    ) -> io::Result<Self> {
        let mut poller = Poller::new()?;
        poller.add(inbox.bell(), BELL)?;
        Ok(Self {
            links: BTreeMap::new(),
            next_link: LinkId::FIRST,
            deadlines: Deadlines::new(),
            poller,
            retry: None,
            roster,
            inbox,
            lateness,
            net_admin,
            room: Room::new(),
            ring: false,
            events: Vec::new(),
            sink,
        })
    }

    /// The thread's body; returns when told to stop, after every router has resigned.
    pub(crate) fn run(mut self) {
        while !self.round() {}
    }

    /// Waits and does what there is; whether to stop.
    fn round(&mut self) -> bool {
        let deadline = self.deadlines.first().map(|(due, _)| due);
        let now = self.poller.wait(deadline.into_iter().chain(self.retry).min());
        let rung = self.receive(now);
        self.act_on_deadlines(now);
        if self.retry.is_some_and(|due| due <= now) {
            self.listen_again(now);
        }
        if std::mem::take(&mut self.ring) {
            self.roster.ring();
        }
        let stop = rung && self.read_letters();
        for event in self.events.drain(..) {
            self.sink.tell(event);
        }
        stop
    }

    /// Reads the sockets that are not empty; whether there are letters.
    fn receive(&mut self, now: Time) -> bool {
        let mut rung = false;
        let mut number = 0;
        while let Some(token) = self.poller.ready(number) {
            number += 1;
            rung |= token == BELL;
            let Some((id, family)) = context::addressee(token) else { continue };
            let (links, room, mut context) = self.parts(now);
            if let Some(link) = links.get_mut(&id) {
                link.receive_adverts(family, room, &mut context);
            }
        }
        rung
    }

    fn act_on_deadlines(&mut self, now: Time) {
        while let Some((due, (link_id, id))) = self.deadlines.first()
            && due <= now
        {
            let (links, _, mut context) = self.parts(now);
            let acted =
                links.get_mut(&link_id).and_then(|link| link.handle_timeout(id, now + AGAIN, &mut context));
            if let Some(due) = acted {
                self.lateness.note(clock::now().since(due));
            }
        }
    }

    /// Asks the kernel again for what it refused.
    fn listen_again(&mut self, now: Time) {
        let (links, _, mut context) = self.parts(now);
        for link in links.values_mut().filter(|link| link.is_deaf()) {
            link.listen_again(&mut context);
        }
        self.retry = self.links.values().any(Link::is_deaf).then(|| now + RETRY);
    }

    /// Does what other threads ask for; whether to stop.
    fn read_letters(&mut self) -> bool {
        let letters = self.inbox.take();
        let stop = letters.stop;
        let relinked = !letters.links.is_empty();
        for name in letters.census.unwrap_or_default() {
            self.link_id(&name);
        }
        if let Some(desired) = letters.desired.filter(|_| !stop) {
            self.apply(desired, letters.disputes);
        }
        for (name, state) in letters.links {
            self.with_link(&name, |link, context| link.change_state(state, context));
        }
        for (key, obstacle) in letters.obstacles {
            self.with_link(&key.interface, |link, context| {
                link.obstruct((key.family, key.vrid), obstacle, context);
            });
        }
        if stop {
            // The duties stay with the helper threads: what is bound is still to be handed over.
            self.apply(Vec::new(), BTreeMap::new());
            self.roster.ring();
        }
        self.links.retain(|_, link| !link.is_forgotten());
        if self.retry.is_none() && self.links.values().any(Link::is_deaf) {
            self.retry = Some(clock::now() + RETRY);
        }
        if relinked {
            self.roster.publish_links(self.links.values().filter_map(|l| l.sockets().cloned()).collect());
        }
        if std::mem::take(&mut self.ring) && !stop {
            self.roster.publish(self.links.values().flat_map(Link::duties).collect());
        }
        for question in letters.questions {
            question.answer(self.answer());
        }
        stop
    }

    /// Runs exactly these routers but for the `disputes`, which fail with these reasons.
    fn apply(&mut self, desired: Vec<RouterConfig>, disputes: BTreeMap<RouterKey, String>) {
        let mut disputes_by_link: BTreeMap<String, BTreeMap<Id, String>> = BTreeMap::new();
        for (RouterKey { interface, family, vrid }, dispute) in disputes {
            disputes_by_link.entry(interface).or_default().insert((family, vrid), dispute);
        }
        let mut by_link: BTreeMap<String, BTreeMap<Id, RouterConfig>> = BTreeMap::new();
        for config in desired {
            let id = (config.family(), config.vrid);
            by_link.entry(config.interface.clone()).or_default().insert(id, config);
        }
        let known = self.links.values().map(|link| link.name().to_owned());
        let names: BTreeSet<String> = known.chain(by_link.keys().cloned()).collect();
        for name in names {
            let routers = by_link.remove(&name).unwrap_or_default();
            let disputes = disputes_by_link.remove(&name).unwrap_or_default();
            self.with_link(&name, |link, context| link.apply(routers, disputes, context));
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
    fn parts(&mut self, now: Time) -> (&mut BTreeMap<LinkId, Link>, &mut Room, Context<'_>) {
        let Self { links, room, poller, deadlines, net_admin, ring, events, .. } = self;
        (links, room, Context { now, net_admin: *net_admin, events, ring, deadlines, poller })
    }

    /// The link of this name, made if it is new.
    fn link_id(&mut self, name: &str) -> LinkId {
        if let Some((id, _)) = self.links.iter().find(|(_, link)| link.name() == name) {
            return *id;
        }
        let id = self.next_link;
        self.next_link = id.next();
        self.links.insert(id, Link::new(id, name.to_owned()));
        id
    }

    fn answer(&self) -> Answer {
        let mut links: Vec<&Link> = self.links.values().collect();
        links.sort_by_key(|link| link.name());
        Answer {
            routers: links.iter().flat_map(|link| link.router_statuses()).collect(),
            links: links.iter().map(|link| link.status()).collect(),
        }
    }
}

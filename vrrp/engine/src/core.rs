//! The thread `windlass-vrrp`: waits for packets and deadlines and lets the state machines decide.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::sync::Arc;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::clock;
use crate::config::RouterConfig;
use crate::duty::Roster;
use crate::event::{Event, Sink};
use crate::inbox::{Answer, Inbox};
use crate::sockets::Room;

mod instance;
mod link;
mod prepared;

use link::{Context, Id, Link};

/// The thread's state.
pub(crate) struct Core {
    links: BTreeMap<String, Link>,
    roster: Arc<Roster>,
    inbox: Arc<Inbox>,
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
    pub(crate) fn new(roster: Arc<Roster>, inbox: Arc<Inbox>, sink: Sink, net_admin: bool) -> Self {
        let (links, room) = (BTreeMap::new(), Room::new());
        Self { links, roster, inbox, net_admin, room, ring: false, events: Vec::new(), sink }
    }

    /// The thread's body; returns when told to stop, after every router has resigned.
    pub(crate) fn run(mut self) {
        loop {
            self.wait();
            // Adverts that came while we did not run come before the timers: the Active may not have been silent.
            let Self { links, net_admin, ring, events, room, .. } = &mut self;
            let mut context = Context { now: clock::now(), net_admin: *net_admin, events, ring };
            for link in links.values_mut() {
                link.receive_adverts(room, &mut context);
            }
            context.now = clock::now();
            for link in links.values_mut() {
                link.handle_timeouts(&mut context);
            }
            if std::mem::take(&mut self.ring) {
                self.roster.ring();
            }
            let stop = self.read_letters();
            for event in self.events.drain(..) {
                self.sink.tell(event);
            }
            if stop {
                return;
            }
        }
    }

    /// Waits for a packet, a letter or the next deadline.
    fn wait(&self) {
        let deadline = self.links.values().filter_map(Link::deadline).min();
        let mut descriptors = vec![PollFd::new(self.inbox.bell(), PollFlags::POLLIN)];
        for link in self.links.values() {
            let sockets = link.sockets().into_iter().flat_map(|sockets| sockets.families());
            descriptors.extend(sockets.map(|raw| PollFd::new(raw.adverts.as_fd(), PollFlags::POLLIN)));
        }
        let patience = deadline.map(|deadline| TimeSpec::from(deadline.since(clock::now())));
        match ppoll(&mut descriptors, patience, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            // Descriptors are ours and open, memory is the only thing that can lack: a pause is better than a spin.
            Err(error) => {
                tracing::error!(%error, "cannot wait for packets");
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    }

    /// Does what other threads ask for; whether to stop.
    fn read_letters(&mut self) -> bool {
        let letters = self.inbox.take();
        let Self { links, net_admin, ring, events, .. } = self;
        let mut context = Context { now: clock::now(), net_admin: *net_admin, events, ring };
        if let Some(census) = letters.census {
            for name in census {
                links.entry(name).or_insert_with_key(|name| Link::new(name.clone()));
            }
        }
        let stop = letters.stop;
        let relinked = !letters.links.is_empty();
        if let Some(desired) = letters.desired.filter(|_| !stop) {
            apply(links, desired, &mut context);
        }
        for (name, state) in letters.links {
            let link = links.entry(name).or_insert_with_key(|name| Link::new(name.clone()));
            link.change_state(state, &mut context);
        }
        for (key, obstacle) in letters.obstacles {
            if let Some(link) = links.get_mut(&key.interface) {
                link.obstruct((key.family, key.vrid), obstacle, &mut context);
            }
        }
        if stop {
            apply(links, Vec::new(), &mut context);
        }
        links.retain(|_, link| !link.is_forgotten());
        if relinked {
            self.roster.publish_links(self.links.values().filter_map(|l| l.sockets().cloned()).collect());
        }
        if std::mem::take(&mut self.ring) {
            self.roster.publish(self.links.values().flat_map(Link::duties).collect());
        }
        for question in letters.questions {
            // Who asked may have gone.
            let _ = question.send(self.answer());
        }
        stop
    }

    fn answer(&self) -> Answer {
        Answer {
            routers: self.links.values().flat_map(Link::router_statuses).collect(),
            links: self.links.values().map(Link::status).collect(),
        }
    }
}

fn apply(links: &mut BTreeMap<String, Link>, desired: Vec<RouterConfig>, context: &mut Context<'_>) {
    let mut by_link: BTreeMap<String, BTreeMap<Id, RouterConfig>> = BTreeMap::new();
    for config in desired {
        let id = (config.family(), config.vrid);
        by_link.entry(config.interface.clone()).or_default().insert(id, config);
    }
    let names: BTreeSet<String> = links.keys().chain(by_link.keys()).cloned().collect();
    for name in names {
        let routers = by_link.remove(&name).unwrap_or_default();
        let link = links.entry(name).or_insert_with_key(|name| Link::new(name.clone()));
        link.apply(routers, context);
    }
}

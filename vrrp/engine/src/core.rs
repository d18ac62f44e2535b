//! The thread `windlass-vrrp`: waits for packets and deadlines and lets the state machines decide.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use windlass_vrrp::{Time, Vrid};

use crate::announce::Announcer;
use crate::clock;
use crate::config::RouterConfig;
use crate::event::Event;
use crate::inbox::{Answer, Inbox};

mod instance;
mod link;

use link::Link;

/// The thread's state.
pub(crate) struct Core {
    links: BTreeMap<String, Link>,
    announcer: Arc<Announcer>,
    inbox: Arc<Inbox>,
    /// Events of this round, delivered at its end, after everything was sent.
    events: Vec<Event>,
    on_event: Box<dyn Fn(Event) + Send>,
}

impl Core {
    pub(crate) fn new(
        announcer: Arc<Announcer>,
        inbox: Arc<Inbox>,
        on_event: Box<dyn Fn(Event) + Send>,
    ) -> Self {
        Self { links: BTreeMap::new(), announcer, inbox, events: Vec::new(), on_event }
    }

    /// The thread's body; returns when told to stop, after every router has resigned.
    pub(crate) fn run(mut self) {
        loop {
            self.wait();
            // Adverts that came while we did not run come before the timers: the Active may not have been silent.
            let now = clock::now();
            for link in self.links.values_mut() {
                link.receive_adverts(now, &self.announcer, &mut self.events);
            }
            let now = clock::now();
            for link in self.links.values_mut() {
                link.handle_timeouts(now, &self.announcer, &mut self.events);
                link.receive_arp(now);
                link.report_claims(now, &mut self.events);
            }
            let stop = self.read_letters();
            for event in self.events.drain(..) {
                (self.on_event)(event);
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
            descriptors.extend(link.readable().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
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
        let broken = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
        if descriptors.iter().any(|fd| fd.revents().is_some_and(|events| events.intersects(broken))) {
            for link in self.links.values() {
                link.clear_errors();
            }
        }
    }

    /// Does what other threads ask for; whether to stop.
    fn read_letters(&mut self) -> bool {
        let letters = self.inbox.take();
        let now = clock::now();
        if let Some(census) = letters.census {
            for name in census {
                self.links.entry(name).or_insert_with_key(|name| Link::new(name.clone()));
            }
        }
        if let Some(desired) = letters.desired {
            self.apply(desired, now);
        }
        for (name, state) in letters.links {
            let link = self.links.entry(name).or_insert_with_key(|name| Link::new(name.clone()));
            link.change_state(state, now, &self.announcer, &mut self.events);
        }
        self.links.retain(|_, link| !link.is_forgotten());
        for question in letters.questions {
            // Who asked may have gone.
            let _ = question.send(self.answer());
        }
        if letters.stop {
            self.apply(Vec::new(), now);
        }
        letters.stop
    }

    fn apply(&mut self, desired: Vec<RouterConfig>, now: Time) {
        let mut by_link: BTreeMap<String, BTreeMap<Vrid, RouterConfig>> = BTreeMap::new();
        for config in desired {
            by_link.entry(config.interface.clone()).or_default().insert(config.vrid, config);
        }
        let names: BTreeSet<String> = self.links.keys().chain(by_link.keys()).cloned().collect();
        for name in names {
            let routers = by_link.remove(&name).unwrap_or_default();
            let link = self.links.entry(name).or_insert_with_key(|name| Link::new(name.clone()));
            link.apply(routers, now, &self.announcer, &mut self.events);
        }
    }

    fn answer(&self) -> Answer {
        Answer {
            routers: self.links.values().flat_map(Link::router_statuses).collect(),
            links: self.links.values().map(Link::status).collect(),
        }
    }
}

//! The thread `windlass-links`: looks at the wanted interfaces once a second, opens and closes their sockets and tells the
//! timer thread what changed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::inbox::Inbox;
use crate::interfaces::{self, InterfaceInfo};
use crate::sockets::{LinkSockets, obstacle};

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// What an interface can do.
#[derive(Clone)]
pub(crate) enum LinkState {
    /// Carry routers with these source addresses.
    Usable { sockets: Arc<LinkSockets>, addresses: Vec<IpAddr> },
    /// Nothing, for this reason.
    Unusable(String),
    /// Nobody wants it any more.
    Unwanted,
}

#[derive(Default)]
struct Wanted {
    by_routers: BTreeSet<String>,
    by_census: BTreeSet<String>,
    /// There is something new to look at.
    dirty: bool,
    stop: bool,
}

/// Handle to the watcher.
#[derive(Default)]
pub(crate) struct Links {
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

impl Links {
    /// Interfaces that routers need.
    pub(crate) fn want_for_routers(&self, names: BTreeSet<String>) {
        self.order(|wanted| wanted.by_routers = names);
    }

    /// Interfaces to listen on.
    pub(crate) fn want_for_census(&self, names: BTreeSet<String>) {
        self.order(|wanted| wanted.by_census = names);
    }

    /// Ends [`Self::run`].
    pub(crate) fn stop(&self) {
        self.order(|wanted| wanted.stop = true);
    }

    /// The thread's body.
    pub(crate) fn run(&self, inbox: &Inbox) {
        let mut watch = Watch::default();
        while let Some(names) = self.next() {
            match interfaces::scan() {
                Ok(found) => watch.look(&names, &found, inbox),
                Err(error) => tracing::warn!(%error, "cannot list the interfaces; trying again in a second"),
            }
        }
    }

    /// Waits for an order or for the next look; the names to look at, `None` to stop.
    fn next(&self) -> Option<BTreeSet<String>> {
        let guard = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |wanted: &mut Wanted| !wanted.dirty && !wanted.stop;
        let (mut wanted, _) =
            self.changed.wait_timeout_while(guard, INTERVAL, idle).unwrap_or_else(PoisonError::into_inner);
        wanted.dirty = false;
        (!wanted.stop).then(|| wanted.by_routers.union(&wanted.by_census).cloned().collect())
    }

    fn order(&self, order: impl FnOnce(&mut Wanted)) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        order(&mut wanted);
        wanted.dirty = true;
        self.changed.notify_one();
    }
}

/// What the watcher knows.
#[derive(Default)]
struct Watch {
    links: BTreeMap<String, Known>,
    /// Sockets that are no longer used, until the timer thread has let go of them: closing may wait, so it is done here.
    retired: Vec<Arc<LinkSockets>>,
}

#[derive(Default)]
struct Known {
    sockets: Option<Arc<LinkSockets>>,
    /// What was told last: the source addresses or the reason.
    told: Option<Result<Vec<IpAddr>, String>>,
}

impl Watch {
    fn look(&mut self, names: &BTreeSet<String>, found: &BTreeMap<String, InterfaceInfo>, inbox: &Inbox) {
        let unwanted: Vec<String> =
            self.links.keys().filter(|name| !names.contains(*name)).cloned().collect();
        for name in unwanted {
            if let Some(known) = self.links.remove(&name) {
                self.retired.extend(known.sockets);
            }
            inbox.link(name, LinkState::Unwanted);
        }
        for name in names {
            let known = self.links.entry(name.clone()).or_default();
            if let Some(state) = known.examine(name, found.get(name), &mut self.retired) {
                inbox.link(name.clone(), state);
            }
        }
        self.retired.retain(|sockets| Arc::strong_count(sockets) > 1);
    }
}

impl Known {
    /// Opens what is missing and returns the new state if it is another than was told.
    fn examine(
        &mut self,
        name: &str,
        found: Option<&InterfaceInfo>,
        retired: &mut Vec<Arc<LinkSockets>>,
    ) -> Option<LinkState> {
        // Sockets are bound to an index: an interface made anew under the old name needs new ones.
        let same = |sockets: &Arc<LinkSockets>| {
            found.is_some_and(|i| (i.index, i.mac) == (sockets.index, sockets.mac))
        };
        let replaced = self.sockets.take_if(|sockets| !same(sockets));
        let fresh = replaced.is_some();
        retired.extend(replaced);
        let (told, state) = match (obstacle(name, found), found) {
            (None, Some(info)) => self.usable(name, info),
            (Some(reason), _) => (Err(reason.clone()), LinkState::Unusable(reason)),
            // `obstacle` tells a missing interface.
            (None, None) => return None,
        };
        if !fresh && self.told.as_ref() == Some(&told) {
            return None;
        }
        self.told = Some(told);
        Some(state)
    }

    fn usable(&mut self, name: &str, info: &InterfaceInfo) -> (Result<Vec<IpAddr>, String>, LinkState) {
        let opened = match self.sockets.take() {
            Some(sockets) => Ok(sockets),
            None => LinkSockets::open(name, info.index, info.mac).map(Arc::new),
        };
        match opened {
            Ok(sockets) => {
                let addresses: Vec<IpAddr> =
                    info.ipv4.iter().map(|(address, _)| IpAddr::V4(*address)).collect();
                self.sockets = Some(Arc::clone(&sockets));
                (Ok(addresses.clone()), LinkState::Usable { sockets, addresses })
            }
            Err(error) => {
                let reason = format!("interface {name}: {error}");
                (Err(reason.clone()), LinkState::Unusable(reason))
            }
        }
    }
}

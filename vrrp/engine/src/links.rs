//! The thread `windlass-links`: follows the wanted interfaces by netlink, opens and closes their sockets and tells the timer
//! thread what changed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::clock;
use crate::duty::Bell;
use crate::inbox::Inbox;
use crate::interfaces::Follower;

mod state;
mod watch;

pub(crate) use state::{LinkState, Sources};
use watch::Watch;

/// Time until sockets that could not be opened, or not closed, are looked at again.
const RETRY: Duration = Duration::from_secs(1);

/// Groups to listen to, by interface.
type Groups = BTreeMap<String, BTreeSet<IpAddr>>;

#[derive(Default)]
struct Wanted {
    /// With the groups that their routers listen to.
    by_routers: Groups,
    by_census: BTreeSet<String>,
    stop: bool,
}

/// Handle to the watcher.
pub(crate) struct Links {
    wanted: Mutex<Wanted>,
    bell: Bell,
}

impl Links {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { wanted: Mutex::default(), bell: Bell::new()? })
    }

    /// Interfaces that routers need, and the groups they listen to there.
    pub(crate) fn want_for_routers(&self, groups: BTreeMap<String, BTreeSet<IpAddr>>) {
        self.order(|wanted| wanted.by_routers = groups);
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
    pub(crate) fn run(&self, mut follower: Follower, inbox: &Inbox) {
        let mut watch = Watch::default();
        let mut looked_for = Groups::new();
        while let Some(wanted) = self.wanted() {
            let changed = follower.follow(clock::now());
            if changed || watch.must_look_again() || wanted != looked_for {
                for (name, state) in watch.look(&wanted, follower.table()) {
                    inbox.link(name, state);
                }
                looked_for = wanted;
            }
            self.wait(&follower, watch.must_look_again());
        }
    }

    /// The interfaces to look at and their groups, `None` to stop.
    fn wanted(&self) -> Option<Groups> {
        self.bell.hush();
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let listened = wanted.by_census.iter().map(|name| (name.clone(), BTreeSet::new()));
        (!wanted.stop).then(|| listened.chain(wanted.by_routers.clone()).collect())
    }

    /// Waits for an order, a change, or until there is something to do without either.
    fn wait(&self, follower: &Follower, look_again: bool) {
        let mut patience = follower.deadline().since(clock::now());
        if look_again {
            patience = patience.min(RETRY);
        }
        let mut descriptors = [
            PollFd::new(self.bell.as_fd(), PollFlags::POLLIN),
            PollFd::new(follower.as_fd(), PollFlags::POLLIN),
        ];
        match ppoll(&mut descriptors, Some(TimeSpec::from(patience)), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            // Only memory can lack: a pause is better than a spin.
            Err(error) => {
                tracing::error!(%error, "cannot wait for changes to the interfaces");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    fn order(&self, order: impl FnOnce(&mut Wanted)) {
        order(&mut self.wanted.lock().unwrap_or_else(PoisonError::into_inner));
        self.bell.ring();
    }
}

//! The thread `windlass-links`: follows the wanted interfaces by netlink, opens and closes their sockets and reports changes to the
//! timer thread.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use windlass_kernel::clock;
use windlass_kernel::interfaces::Follower;
use windlass_kernel::poll::poll;

use crate::handle::Waker;
use crate::inbox::Inbox;
use crate::supervisor::Helper;

mod watcher;

use watcher::LinkWatcher;

/// Time until sockets that could not be opened, or not closed, are looked at again.
const RETRY: Duration = Duration::from_secs(1);

/// Groups to listen to, by interface.
type Groups = BTreeMap<String, BTreeSet<IpAddr>>;

#[derive(Default)]
struct WantedLinks {
    /// Interfaces that routers need, with the groups that these listen to.
    by_routers: Groups,
    by_listening: BTreeSet<String>,
    stop: bool,
}

/// Handle to the watcher.
pub(crate) struct Links {
    wanted: Mutex<WantedLinks>,
    waker: Waker,
    /// Locked by the thread alone. Here, so that sockets outlive a fault of the thread.
    watcher: Mutex<LinkWatcher>,
}

impl Links {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { wanted: Mutex::default(), waker: Waker::new()?, watcher: Mutex::default() })
    }

    /// Sets the interfaces that routers need, and the groups they listen to there.
    pub(crate) fn want_for_routers(&self, groups: BTreeMap<String, BTreeSet<IpAddr>>) {
        self.change_wanted(|wanted| wanted.by_routers = groups);
    }

    /// Sets the interfaces to listen on.
    pub(crate) fn want_for_listening(&self, names: BTreeSet<String>) {
        self.change_wanted(|wanted| wanted.by_listening = names);
    }

    /// Ends [`Self::run`].
    pub(crate) fn stop(&self) {
        self.change_wanted(|wanted| wanted.stop = true);
    }

    /// The thread's body; returns when it is asked to stop. Called again after a fault, it opens a follower of its own, keeps the sockets
    /// and reports every interface anew.
    pub(crate) fn run(
        &self,
        follower: Option<Follower>,
        inbox: &Inbox,
        helper: &Helper,
    ) -> Result<(), String> {
        let opened = follower.map_or_else(|| Follower::open(clock::now()), Ok);
        let mut follower =
            opened.map_err(|error| format!("netlink is refused: {}", io::Error::from(error)))?;
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut last_wanted, mut is_first) = (Groups::new(), true);
        while let Some(wanted) = self.wanted() {
            helper.begin_round();
            let changed = follower.follow(clock::now());
            if is_first || changed || watcher.needs_retry() || wanted != last_wanted {
                if is_first {
                    watcher.report_anew();
                }
                for (name, state) in watcher.update(&wanted, follower.table()) {
                    inbox.link(name, state);
                }
                (last_wanted, is_first) = (wanted, false);
            }
            helper.end_round();
            self.wait(&follower, watcher.needs_retry());
        }
        Ok(())
    }

    /// The interfaces to look at and their groups, `None` to stop.
    fn wanted(&self) -> Option<Groups> {
        self.waker.drain();
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let listened = wanted.by_listening.iter().map(|name| (name.clone(), BTreeSet::new()));
        (!wanted.stop).then(|| listened.chain(wanted.by_routers.clone()).collect())
    }

    /// Waits for a command, a change, or until there is something to do without either.
    fn wait(&self, follower: &Follower, needs_retry: bool) {
        let mut wait_time = follower.deadline().since(clock::now());
        if needs_retry {
            wait_time = wait_time.min(RETRY);
        }
        let mut descriptors = [
            PollFd::new(self.waker.as_fd(), PollFlags::POLLIN),
            PollFd::new(follower.as_fd(), PollFlags::POLLIN),
        ];
        poll(&mut descriptors, Some(wait_time), "changes to the interfaces");
    }

    fn change_wanted(&self, change: impl FnOnce(&mut WantedLinks)) {
        change(&mut self.wanted.lock().unwrap_or_else(PoisonError::into_inner));
        self.waker.wake();
    }
}

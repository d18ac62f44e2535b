//! The thread `windlass-sharing`: keeps the table that directs packets for shared addresses, and learns the link-layer addresses of the
//! other nodes and which of them live for it. No election needs it, and it has no real-time priority.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use nix::poll::{PollFd, PollFlags};
use windlass_dataplane::sharing::Shares;
use windlass_kernel::clock;
use windlass_kernel::interfaces::Follower;
use windlass_kernel::netfilter::monitor::RulesetMonitor;
use windlass_kernel::poll::poll;
use windlass_vrrp::Time;

use crate::handle::SharedState;
use crate::status::SharingStatus;
use crate::supervisor::Helper;

mod keeper;
mod liveness;
mod proof;
mod prover;
pub(crate) mod trails;
mod watch;

use keeper::Keeper;

/// Pauses between two rounds: the first after a change, and the longest. Each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Factor of the rest after a round, in which only orders are followed: other programs may change nftables all the time.
const REST: u32 = 3;
/// Longest rest.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// Shared by the engine's handle and the thread.
pub(crate) struct SharingThread {
    /// Name of the table.
    table: String,
    /// Desired sharing; `None` as long as the caller has given none: what an earlier process left stays as it is.
    wanted: ArcSwapOption<Shares>,
    status: ArcSwap<SharingStatus>,
    stopping: AtomicBool,
    shared: Arc<SharedState>,
}

impl SharingThread {
    pub(crate) fn new(table: String, shared: Arc<SharedState>) -> Self {
        Self {
            table,
            wanted: ArcSwapOption::empty(),
            status: ArcSwap::default(),
            stopping: AtomicBool::new(false),
            shared,
        }
    }

    /// Name of the table.
    pub(crate) fn table(&self) -> &str {
        &self.table
    }

    /// Has the thread put these in force.
    pub(crate) fn follow(&self, shares: Arc<Shares>) {
        // First: the caller may next have this node take over.
        self.shared.passing.set_pending(pending(&shares, &self.status.load()));
        self.wanted.store(Some(shares));
        self.shared.sharing_waker().wake();
    }

    pub(crate) fn status(&self) -> Arc<SharingStatus> {
        let status = self.status.load_full();
        let without_mark = self.shared.passing.without_mark();
        if status.without_mark == *without_mark {
            return status;
        }
        Arc::new(SharingStatus { without_mark: (*without_mark).clone(), ..(*status).clone() })
    }

    /// Publishes that the thread is away. The kernel continues to direct by the table.
    pub(crate) fn withdraw(&self, error: &str) {
        let status = SharingStatus { error: Some(error.to_owned()), ..(*self.status()).clone() };
        self.status.store(Arc::new(status));
    }

    /// Ends the thread soon.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.shared.sharing_waker().wake();
    }

    /// The thread's body; returns when the engine stops.
    pub(crate) fn run(&self, helper: &Helper) -> Result<(), String> {
        helper.end_round();
        while self.wanted.load().is_none() {
            if self.stopping.load(Ordering::Acquire) {
                return Ok(());
            }
            self.wait(&[], None);
            self.shared.sharing_waker().drain();
        }
        let mut follower = Follower::open(clock::now()).map_err(|error| error.to_string())?;
        let ruleset = RulesetMonitor::open()
            .map_err(|error| format!("cannot open a netlink socket for changes of nftables: {error}"))?;
        let mut keeper = Keeper::new(&self.table, clock::now());
        let (mut installed, mut pause) = (None, FIRST_PAUSE);
        loop {
            helper.begin_round();
            let begun = clock::now();
            self.shared.sharing_waker().drain();
            ruleset
                .drain()
                .map_err(|error| format!("cannot receive changes of nftables by netlink: {error}"))?;
            if self.stopping.load(Ordering::Acquire) {
                keeper.end();
                return Ok(());
            }
            let changed = follower.follow(begun);
            let shares = self.wanted.load_full().unwrap_or_default();
            let is_new = !installed.as_ref().is_some_and(|installed| Arc::ptr_eq(installed, &shares));
            let status = keeper.round(&shares, follower.table(), self.directs(&shares, begun), begun);
            let passing = &self.shared.passing;
            let are_other = status.error.is_none() && passing.set_trails(keeper.trails());
            if passing.set_pending(pending(&shares, &status)) || are_other {
                self.shared.wake_hold();
            }
            self.status.store(Arc::new(status));
            installed = Some(shares);
            pause = if changed || is_new { FIRST_PAUSE } else { pause.saturating_mul(2).min(LONGEST_PAUSE) };
            let until_due = keeper.due().map(|due| due.since(clock::now()));
            let limit = until_due.map_or(pause, |due| due.min(pause));
            let rest = clock::now().since(begun).saturating_mul(REST).min(LONGEST_REST);
            helper.end_round();
            if keeper.is_idle() {
                self.wait(&[], None);
            } else if !self.wait(&[], Some(rest)) {
                self.wait(&[follower.as_fd(), ruleset.as_fd()], Some(limit));
            }
        }
    }

    /// Returns true if this node is the director of a shared address, or may soon be.
    fn directs(&self, shares: &Shares, now: Time) -> bool {
        let handles = self.shared.handles();
        let mut directing = handles.iter().filter(|handle| handle.is_active(now) || handle.misses_active());
        directing.any(|handle| handle.plan().addresses.iter().any(|vip| shares.has(*vip)))
    }

    /// Waits for an order or for one of these. Returns true if one is there.
    fn wait(&self, others: &[BorrowedFd<'_>], limit: Option<Duration>) -> bool {
        let all = std::iter::once(self.shared.sharing_waker().as_fd()).chain(others.iter().copied());
        let mut descriptors: Vec<_> = all.map(|one| PollFd::new(one, PollFlags::POLLIN)).collect();
        poll(&mut descriptors, limit, "orders and changes of interfaces and nftables")
    }
}

/// Returns the addresses for which packets are to be directed and are not yet. Nothing waits for what is not possible.
fn pending(shares: &Shares, status: &SharingStatus) -> BTreeSet<IpAddr> {
    if status.error.is_some() {
        return BTreeSet::new();
    }
    let services = shares.services.keys().filter(|service| !status.in_force.services.contains_key(service));
    services.map(|(vip, _)| *vip).collect()
}

//! The kernel's table that sends what comes for virtual IPs where it is served.
//!
//! A thread of its own writes it: a commit waits in the kernel while another program loads thousands of rules, and what is renewed there must
//! not wait for the rest of the process either. If it panics it is started again, after 1 s, then after twice as long each time, 1 min at most.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use windlass_engine::{BalanceError, Balancer, Balancing, Checked};

use crate::parts::{Parts, RESTART, WELL_AFTER};

/// Name of the thread.
const THREAD: &str = "windlass-nat";
/// Name of the table.
const TABLE: &str = "windlass-vip-nat";
/// Time between two looks for what others did to it, and between two renewals.
const LOOK: Duration = if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(1) };
/// Time for which the local virtual IPs are renewed without a call of [`Translation::bring`]: if the process hangs, another node has them
/// soon.
const STALE: Duration = Duration::from_secs(15);

/// Number of looks in a row with a failure after which it counts as lasting.
const LASTING: u32 = 3;

/// The table, as the thread maintains it. The thread ends with this, and leaves the table.
pub(super) struct Translation {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    wanted: Mutex<Wanted>,
    changed: Condvar,
    /// Lasting failure that keeps packets from their destination.
    failure: Mutex<Option<String>>,
}

#[derive(Default)]
struct Wanted {
    balancing: Balancing,
    local: BTreeSet<IpAddr>,
    /// Time of the last call of [`Translation::bring`].
    said: Option<Instant>,
    is_changed: bool,
    is_over: bool,
}

impl Translation {
    /// Starts the thread, in the network namespace of the caller.
    pub(super) fn start(parts: Arc<Parts>) -> io::Result<Self> {
        Self::of(parts, || {
            let mut table = Table::default();
            move |balancing: &Balancing, local: &BTreeSet<IpAddr>, is_look| {
                if is_look {
                    table.check();
                }
                table.bring(balancing, local);
                table.lasting_failure().map(str::to_owned)
            }
        })
    }

    /// Starts the thread. `kernel` returns a function that applies the desired state, at each look also an unchanged one, and returns the
    /// failure. After a panic another one applies the same state.
    fn of<K: FnMut(&Balancing, &BTreeSet<IpAddr>, bool) -> Option<String>>(
        parts: Arc<Parts>,
        mut kernel: impl FnMut() -> K + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let keeper = Arc::clone(&shared);
        parts.add(THREAD);
        let body = move || {
            let (mut failures, mut lasting) = (0, None);
            loop {
                let begun = Instant::now();
                // The function's state goes with the panic.
                let Err(panic) = catch_unwind(AssertUnwindSafe(|| {
                    let mut kernel = kernel();
                    keeper.keep(|balancing, local, is_look| {
                        let failure = kernel(balancing, local, is_look);
                        if begun.elapsed() >= WELL_AFTER {
                            parts.recover(THREAD, std::mem::take(&mut failures));
                            lasting = None;
                        }
                        failure.or_else(|| lasting.clone())
                    });
                })) else {
                    return;
                };
                failures += 1;
                let delay = RESTART.delay(failures);
                let error = parts.fail(THREAD, &*panic, delay);
                // The kernel keeps the table: a single panic is no reason to move virtual IPs.
                if failures > 1 {
                    lasting = Some(error);
                    keeper.set_failure(lasting.clone());
                }
                if keeper.wait_for_end(delay) {
                    return;
                }
            }
        };
        thread::Builder::new().name(THREAD.to_owned()).spawn(body)?;
        Ok(Self { shared })
    }

    /// Applies this table, also to the node's own packets to the `local` addresses. Must be called each second at least; never waits for
    /// the kernel.
    pub(super) fn bring(&self, balancing: Balancing, local: BTreeSet<IpAddr>) {
        let mut wanted = self.shared.wanted();
        wanted.is_changed |= wanted.said.is_none() || wanted.balancing != balancing || wanted.local != local;
        (wanted.balancing, wanted.local, wanted.said) = (balancing, local, Some(Instant::now()));
        self.shared.changed.notify_one();
    }

    /// Returns the reason why packets to virtual IPs are lost, if that lasts.
    pub(super) fn lasting_failure(&self) -> Option<String> {
        self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Translation {
    fn drop(&mut self) {
        self.shared.wanted().is_over = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn wanted(&self) -> std::sync::MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_failure(&self, failure: Option<String>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    /// Waits for the end of the thread, for this time at most. Returns true if it is to end.
    fn wait_for_end(&self, limit: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.wanted(), limit, |wanted| !wanted.is_over);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_over
    }

    /// Applies what is wanted until the end of the thread.
    fn keep(&self, mut kernel: impl FnMut(&Balancing, &BTreeSet<IpAddr>, bool) -> Option<String>) {
        let mut look_at = Instant::now();
        loop {
            let limit = look_at.saturating_duration_since(Instant::now());
            let waits = |wanted: &mut Wanted| !wanted.is_over && !wanted.is_changed;
            let outcome = self.changed.wait_timeout_while(self.wanted(), limit, waits);
            let mut wanted = outcome.unwrap_or_else(PoisonError::into_inner).0;
            if wanted.is_over {
                return;
            }
            wanted.is_changed = false;
            let (balancing, local, said) = (wanted.balancing.clone(), wanted.local.clone(), wanted.said);
            drop(wanted);
            let is_look = look_at <= Instant::now();
            if is_look {
                look_at = Instant::now() + LOOK;
            }
            let Some(said) = said else { continue };
            let local = if said.elapsed() < STALE { local } else { BTreeSet::new() };
            let failure = kernel(&balancing, &local, is_look);
            self.set_failure(failure);
        }
    }
}

/// The table, once the kernel permits it. A failure is logged once, and the operation repeated.
#[derive(Default)]
struct Table {
    balancer: Option<Balancer>,
    failure: Option<String>,
    /// State last applied to the kernel; `None` after a failure.
    brought: Option<(Balancing, BTreeSet<IpAddr>)>,
    /// True if the kernel has accepted it once.
    worked: bool,
    /// True if the local addresses have to be sent to the kernel again.
    is_local_due: bool,
    /// Number of looks in a row with a failure.
    failed_looks: u32,
    /// Obstacles at the last look. They are logged if the next one finds them, too: the first request to a neighbour takes a moment.
    seen: BTreeSet<String>,
    told: BTreeSet<String>,
}

impl Table {
    /// Applies this table, also to the node's own packets to the `local` addresses. Sends changes to the kernel, and after [`Self::check`]
    /// also the local addresses, which expire there.
    fn bring(&mut self, balancing: &Balancing, local: &BTreeSet<IpAddr>) {
        let before = self.brought.take();
        let (before, local_before) = before.as_ref().map(|(balancing, local)| (balancing, local)).unzip();
        let (is_known, is_local_known) = (before == Some(balancing), local_before == Some(local));
        let is_forgotten = std::mem::take(&mut self.is_local_due);
        let done = self.open().and_then(|balancer| {
            if !is_known {
                balancer.apply(balancing)?;
            }
            if is_known && is_local_known && !is_forgotten { Ok(()) } else { balancer.local(local) }
        });
        let failure = done.err().map(|error| error.to_string());
        self.brought = failure.is_none().then(|| (balancing.clone(), local.clone()));
        if let Some(failure) = failure.as_ref().filter(|failure| self.failure.as_ref() != Some(*failure)) {
            tracing::error!(table = TABLE, "{failure}");
        }
        self.worked |= failure.is_none();
        self.failure = failure;
    }

    /// Returns the reason why packets to virtual IPs are lost, if that lasts.
    fn lasting_failure(&self) -> Option<&str> {
        self.failure.as_deref().filter(|_| !self.worked || self.failed_looks >= LASTING)
    }

    /// Restores what other programs have changed, and logs obstacles. Must be called each second.
    fn check(&mut self) {
        self.is_local_due = true;
        self.failed_looks = if self.failure.is_some() { self.failed_looks.saturating_add(1) } else { 0 };
        let Some(balancer) = &mut self.balancer else { return };
        match balancer.check() {
            Ok(Checked::Intact) => {}
            Ok(Checked::Restored { found }) => {
                tracing::warn!(
                    table = TABLE,
                    "another program changed the nftables table ({found}); restored it"
                );
            }
            Err(error) => {
                tracing::debug!(
                    %error, table = TABLE,
                    "cannot check the nftables table; installing it again"
                );
                // Told when it is brought, as it is again.
                self.brought = None;
            }
        }
        let obstacles = balancer.obstacles().into_iter().map(|obstacle| obstacle.to_string()).collect();
        let lasting: BTreeSet<String> = self.seen.intersection(&obstacles).cloned().collect();
        for obstacle in lasting.difference(&self.told) {
            tracing::error!(table = TABLE, "{obstacle}");
        }
        (self.seen, self.told) = (obstacles, lasting);
    }

    fn open(&mut self) -> Result<&mut Balancer, BalanceError> {
        match &mut self.balancer {
            Some(balancer) => Ok(balancer),
            none => Ok(none.insert(Balancer::open(TABLE)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_failure_counts_from_the_first_until_it_worked_once_and_then_when_it_lasts() {
        let mut translation = Table { failure: Some("refused".to_owned()), ..Table::default() };
        assert_eq!(translation.lasting_failure(), Some("refused"));
        translation.worked = true;
        for _ in 0..LASTING {
            assert_eq!(translation.lasting_failure(), None);
            translation.check();
        }
        assert_eq!(translation.lasting_failure(), Some("refused"));
        translation.failure = None;
        translation.check();
        translation.failure = Some("refused".to_owned());
        assert_eq!(translation.lasting_failure(), None);
    }

    #[test]
    fn while_nobody_says_anything_who_is_local_is_renewed_and_while_the_kernel_is_slow_nobody_waits_for_it() {
        let limit = Duration::from_secs(30);
        let (tell, told) = channel();
        let (free, freed) = channel::<()>();
        let vip: IpAddr = "192.0.2.50".parse().unwrap();
        let mut ends = Some((tell, freed));
        let translation = Translation::of(Arc::new(Parts::new()), move || {
            let (tell, freed) = ends.take().unwrap();
            move |_: &Balancing, local: &BTreeSet<IpAddr>, is_look| {
                tell.send((local.clone(), is_look)).unwrap();
                let _ = freed.recv();
                Some("slow".to_owned())
            }
        })
        .unwrap();
        translation.bring(Balancing::default(), [vip].into());
        assert_eq!(told.recv_timeout(limit).unwrap().0, [vip].into());
        // The kernel is busy with that.
        translation.bring(Balancing::default(), BTreeSet::new());
        translation.bring(Balancing::default(), [vip].into());
        assert_eq!(translation.lasting_failure(), None);
        drop(free);
        // From now on nobody says anything.
        for _ in 0..2 {
            let look = std::iter::from_fn(|| told.recv_timeout(limit).ok()).find(|(_, is_look)| *is_look);
            assert_eq!(look.unwrap().0, [vip].into());
        }
        assert_eq!(translation.lasting_failure().as_deref(), Some("slow"));
    }
    /// Local addresses that the thread applies after this many panics in a row, what it says then, and the faults that were counted.
    fn applied_after(panics: u32) -> (BTreeSet<IpAddr>, Option<String>, u64) {
        let parts = Arc::new(Parts::new());
        let (tell, told) = channel();
        let mut started = 0;
        let translation = Translation::of(Arc::clone(&parts), move || {
            started += 1;
            let (number, tell) = (started, tell.clone());
            move |_: &Balancing, local: &BTreeSet<IpAddr>, _| {
                assert!(number > panics, "as the test orders");
                let _ = tell.send(local.clone());
                None
            }
        })
        .unwrap();
        translation.bring(Balancing::default(), ["192.0.2.50".parse().unwrap()].into());
        // The second round: the result of the first is in place.
        let rounds = [(); 2].map(|()| told.recv_timeout(Duration::from_secs(30)).expect("a round"));
        let [_, last] = rounds;
        (last, translation.lasting_failure(), parts.status()[0].faults)
    }

    #[test]
    fn after_a_panic_the_thread_is_started_again_with_the_same_table_and_repeated_panics_are_a_failure() {
        let vip: BTreeSet<IpAddr> = ["192.0.2.50".parse().unwrap()].into();
        assert_eq!(applied_after(1), (vip.clone(), None, 1), "the kernel had the table meanwhile");
        let (local, failure, faults) = applied_after(2);
        assert_eq!((local, faults), (vip, 2));
        let failure = failure.expect("it lasts until a minute has passed without a panic");
        assert!(failure.starts_with("windlass-nat panicked, which is a bug"), "{failure}");
    }
}

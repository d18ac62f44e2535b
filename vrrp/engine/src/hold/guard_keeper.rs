//! Keeps the guard in line with the routers' bindings and the restrictions.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{RecvError, Sender};
use std::time::Duration;

use windlass_dataplane::guard::{AWAKE, Checked, Guard, GuardError, Guarded};
use windlass_dataplane::restriction::Restrictions;
use windlass_kernel::mark_mask::MarkMask;
use windlass_kernel::netfilter::failure::Failure;
use windlass_kernel::netfilter::fingerprint::{Compared, Comparison};
use windlass_vrrp::Time;

use super::background::{Background, Job};
use super::moves::Forwarding;
use super::refusals::put_in_force;
use super::request::BindingRequest;
use crate::handle::{Plan, SharedState};
use crate::status::GuardStatus;

/// Time between two looks at whether another process has removed the table.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time between two looks, where the table is removed again and again.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Number of looks of which one also has a helper thread compare the sets, and shows the guard that the process lives. With the time that
/// this takes, an element that another process changed is restored within five seconds.
const COMPARED_EVERY: u32 = 4;
/// Time without a comparison of the sets, as a multiple of the time that the last one took: that of 100,000 elements takes half a second.
const COMPARE_REST: u32 = 10;
/// Minimum time without a sign of life: one that is due each second may be late.
const SHORTEST_AWAKE: Duration = Duration::from_secs(3);
/// Time until the next try after the guard was refused.
const RETRY: Duration = Duration::from_secs(30);

/// Comparison of the sets by a helper thread, one at a time.
struct Comparing {
    thread: Background<Comparison, Result<Compared, Failure>>,
    begun: Time,
    rests_until: Time,
}

impl Comparing {
    /// Begins, if the thread is idle and rested, and another process can have changed the sets.
    fn begin(&mut self, guard: &mut Guard, now: Time) -> Result<(), GuardError> {
        if self.thread.is_idle()
            && self.rests_until <= now
            && let Some(comparison) = guard.comparison()?
        {
            self.begun = now;
            self.thread.submit(comparison);
        }
        Ok(())
    }

    /// Returns the outcome once the thread is done; an error if it panicked instead.
    fn poll(&mut self, now: Time) -> Option<Result<Result<Compared, Failure>, RecvError>> {
        let outcome = self.thread.poll()?;
        self.rests_until = now + now.since(self.begun).saturating_mul(COMPARE_REST);
        Some(outcome)
    }
}

/// The guard and when it is to be looked at.
pub(super) struct GuardKeeper {
    table: String,
    /// Time for which the node's own packets are guarded after this process died.
    awake: Duration,
    /// Bits of the marks that distinguish the nodes that handed VIPs over.
    marks: MarkMask,
    guard: Option<Guard>,
    installed: Arc<Guarded>,
    /// Desired contents of the guard and the inputs they follow from: they may be of thousands of addresses, so they are computed once for
    /// each change.
    wanted: Option<(Inputs, Arc<Guarded>)>,
    /// True if those are installed, or were refused.
    acted: bool,
    /// Time of the next look if nothing changes.
    due: Time,
    /// Looks since the last one that had the sets compared.
    quick_checks: u32,
    /// Compares what is in the sets with what was written.
    comparing: Comparing,
    /// Result of the last comparison, to be acted on.
    compared: Option<Compared>,
    /// True if the last comparison failed, which is reported once.
    comparing_failed: bool,
    /// Time until the next look.
    pause: Duration,
    /// Error that was reported: each is reported once.
    reported_error: Option<String>,
    /// Addresses of which the kernel refuses what is wanted, and why.
    refused: BTreeMap<IpAddr, String>,
    /// Time at which those are tried again.
    retry: Time,
}

impl GuardKeeper {
    /// Creates a keeper without a table: the table is made when there is something to guard, or soon. Until then the table that a killed
    /// engine left stays in force.
    pub(super) fn new(
        table: String,
        awake: Duration,
        marks: MarkMask,
        shared: &Arc<SharedState>,
        comparing: &Sender<Job>,
        now: Time,
    ) -> Self {
        Self {
            table,
            awake: awake.max(SHORTEST_AWAKE),
            marks,
            guard: None,
            installed: Arc::default(),
            wanted: None,
            acted: false,
            due: now + CHECK_INTERVAL.saturating_mul(COMPARED_EVERY),
            quick_checks: 0,
            comparing: Comparing {
                thread: Background::new(comparing, shared, Comparison::run),
                begun: now,
                rests_until: now,
            },
            compared: None,
            comparing_failed: false,
            pause: CHECK_INTERVAL,
            reported_error: None,
            refused: BTreeMap::new(),
            retry: now,
        }
    }

    /// Guards what is new before addresses are bound, so that no socket of the host is ever open on it. Restrictions are changed now.
    pub(super) fn before_binding(
        &mut self,
        requests: &[BindingRequest],
        restrictions: &Arc<Restrictions>,
        forwarding: &Forwarding,
        now: Time,
    ) {
        let Some(wanted) = self.outstanding(requests, restrictions, forwarding, now) else { return };
        let installed = &self.installed;
        let takes_none_away = installed.vips.is_subset(&wanted.vips) && installed.held == wanted.held;
        let guarded = if takes_none_away {
            wanted
        } else {
            let vips = installed.vips.union(&wanted.vips).copied().collect();
            let held = installed.held.clone();
            Arc::new(Guarded { vips, held, ..(*wanted).clone() })
        };
        self.act(guarded, now);
    }

    /// Guards what is bound or unbound, after that. Changes of nftables wait for all processors of the node, so they come after what is
    /// urgent.
    pub(super) fn after_binding(
        &mut self,
        requests: &[BindingRequest],
        restrictions: &Arc<Restrictions>,
        forwarding: &Forwarding,
        now: Time,
    ) {
        self.poll_comparison(now);
        let Some(wanted) = self.outstanding(requests, restrictions, forwarding, now) else { return };
        self.act(wanted, now);
        self.acted = true;
    }

    /// Has the kernel forget connections to these VIPs that are over, as packets of others show.
    pub(super) fn forget_strays(&mut self, had_for: &BTreeMap<IpAddr, Duration>) {
        let Some(guard) = &mut self.guard else { return };
        match guard.forget_strays(had_for) {
            Ok(0) => {}
            Ok(count) => {
                tracing::debug!(count, "forgot connections that are over, as packets of others showed");
            }
            Err(error) => tracing::debug!(%error, "connections that are over stay known until they expire"),
        }
    }

    /// Records the result of the helper thread.
    fn poll_comparison(&mut self, now: Time) {
        match self.comparing.poll(now) {
            Some(Ok(Ok(compared))) => {
                self.compared = Some(compared);
                self.comparing_failed = false;
            }
            Some(Ok(Err(failure))) => {
                if !self.comparing_failed {
                    let error = GuardError::from(failure);
                    tracing::warn!(
                        %error,
                        "cannot check whether another program changed elements of the nftables sets; \
                         retrying"
                    );
                }
                self.comparing_failed = true;
            }
            // The supervisor has reported it.
            Some(Err(RecvError)) | None => {}
        }
    }

    /// Returns the number of packets forwarded to previous Actives since the table was made, if it can be read.
    pub(super) fn forwarded(&mut self) -> Option<u64> {
        self.guard.as_mut()?.forwarded().ok()
    }

    /// Returns what is to be guarded; `None` where that was acted on before and nothing is due.
    fn outstanding(
        &mut self,
        requests: &[BindingRequest],
        restrictions: &Arc<Restrictions>,
        forwarding: &Forwarding,
        now: Time,
    ) -> Option<Arc<Guarded>> {
        if let Some((inputs, wanted)) = &self.wanted
            && inputs.are(requests, restrictions, forwarding)
        {
            let is_due = self.due <= now || self.compared.is_some();
            return (!self.acted || is_due).then(|| Arc::clone(wanted));
        }
        let wanted = Arc::new(Guarded { marks: self.marks, ..guarded(requests, restrictions, forwarding) });
        self.wanted = Some((Inputs::of(requests, restrictions, forwarding), Arc::clone(&wanted)));
        self.acted = false;
        Some(wanted)
    }

    /// Returns which restrictions are in force, and the reasons why others are not.
    pub(super) fn status(&self) -> GuardStatus {
        let enforced = self.guard.as_ref().map(Guard::restrictions).unwrap_or_default();
        GuardStatus { enforced, error: self.reported_error.clone(), refused: self.refused.clone() }
    }

    /// Removes the table.
    pub(super) fn end(&mut self) {
        if let Some(Err(error)) = self.guard.take().map(Guard::remove) {
            tracing::warn!(%error, "the nftables table of the VIPs stays");
        }
    }

    /// Returns the time of the next look if nothing changes.
    pub(super) fn due(&self) -> Time {
        self.due
    }

    fn act(&mut self, wanted: Arc<Guarded>, now: Time) {
        let is_due = self.due <= now || self.compared.is_some();
        if !is_due && (self.installed == wanted || self.reported_error.is_some()) {
            return;
        }
        match self.apply(&wanted, now) {
            Ok(()) => {
                self.installed = wanted;
                if self.reported_error.take().is_some() {
                    tracing::info!(table = self.table, "VIPs are guarded");
                }
            }
            Err(error) => {
                let error = error.to_string();
                if self.reported_error.as_ref() != Some(&error) {
                    tracing::warn!(
                        error,
                        "VIPs are not guarded: ping and ports of no Service are not answered, and sockets of the host are \
                         open on VIPs that are on an interface; trying again"
                    );
                    self.reported_error = Some(error);
                }
                self.due = now + RETRY;
            }
        }
    }

    fn apply(&mut self, wanted: &Guarded, now: Time) -> Result<(), GuardError> {
        let guard = if let Some(guard) = self.guard.take() {
            guard
        } else {
            self.due = now + CHECK_INTERVAL;
            match Guard::install_for(&self.table, wanted, self.awake) {
                Err(GuardError::Kernel { .. }) if !wanted.restrictions.is_empty() => {
                    let unrestricted = Guarded { restrictions: Arc::default(), ..wanted.clone() };
                    Guard::install_for(&self.table, &unrestricted, self.awake)?
                }
                installed => installed?,
            }
        };
        let guard = self.guard.insert(guard);
        let mut checked = None;
        if let Some(compared) = self.compared.take() {
            checked = guard.settle(&compared)?;
            if checked.is_none() {
                // This process has changed a set in the middle of it.
                self.comparing.begin(guard, now)?;
            }
        }
        if self.due <= now && !matches!(checked, Some(Checked::Restored { .. })) {
            let every = if self.awake < AWAKE { 1 } else { COMPARED_EVERY };
            self.quick_checks = self.quick_checks.saturating_add(1).checked_rem(every).unwrap_or_default();
            checked = Some(guard.quick_check()?);
            if self.quick_checks == 0 {
                guard.stay_awake()?;
                self.comparing.begin(guard, now)?;
            }
        }
        if self.due <= now || matches!(checked, Some(Checked::Restored { .. })) {
            self.pause = pause_after(checked, self.pause, &self.table);
            self.due = now + self.pause;
        }
        let installed = guard.restrictions();
        // What was refused is not tried again each second.
        let restrictions = if now < self.retry && !self.refused.is_empty() {
            Arc::new(wanted.restrictions.as_other_of(&installed, self.refused.keys()))
        } else {
            Arc::clone(&wanted.restrictions)
        };
        let updated = if Arc::ptr_eq(&restrictions, &wanted.restrictions) {
            guard.update(wanted)
        } else {
            guard.update(&Guarded { restrictions: Arc::clone(&restrictions), ..wanted.clone() })
        };
        match updated {
            Ok(()) if self.refused.is_empty() => Ok(()),
            Ok(()) => {
                let still_wanted = wanted.restrictions.differing(&restrictions);
                self.refused.retain(|address, _| still_wanted.contains(address));
                Ok(())
            }
            Err(GuardError::Kernel { .. }) if *installed != *restrictions => {
                let refused = put_in_force(&installed, &restrictions, |next| {
                    guard.update(&Guarded { restrictions: Arc::new(next.clone()), ..wanted.clone() })
                })?;
                self.note_refused(refused, now);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn note_refused(&mut self, refused: BTreeMap<IpAddr, GuardError>, now: Time) {
        self.retry = now + RETRY;
        let refused: BTreeMap<IpAddr, String> =
            refused.into_iter().map(|(address, error)| (address, error.to_string())).collect();
        for (address, error) in &refused {
            if self.refused.get(address) != Some(error) {
                tracing::warn!(%address, error, "cannot enforce the source ranges of this VIP; retrying");
            }
        }
        self.refused = refused;
    }
}

/// Returns the time until the next look: longer, up to a limit, while the table is removed or changed again and again, which is reported
/// once.
fn pause_after(checked: Option<Checked>, pause: Duration, table: &str) -> Duration {
    match checked {
        Some(Checked::Intact) | None => CHECK_INTERVAL,
        Some(Checked::Restored { found }) => {
            if pause == CHECK_INTERVAL {
                tracing::warn!(
                    table,
                    found,
                    "restored the nftables table of the VIPs, which another program changed or removed; \
                     repeated restores are not logged each time. Stop what does it (another engine with this \
                     table's name, a firewall that flushes all tables)"
                );
            }
            pause.saturating_mul(2).min(MAX_CHECK_INTERVAL)
        }
    }
}

/// Inputs that the guard follows from.
struct Inputs {
    requests: Vec<(Arc<Plan>, Arc<BTreeSet<IpAddr>>, bool)>,
    restrictions: Arc<Restrictions>,
    forwarding: Forwarding,
}

impl Inputs {
    fn of(requests: &[BindingRequest], restrictions: &Arc<Restrictions>, forwarding: &Forwarding) -> Self {
        let requests = requests
            .iter()
            .map(|request| (Arc::clone(&request.plan), Arc::clone(&request.cleared), request.active));
        Self {
            requests: requests.collect(),
            restrictions: Arc::clone(restrictions),
            forwarding: forwarding.clone(),
        }
    }

    /// Returns true if they are the very same.
    fn are(
        &self,
        requests: &[BindingRequest],
        restrictions: &Arc<Restrictions>,
        forwarding: &Forwarding,
    ) -> bool {
        let is_same = |(plan, cleared, active): &(Arc<Plan>, Arc<BTreeSet<IpAddr>>, bool),
                       request: &BindingRequest| {
            Arc::ptr_eq(plan, &request.plan)
                && Arc::ptr_eq(cleared, &request.cleared)
                && *active == request.active
        };
        Arc::ptr_eq(&self.restrictions, restrictions)
            && self.forwarding.is(forwarding)
            && self.requests.len() == requests.len()
            && self.requests.iter().zip(requests).all(|(input, request)| is_same(input, request))
    }
}

/// Returns what is to be guarded: all VIPs on which no socket of the host may be reached, those of them that are held, the sources that may
/// send to each port, and what was handed over.
fn guarded(
    requests: &[BindingRequest],
    restrictions: &Arc<Restrictions>,
    forwarding: &Forwarding,
) -> Guarded {
    let closed = || requests.iter().filter(|request| !request.plan.accept);
    let accepting = requests.iter().filter(|request| request.plan.accept);
    let open: BTreeSet<IpAddr> = accepting.flat_map(BindingRequest::addresses).collect();
    let but_open = |address: &IpAddr| !open.contains(address);
    let of_routers = closed().flat_map(BindingRequest::addresses);
    let vips: BTreeSet<IpAddr> =
        of_routers.chain(restrictions.routed().iter().copied()).filter(but_open).collect();
    // What this node announces never is nobody's VIP to it: an object may name any address, a node's own as well.
    let restrictions = if restrictions.has_ports_of_others_than(&vips) {
        Arc::new(restrictions.with_ports_only_of(&vips))
    } else {
        Arc::clone(restrictions)
    };
    let movable = || closed().filter(|request| request.plan.vip_as_source);
    let replicated = closed().filter(|request| !request.plan.replicas.is_empty());
    Guarded {
        vips,
        movable: movable().flat_map(BindingRequest::clients_come_by).collect(),
        replicated: replicated.flat_map(BindingRequest::addresses).filter(but_open).collect(),
        astray: movable().flat_map(|request| request.plan.astray.iter()).copied().collect(),
        held: closed().flat_map(BindingRequest::held).filter(but_open).collect(),
        restrictions,
        moved: Arc::clone(&forwarding.moved),
        trails: forwarding.passed.clone(),
        ..Guarded::default()
    }
}

//! Keeps the guard at what the routers' bindings and the restrictions say.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use windlass_vrrp::Time;

use super::refusals::put_in_force;
use super::request::BindingRequest;
use crate::connections::Tracking;
use crate::guard::{AWAKE, Checked, Guard, GuardError, Guarded, Moved};
use crate::handle::Plan;
use crate::restriction::{GuardStatus, Restrictions};

/// Time between two looks at whether somebody has removed the table.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time between two looks, where somebody removes it again and again.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Looks of which one is thorough.
const FULL_CHECK_EVERY: u32 = 5;
/// With a thorough look each second, one of them may be late.
const SHORTEST_AWAKE: Duration = Duration::from_secs(3);
/// Time until the next try after the guard was refused.
const RETRY: Duration = Duration::from_secs(30);

/// The guard and when it is to be looked at.
pub(super) struct GuardKeeper {
    table: String,
    /// How long the node's own packets are guarded after this process died.
    awake: Duration,
    guard: Option<Guard>,
    installed: Arc<Guarded>,
    /// What is to be guarded for what the routers and restrictions were last: it may be of thousands of addresses, so it is
    /// worked out once for each change.
    wanted: Option<(Inputs, Arc<Guarded>)>,
    /// Whether that is installed, or was refused.
    acted: bool,
    /// When there is something to do without a cause.
    due: Time,
    /// Looks since the last thorough one.
    quick_checks: u32,
    /// Time until the next look.
    pause: Duration,
    /// What was said to be wrong: each thing is said once.
    reported_error: Option<String>,
    /// Addresses of which the kernel refuses what is wanted, and why.
    refused: BTreeMap<IpAddr, String>,
    /// When that is tried again.
    retry: Time,
}

impl GuardKeeper {
    /// Nothing yet: the table is made when there is something to guard, or soon. What a killed engine left guards until then.
    pub(super) fn new(table: String, awake: Duration, now: Time) -> Self {
        Self {
            table,
            awake: awake.max(SHORTEST_AWAKE),
            guard: None,
            installed: Arc::default(),
            wanted: None,
            acted: false,
            due: now + CHECK_INTERVAL * FULL_CHECK_EVERY,
            quick_checks: 0,
            pause: CHECK_INTERVAL,
            reported_error: None,
            refused: BTreeMap::new(),
            retry: now,
        }
    }

    /// Before addresses are bound: guards what is new, so that no socket of the host is ever open on it. Who may send to
    /// what is changed now.
    pub(super) fn before_binding(
        &mut self,
        requests: &[BindingRequest],
        restrictions: &Arc<Restrictions>,
        moved: &Arc<BTreeMap<IpAddr, Moved>>,
        now: Time,
    ) {
        let Some(wanted) = self.outstanding(requests, restrictions, moved, now) else { return };
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

    /// After they are bound or unbound. Changes of nftables wait for all processors of the node, so they come after what is
    /// urgent.
    pub(super) fn after_binding(
        &mut self,
        requests: &[BindingRequest],
        restrictions: &Arc<Restrictions>,
        moved: &Arc<BTreeMap<IpAddr, Moved>>,
        now: Time,
    ) {
        let Some(wanted) = self.outstanding(requests, restrictions, moved, now) else { return };
        self.act(wanted, now);
        self.acted = true;
    }

    /// Has the kernel forget connections to these VIPs with these marks.
    pub(super) fn forget_connections(&mut self, marked: &BTreeSet<(IpAddr, u32)>) {
        if self.guard.is_some()
            && let Err(error) = Tracking::open().and_then(|mut tracking| tracking.forget_marked(marked))
        {
            tracing::warn!(%error, "connections that were forwarded stay known until they expire");
        }
    }

    /// Has the kernel forget closed connections to these VIPs.
    pub(super) fn forget_closed(&mut self, vips: &BTreeSet<IpAddr>) {
        if self.guard.is_some()
            && let Err(error) = Tracking::open().and_then(|mut tracking| tracking.forget_closed(vips))
        {
            tracing::debug!(%error, "closed connections stay known until they expire");
        }
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

    /// Packets that were forwarded to previous Actives since the table was made, if that can be told.
    pub(super) fn forwarded(&mut self) -> Option<u64> {
        self.guard.as_mut()?.forwarded().ok()
    }

    /// What is to be guarded; `None` where that was acted on before and nothing is due.
    fn outstanding(
        &mut self,
        requests: &[BindingRequest],
        restrictions: &Arc<Restrictions>,
        moved: &Arc<BTreeMap<IpAddr, Moved>>,
        now: Time,
    ) -> Option<Arc<Guarded>> {
        if let Some((inputs, wanted)) = &self.wanted
            && inputs.are(requests, restrictions, moved)
        {
            return (!self.acted || self.due <= now).then(|| Arc::clone(wanted));
        }
        let wanted = Arc::new(guarded(requests, restrictions, moved));
        self.wanted = Some((Inputs::of(requests, restrictions, moved), Arc::clone(&wanted)));
        self.acted = false;
        Some(wanted)
    }

    /// Which restrictions are in force, and what is in the way of others.
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

    /// When there is something to do without a cause.
    pub(super) fn due(&self) -> Time {
        self.due
    }

    fn act(&mut self, wanted: Arc<Guarded>, now: Time) {
        if now < self.due && (self.installed == wanted || self.reported_error.is_some()) {
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
        if self.due <= now {
            // Only a thorough look says that the process lives.
            let every = if self.awake < AWAKE { 1 } else { FULL_CHECK_EVERY };
            self.quick_checks = (self.quick_checks + 1) % every;
            let checked = if self.quick_checks == 0 { guard.full_check()? } else { guard.quick_check()? };
            match checked {
                Checked::Intact => self.pause = CHECK_INTERVAL,
                Checked::Restored { found } => {
                    if self.pause == CHECK_INTERVAL {
                        tracing::warn!(
                            table = self.table,
                            found,
                            "the nftables table of the VIPs was made anew; if that is needed again and again it is not said each \
                             time, but something on this node (another engine with this table's name, a firewall that flushes \
                             all tables) works against it"
                        );
                    }
                    self.pause = (self.pause * 2).min(MAX_CHECK_INTERVAL);
                }
            }
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
                tracing::warn!(%address, error, "who may use this VIP cannot be enforced; trying again");
            }
        }
        self.refused = refused;
    }
}

/// What the guard follows from.
struct Inputs {
    requests: Vec<(Arc<Plan>, Arc<BTreeSet<IpAddr>>, bool)>,
    restrictions: Arc<Restrictions>,
    moved: Arc<BTreeMap<IpAddr, Moved>>,
}

impl Inputs {
    fn of(
        requests: &[BindingRequest],
        restrictions: &Arc<Restrictions>,
        moved: &Arc<BTreeMap<IpAddr, Moved>>,
    ) -> Self {
        let requests = requests
            .iter()
            .map(|request| (Arc::clone(&request.plan), Arc::clone(&request.cleared), request.active));
        Self {
            requests: requests.collect(),
            restrictions: Arc::clone(restrictions),
            moved: Arc::clone(moved),
        }
    }

    /// Whether they are the very same.
    fn are(
        &self,
        requests: &[BindingRequest],
        restrictions: &Arc<Restrictions>,
        moved: &Arc<BTreeMap<IpAddr, Moved>>,
    ) -> bool {
        let is_same = |(plan, cleared, active): &(Arc<Plan>, Arc<BTreeSet<IpAddr>>, bool),
                       request: &BindingRequest| {
            Arc::ptr_eq(plan, &request.plan)
                && Arc::ptr_eq(cleared, &request.cleared)
                && *active == request.active
        };
        Arc::ptr_eq(&self.restrictions, restrictions)
            && Arc::ptr_eq(&self.moved, moved)
            && self.requests.len() == requests.len()
            && self.requests.iter().zip(requests).all(|(input, request)| is_same(input, request))
    }
}

/// What is to be guarded: all VIPs on which no socket of the host may be reached, those of them that are held, who may send to
/// which ports, and what was handed over.
fn guarded(
    requests: &[BindingRequest],
    restrictions: &Arc<Restrictions>,
    moved: &Arc<BTreeMap<IpAddr, Moved>>,
) -> Guarded {
    let closed = || requests.iter().filter(|request| !request.plan.accept);
    let accepting = requests.iter().filter(|request| request.plan.accept);
    let open: BTreeSet<IpAddr> = accepting.flat_map(BindingRequest::addresses).collect();
    let but_open = |address: &IpAddr| !open.contains(address);
    let vips: BTreeSet<IpAddr> = closed().flat_map(BindingRequest::addresses).filter(but_open).collect();
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
        moved: Arc::clone(moved),
    }
}

//! Keeps the guard at what the claims say.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use windlass_vrrp::Time;

use super::claim::Claim;
use crate::duty::Plan;
use crate::guard::{Checked, Guard, GuardError, Guarded};
use crate::restriction::{GuardStatus, Restrictions};

/// Time between two looks at whether somebody has removed the table.
const GLANCE: Duration = Duration::from_secs(1);
/// Longest time between two looks, where somebody removes it again and again.
const LONGEST: Duration = Duration::from_secs(5);
/// Looks of which one is thorough.
const CHECK: u32 = 5;
/// Time until the next try after the guard was refused.
const RETRY: Duration = Duration::from_secs(30);

/// The guard and when it is to be looked at.
pub(super) struct Guarding {
    table: String,
    guard: Option<Guard>,
    told: Guarded,
    /// What was last acted on: as long as it is the same, nothing is looked at that may have thousands of addresses.
    seen: Option<Seen>,
    /// When there is something to do without a cause.
    due: Time,
    /// Looks since the last thorough one.
    glances: u32,
    /// Time until the next look.
    pause: Duration,
    /// What was said to be wrong: each thing is said once.
    said: Option<String>,
}

impl Guarding {
    /// Nothing yet: the table is made when there is something to guard, or soon. What a killed engine left guards until then.
    pub(super) fn new(table: String, now: Time) -> Self {
        Self {
            table,
            guard: None,
            told: Guarded::default(),
            seen: None,
            due: now + GLANCE * CHECK,
            glances: 0,
            pause: GLANCE,
            said: None,
        }
    }

    /// Before addresses are bound: guards what is new, so that no socket of the host is ever open on it. Who may send to
    /// what is changed now.
    pub(super) fn ahead(&mut self, claims: &[Claim], restrictions: &Arc<Restrictions>, now: Time) {
        if self.is_done(claims, restrictions, now) {
            return;
        }
        let wanted = guarded(claims, restrictions);
        let vips = self.told.vips.union(&wanted.vips).copied().collect();
        let held = self.told.held.clone();
        self.act(Guarded { vips, held, ..wanted }, now);
    }

    /// After they are bound or unbound. Changes of nftables wait for all processors of the node, so they come after what is
    /// urgent.
    pub(super) fn afterwards(&mut self, claims: &[Claim], restrictions: &Arc<Restrictions>, now: Time) {
        if self.is_done(claims, restrictions, now) {
            return;
        }
        self.act(guarded(claims, restrictions), now);
        self.seen = Some(Seen::of(claims, restrictions));
    }

    /// Whether there is nothing to do for what was acted on before.
    fn is_done(&self, claims: &[Claim], restrictions: &Arc<Restrictions>, now: Time) -> bool {
        now < self.due && self.seen.as_ref().is_some_and(|seen| seen.is_of(claims, restrictions))
    }

    /// Which restrictions are in force, and what is in the way of others.
    pub(super) fn status(&self) -> GuardStatus {
        let enforced = self.guard.as_ref().map(Guard::restrictions).unwrap_or_default();
        GuardStatus { enforced, error: self.said.clone() }
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

    fn act(&mut self, wanted: Guarded, now: Time) {
        if now < self.due && (self.told == wanted || self.said.is_some()) {
            return;
        }
        match self.bring(&wanted, now) {
            Ok(()) => {
                self.told = wanted;
                if self.said.take().is_some() {
                    tracing::info!(table = self.table, "VIPs are guarded");
                }
            }
            Err(error) => {
                let error = error.to_string();
                if self.said.as_ref() != Some(&error) {
                    tracing::warn!(
                        error,
                        "VIPs are not guarded: ping and ports of no Service are not answered, and sockets of the host are \
                         open on VIPs that are on an interface; trying again"
                    );
                    self.said = Some(error);
                }
                self.due = now + RETRY;
            }
        }
    }

    fn bring(&mut self, wanted: &Guarded, now: Time) -> Result<(), GuardError> {
        let guard = if let Some(guard) = self.guard.take() {
            guard
        } else {
            self.due = now + GLANCE;
            Guard::install(&self.table, wanted)?
        };
        let guard = self.guard.insert(guard);
        if self.due <= now {
            self.glances = (self.glances + 1) % CHECK;
            let checked = if self.glances == 0 { guard.check()? } else { guard.glance()? };
            match checked {
                Checked::Intact => self.pause = GLANCE,
                Checked::Restored { found } => {
                    if self.pause == GLANCE {
                        tracing::warn!(
                            table = self.table,
                            found,
                            "the nftables table of the VIPs was made anew; if that is needed again and again it is not said each \
                             time, but something on this node (another engine with this table's name, a firewall that flushes \
                             all tables) works against it"
                        );
                    }
                    self.pause = (self.pause * 2).min(LONGEST);
                }
            }
            self.due = now + self.pause;
        }
        guard.update(wanted)
    }
}

/// What claims and restrictions were.
struct Seen {
    claims: Vec<(Arc<Plan>, Arc<BTreeSet<IpAddr>>, bool)>,
    restrictions: Arc<Restrictions>,
}

impl Seen {
    fn of(claims: &[Claim], restrictions: &Arc<Restrictions>) -> Self {
        let claims =
            claims.iter().map(|claim| (Arc::clone(&claim.plan), Arc::clone(&claim.cleared), claim.active));
        Self { claims: claims.collect(), restrictions: Arc::clone(restrictions) }
    }

    /// Whether they are the very same.
    fn is_of(&self, claims: &[Claim], restrictions: &Arc<Restrictions>) -> bool {
        let is_same = |(plan, cleared, active): &(Arc<Plan>, Arc<BTreeSet<IpAddr>>, bool), claim: &Claim| {
            Arc::ptr_eq(plan, &claim.plan) && Arc::ptr_eq(cleared, &claim.cleared) && *active == claim.active
        };
        Arc::ptr_eq(&self.restrictions, restrictions)
            && self.claims.len() == claims.len()
            && self.claims.iter().zip(claims).all(|(seen, claim)| is_same(seen, claim))
    }
}

/// What is to be guarded: all VIPs on which no socket of the host may be reached, those of them that are held, and who may
/// send to which ports.
fn guarded(claims: &[Claim], restrictions: &Arc<Restrictions>) -> Guarded {
    let closed = || claims.iter().filter(|claim| !claim.plan.accept);
    let accepting = claims.iter().filter(|claim| claim.plan.accept);
    let open: BTreeSet<IpAddr> = accepting.flat_map(Claim::addresses).collect();
    let but_open = |address: &IpAddr| !open.contains(address);
    Guarded {
        vips: closed().flat_map(Claim::addresses).filter(but_open).collect(),
        held: closed().flat_map(Claim::held).filter(but_open).collect(),
        restrictions: Arc::clone(restrictions),
    }
}

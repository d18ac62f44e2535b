//! The kernel's table that sends what comes for virtual IPs where it is served.

use std::collections::BTreeSet;
use std::net::IpAddr;

use windlass_engine::{BalanceError, Balancer, Balancing, Checked};

/// Its name.
const TABLE: &str = "windlass-vip-nat";

/// A kernel that has refused it at so many looks does not do so by a mistake of a moment.
const LASTING: u32 = 3;

/// The table, as soon as the kernel lets it be made. What is in the way is told once, and tried again.
#[derive(Default)]
pub(super) struct Translation {
    balancer: Option<Balancer>,
    failure: Option<String>,
    /// What the kernel was told last, unless that failed.
    brought: Option<(Balancing, BTreeSet<IpAddr>)>,
    /// Whether the kernel took it once.
    worked: bool,
    /// The kernel is to be told again who is local.
    is_local_due: bool,
    /// At how many looks in a row there was a failure.
    failed_looks: u32,
    /// What was in the way at the last look: a neighbour that is asked for the first time takes a moment to answer.
    seen: BTreeSet<String>,
    told: BTreeSet<String>,
}

impl Translation {
    /// Has it say this, and take what the node itself sends to the `local` ones. Tells the kernel what has changed, and after
    /// [`Self::check`] who is local, which it forgets.
    pub(super) fn bring(&mut self, balancing: &Balancing, local: &BTreeSet<IpAddr>) {
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

    /// Why what comes for virtual IPs goes nowhere, if that is so and lasts.
    pub(super) fn lasting_failure(&self) -> Option<&str> {
        self.failure.as_deref().filter(|_| !self.worked || self.failed_looks >= LASTING)
    }

    /// Puts back what others have changed, and tells what is in the way. To be called each second.
    pub(super) fn check(&mut self) {
        self.is_local_due = true;
        self.failed_looks = if self.failure.is_some() { self.failed_looks.saturating_add(1) } else { 0 };
        let Some(balancer) = &mut self.balancer else { return };
        match balancer.check() {
            Ok(Checked::Intact) => {}
            Ok(Checked::Restored { found }) => {
                tracing::warn!(table = TABLE, "somebody else changed the table ({found}): it was put back");
            }
            Err(error) => {
                tracing::debug!(%error, table = TABLE, "the table cannot be looked after");
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
    use super::*;

    #[test]
    fn a_failure_counts_from_the_first_until_it_worked_once_and_then_when_it_lasts() {
        let mut translation = Translation { failure: Some("refused".to_owned()), ..Translation::default() };
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
}

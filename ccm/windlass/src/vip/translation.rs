//! The kernel's table that sends what comes for virtual IPs where it is served.

use std::collections::BTreeSet;
use std::net::IpAddr;

use windlass_engine::{BalanceError, Balancer, Balancing, Checked};

/// Its name.
const TABLE: &str = "windlass-vip-nat";

/// The table, as soon as the kernel lets it be made. What is in the way is told once, and tried again.
#[derive(Default)]
pub(super) struct Translation {
    balancer: Option<Balancer>,
    failure: Option<String>,
    /// What was in the way at the last look: a neighbour that is asked for the first time takes a moment to answer.
    seen: BTreeSet<String>,
    told: BTreeSet<String>,
}

impl Translation {
    /// Has it say this, and take what the node itself sends to the `local` ones.
    pub(super) fn bring(&mut self, balancing: &Balancing, local: &BTreeSet<IpAddr>) {
        let done = self.open().and_then(|balancer| {
            balancer.apply(balancing)?;
            balancer.local(local)
        });
        let failure = done.err().map(|error| error.to_string());
        if let Some(failure) = failure.as_ref().filter(|failure| self.failure.as_ref() != Some(*failure)) {
            tracing::error!(table = TABLE, "{failure}");
        }
        self.failure = failure;
    }

    /// Puts back what others have changed, and tells what is in the way. To be called each second.
    pub(super) fn check(&mut self) {
        let Some(balancer) = &mut self.balancer else { return };
        match balancer.check() {
            Ok(Checked::Intact) => {}
            Ok(Checked::Restored { found }) => {
                tracing::warn!(table = TABLE, "somebody else changed the table ({found}): it was put back");
            }
            // Told when it is brought.
            Err(error) => tracing::debug!(%error, table = TABLE, "the table cannot be looked after"),
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

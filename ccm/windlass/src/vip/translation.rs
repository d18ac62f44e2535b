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
    told: BTreeSet<String>,
}

impl Translation {
    /// Has it say this, and take what the node itself sends to the `local` ones.
    pub(super) fn bring(&mut self, balancing: &Balancing, local: &BTreeSet<IpAddr>) {
        let done = self.open().and_then(|balancer| {
            balancer.apply(balancing)?;
            balancer.local(local)
        });
        let obstacles =
            self.balancer.iter().flat_map(Balancer::obstacles).map(|obstacle| obstacle.to_string());
        let failures: BTreeSet<String> = obstacles.chain(done.err().map(|error| error.to_string())).collect();
        for failure in failures.difference(&self.told) {
            tracing::error!(table = TABLE, "{failure}");
        }
        self.told = failures;
    }

    /// Puts back what others have changed.
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
    }

    fn open(&mut self) -> Result<&mut Balancer, BalanceError> {
        match &mut self.balancer {
            Some(balancer) => Ok(balancer),
            none => Ok(none.insert(Balancer::open(TABLE)?)),
        }
    }
}

//! Waiting before the next try. Pure: the spread between nodes comes from their names, not from a random source.

use std::time::Duration;

use kube::runtime::utils::Backoff as KubeBackoff;
use windlass_ccm::backoff::Backoff as Delays;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(5);

/// 0.25 s, doubled with each try up to 5 s, the whole times a factor between 0.75 and 1.25 that depends on the node, so
/// that the agents of a cluster do not all come back to a restarted API server in the same instant.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    tries: u32,
    percent: u32,
}

impl Backoff {
    pub(crate) fn new(node: &str) -> Self {
        // FNV-1a: well spread also for names that differ in their last digit only.
        let hash = node
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        Self { tries: 0, percent: 75 + hash % 51 }
    }

    /// The same delays for a watch.
    pub(crate) const fn delays(&self) -> Delays {
        Delays { first: FIRST, longest: LONGEST, percent: self.percent }
    }
}

impl Iterator for Backoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let plain = LONGEST.min(FIRST * 2u32.saturating_pow(self.tries.min(16)));
        self.tries = self.tries.saturating_add(1);
        Some(plain * self.percent / 100)
    }
}

impl KubeBackoff for Backoff {
    fn reset(&mut self) {
        self.tries = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_its_limit_starts_again_after_a_success_and_differs_between_nodes() {
        let mut backoff = Backoff::new("n1");
        let waits: Vec<_> = backoff.by_ref().take(100).collect();
        assert_eq!(waits[1], waits[0] * 2);
        assert!(waits.iter().all(|wait| *wait <= LONGEST * 5 / 4), "{waits:?}");
        assert_eq!(waits[99], waits[50]);
        backoff.reset();
        assert_eq!(backoff.next(), Some(waits[0]));
        let firsts: std::collections::BTreeSet<_> =
            (1..=5).filter_map(|n| Backoff::new(&format!("n{n}")).next()).collect();
        assert!(firsts.len() > 3, "{firsts:?}");
        assert!(firsts.iter().all(|wait| (FIRST * 3 / 4..=FIRST * 5 / 4).contains(wait)), "{firsts:?}");
    }
}

//! Delay between an agent's retries.

use std::time::Duration;

use windlass_ccm::backoff::Backoff;

/// Returns the agent's backoff: 0.25 s, doubled with each failure up to 5 s, times a factor between 0.75 and 1.25 that depends on the
/// node's name, so that the agents of a cluster do not all reconnect to a restarted API server in the same instant.
pub(crate) fn backoff(node: &str) -> Backoff {
    // FNV-1a: well spread also for names that differ in their last digit only.
    let hash =
        node.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    Backoff { first: Duration::from_millis(250), longest: Duration::from_secs(5), percent: 75 + hash % 51 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn agents_come_back_at_different_times() {
        let firsts: BTreeSet<Duration> =
            (1..=5).map(|number| backoff(&format!("n{number}")).delay(1)).collect();
        assert!(firsts.len() > 3, "{firsts:?}");
        let (least, most) = (Duration::from_micros(187_500), Duration::from_micros(312_500));
        assert!(firsts.iter().all(|wait| (least..=most).contains(wait)), "{firsts:?}");
    }
}

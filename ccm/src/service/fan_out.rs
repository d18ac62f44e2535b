//! Measures the time that a change of the nodes takes to reach every load balancer (service-contract S-50). Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use crate::provider::ServiceKey;

/// The changes of nodes that have not reached every load balancer yet. Changes that come meanwhile join in, so the time is
/// that from the first of them until all load balancers follow the last one.
#[derive(Debug, Default)]
pub(crate) struct FanOut {
    since: Option<Instant>,
    /// To be synced since the last change.
    left: BTreeSet<ServiceKey>,
    /// Being synced.
    working: BTreeSet<ServiceKey>,
    took: Option<Duration>,
}

impl FanOut {
    /// The nodes changed: all of `keys` are to be synced.
    pub(crate) fn begin<'a>(&mut self, keys: impl Iterator<Item = &'a ServiceKey>, now: Instant) {
        self.left.extend(keys.cloned());
        if !self.left.is_empty() {
            self.since.get_or_insert(now);
        }
    }

    /// Work on a Service begins, with the nodes as they are.
    pub(crate) fn begin_work(&mut self, key: &ServiceKey) {
        if self.left.remove(key) {
            self.working.insert(key.clone());
        }
    }

    /// Work on a Service has ended, well or not: what failed has its own count, and may fail for ever.
    pub(crate) fn end_work(&mut self, key: &ServiceKey, now: Instant) {
        let ended = self.working.remove(key) && self.working.is_empty() && self.left.is_empty();
        if ended && let Some(since) = self.since.take() {
            self.took = Some(now.saturating_duration_since(since));
        }
    }

    /// Returns the time that it took, once.
    pub(crate) fn take_result(&mut self) -> Option<Duration> {
        self.took.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_when_every_load_balancer_was_looked_at_since_the_last_change() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let keys =
            ["a", "b"].map(|name| ServiceKey { namespace: "default".to_owned(), name: name.to_owned() });
        let [a, b] = &keys;
        let mut fan_out = FanOut::default();
        fan_out.begin([].iter(), at(0));
        fan_out.begin_work(a);
        fan_out.end_work(a, at(1));
        assert_eq!(fan_out.take_result(), None, "nobody was concerned");

        fan_out.begin(keys.iter(), at(10));
        fan_out.begin_work(a);
        fan_out.begin_work(b);
        fan_out.end_work(a, at(11));
        assert_eq!(fan_out.take_result(), None, "b is being looked at");
        fan_out.begin(keys.iter(), at(12));
        fan_out.end_work(b, at(13));
        assert_eq!(fan_out.take_result(), None, "with the nodes as they were before");
        for key in &keys {
            fan_out.begin_work(key);
            fan_out.end_work(key, at(14));
        }
        assert_eq!(fan_out.take_result(), Some(Duration::from_secs(4)));
        assert_eq!(fan_out.take_result(), None);

        fan_out.begin_work(a);
        fan_out.end_work(a, at(20));
        assert_eq!(fan_out.take_result(), None, "the nodes had not changed");
    }
}

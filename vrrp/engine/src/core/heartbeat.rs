//! A timer that runs whatever the virtual routers do: so a node that is Active for none knows, too, how late it acts. Pure.

use std::time::Duration;

use windlass_vrrp::Time;

#[cfg(test)]
mod tests;

/// It runs so often in an interval of adverts: nodes that are held up at the same moment find out alike, but for that part of it.
const IN_AN_INTERVAL: u32 = 4;

/// The timer.
#[derive(Debug, Default)]
pub(super) struct Heartbeat {
    /// From one beat to the next, and when the next is due; `None`: nothing runs.
    beat: Option<(Duration, Time)>,
}

impl Heartbeat {
    /// The shortest interval of adverts among the virtual routers is this; `None`: there are none.
    pub(super) fn follow(&mut self, interval: Option<Duration>, now: Time) {
        let period = interval.and_then(|interval| interval.checked_div(IN_AN_INTERVAL));
        if self.beat.map(|(period, _)| period) != period {
            self.beat = period.map(|period| (period, now + period));
        }
    }

    /// Returns the time of the next beat.
    pub(super) fn due(&self) -> Option<Time> {
        self.beat.map(|(_, due)| due)
    }

    /// Acts on a beat that is due and returns how late that is.
    pub(super) fn act(&mut self, now: Time) -> Option<Duration> {
        let (period, due) = self.beat.filter(|(_, due)| *due <= now)?;
        self.beat = Some((period, now + period));
        Some(now.since(due))
    }
}

//! Rows of `target/bench/failover.json`.

use serde_json::{Value, json};

use crate::group::Measured;
use crate::setup::{Fault, Group, Stress, family_name};
use crate::shared::tenth;

/// The median may be so much above its aim, in milliseconds.
const TOLERANCE_MS: f64 = 5.0;

/// The faults of one kind that befell one group.
pub(crate) struct Row {
    pub(crate) group: Group,
    pub(crate) stress: Stress,
    pub(crate) fault: Fault,
    /// In order of the moments.
    pub(crate) measured: Vec<Measured>,
    /// Faults that could not be measured, and why.
    pub(crate) failures: Vec<String>,
}

impl Row {
    fn gaps(&self) -> Vec<f64> {
        let mut gaps: Vec<f64> = self.measured.iter().map(|one| one.gap_ms).collect();
        gaps.sort_by(f64::total_cmp);
        gaps
    }

    /// `None`: nothing was measured.
    pub(crate) fn median_ms(&self) -> Option<f64> {
        let gaps = self.gaps();
        let (low, high) = (gaps.get(gaps.len().wrapping_sub(1) / 2)?, gaps.get(gaps.len() / 2)?);
        Some(tenth(f64::midpoint(*low, *high)))
    }

    fn lost(&self) -> usize {
        self.measured.iter().map(|one| one.lost).sum()
    }

    /// What the median should not exceed, in milliseconds. A graceful stop loses nothing: its skew time does not count, as
    /// the leaver may go on serving meanwhile.
    fn aim_ms(&self) -> f64 {
        match self.fault {
            Fault::CablePull | Fault::Sigkill | Fault::Sigstop => {
                self.group.bound_ms() - f64::from(self.group.interval_ms) / 2.0 + TOLERANCE_MS
            }
            Fault::GracefulStop => TOLERANCE_MS,
        }
    }

    pub(crate) fn json(&self) -> Value {
        let gaps = self.gaps();
        let in_order: Vec<f64> = self.measured.iter().map(|one| tenth(one.gap_ms)).collect();
        json!({
            "path": "engine",
            "system": self.group.system.name(),
            "family": family_name(self.group.family),
            "interval_ms": self.group.interval_ms,
            "load": self.stress.name(),
            "fault": self.fault.name(),
            "scheduling": "SCHED_FIFO 10",
            "rounds": self.measured.len(),
            "failures": self.failures,
            "min_ms": gaps.first().copied().map(tenth),
            "median_ms": self.median_ms(),
            "max_ms": gaps.last().copied().map(tenth),
            "gaps_ms": in_order,
            "lost": self.lost(),
            "bound_ms": tenth(self.group.bound_ms()),
            "aim_ms": tenth(self.aim_ms()),
            "aim_met": self.median_ms().map(|median| median <= self.aim_ms()),
        })
    }

    pub(crate) fn line(&self) -> String {
        let Group { system, family, interval_ms } = self.group;
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
        let gaps = self.gaps();
        format!(
            "{:10} {} {interval_ms:4} ms {:6} {:13} min {:>7} median {:>7} max {:>7} ms, lost {}, aim {:.1}{}",
            system.name(),
            family_name(family),
            self.stress.name(),
            self.fault.name(),
            number(gaps.first().copied()),
            number(self.median_ms()),
            number(gaps.last().copied()),
            self.lost(),
            self.aim_ms(),
            if self.failures.is_empty() { String::new() } else { format!(", FAILED {:?}", self.failures) },
        )
    }
}

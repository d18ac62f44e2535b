//! Rows of `target/bench/failover.json`.

use serde_json::{Value, json};

use crate::group::Measured;
use crate::setup::{Fault, Group, Stress, System, family_name};
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

    /// What the median should not exceed, in milliseconds. `None`: a graceful stop should lose no request.
    fn aim_ms(&self) -> Option<f64> {
        match self.fault {
            Fault::CablePull | Fault::Sigkill | Fault::Sigstop => {
                Some(self.group.bound_ms() - f64::from(self.group.interval_ms) / 2.0 + TOLERANCE_MS)
            }
            Fault::GracefulStop => None,
        }
    }

    /// `None`: nothing was measured.
    fn aim_met(&self) -> Option<bool> {
        let median = self.median_ms()?;
        Some(self.aim_ms().map_or(self.lost() == 0, |aim| median <= aim))
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
            "aim_ms": self.aim_ms().map(tenth),
            "aim_met": self.aim_met(),
        })
    }

    fn cell(&self) -> String {
        let (median, gaps) = (self.median_ms(), self.gaps());
        let (Some(median), Some(longest)) = (median, gaps.last()) else { return "failed".to_owned() };
        let failed = if self.failures.is_empty() {
            String::new()
        } else {
            format!(", {} failed", self.failures.len())
        };
        match self.fault {
            Fault::CablePull | Fault::Sigkill | Fault::Sigstop => {
                format!("{median:.1} ({longest:.1}){failed}")
            }
            Fault::GracefulStop => format!("{} lost, {longest:.1}{failed}", self.lost()),
        }
    }

    pub(crate) fn line(&self) -> String {
        let Group { system, family, interval_ms } = self.group;
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
        let gaps = self.gaps();
        format!(
            "{:10} {} {interval_ms:4} ms {:6} {:13} min {:>7} median {:>7} max {:>7} ms, lost {}, aim {}{}",
            system.name(),
            family_name(family),
            self.stress.name(),
            self.fault.name(),
            number(gaps.first().copied()),
            number(self.median_ms()),
            number(gaps.last().copied()),
            self.lost(),
            self.aim_ms().map_or("none lost".to_owned(), |aim| format!("{aim:.1} ms")),
            if self.failures.is_empty() { String::new() } else { format!(", FAILED {:?}", self.failures) },
        )
    }
}

/// Tables as `docs/dev/benchmarks.md` has them: of a fault the median and the longest time, of a graceful stop the requests lost.
pub(crate) fn print(rows: &[Row]) {
    for stress in Stress::ALL {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.stress == stress).collect();
        if rows.is_empty() {
            continue;
        }
        println!(
            "\n{}:\n\n| interval | fault | family | aim | {} |",
            stress.name(),
            System::ALL.map(System::name).join(" | ")
        );
        println!("|---:|---|---|---:|{}", "---:|".repeat(System::ALL.len()));
        let mut shown = Vec::new();
        for row in &rows {
            let Group { system: _, family, interval_ms } = row.group;
            let kind = (interval_ms, row.fault.name(), family_name(family));
            if shown.contains(&kind) {
                continue;
            }
            shown.push(kind);
            let cell = |system: System| {
                let of = |other: &&&Row| {
                    let group = other.group;
                    let same = (group.interval_ms, other.fault.name(), family_name(group.family)) == kind;
                    same && group.system == system
                };
                rows.iter().find(of).map_or("-".to_owned(), |row| row.cell())
            };
            let aim = row.aim_ms().map_or("0 lost".to_owned(), |aim| format!("{aim:.1}"));
            println!(
                "| {interval_ms} ms | {} | {} | {aim} | {} |",
                kind.1,
                kind.2,
                System::ALL.map(cell).join(" | ")
            );
        }
    }
    println!();
}

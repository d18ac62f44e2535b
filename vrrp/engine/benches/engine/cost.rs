//! What a process uses.

use std::fs;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

/// CPU time of a process and when it was read.
#[derive(Clone, Copy)]
pub(crate) struct Used {
    at: Instant,
    cpu: Duration,
}

impl Used {
    pub(crate) fn by(process: Pid) -> Self {
        Self::by_threads(process, |_| true)
    }

    /// Only by those of its threads whose name is wanted.
    pub(crate) fn by_threads(process: Pid, wanted: impl Fn(&str) -> bool) -> Self {
        let folder = format!("/proc/{process}/task");
        let tasks = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder}: {error}"));
        let nanos = tasks.flatten().filter_map(|task| {
            let name = fs::read_to_string(task.path().join("comm")).ok()?;
            if !wanted(name.trim_end()) {
                return None;
            }
            // The first number: nanoseconds on a CPU, exact, where `stat` counts ticks.
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        });
        Self { at: Instant::now(), cpu: Duration::from_nanos(nanos.sum()) }
    }

    /// Percent of one CPU since an earlier look.
    pub(crate) fn percent_since(self, earlier: Self) -> f64 {
        self.micros_since(earlier) / 1e4 / (self.at - earlier.at).as_secs_f64()
    }

    /// Microseconds since an earlier look.
    pub(crate) fn micros_since(self, earlier: Self) -> f64 {
        self.cpu.saturating_sub(earlier.cpu).as_secs_f64() * 1e6
    }
}

/// Resident memory of a process, in MB (10⁶ bytes).
pub(crate) fn memory_mb(process: Pid) -> f64 {
    memory(process, "VmRSS:")
}

/// The most that was resident of a process, in MB (10⁶ bytes).
pub(crate) fn peak_mb(process: Pid) -> f64 {
    memory(process, "VmHWM:")
}

fn memory(process: Pid, which: &str) -> f64 {
    let file = format!("/proc/{process}/status");
    let status = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let line = status.lines().find_map(|line| line.strip_prefix(which)).expect(which);
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kB");
    kib * 1024.0 / 1e6
}

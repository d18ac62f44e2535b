//! Counters of keepalived, from its own statistics.

use std::{fs, time::Duration};

use anyhow::{Context as _, ensure};
use nix::sys::signal::Signal;

use super::KEEPALIVED;
use crate::{lab::Lab, wait::await_that};

/// Time limit of keepalived's start, and of the writing of its statistics.
const LIMIT: Duration = Duration::from_secs(30);

/// Counters of a keepalived with one virtual router, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepalivedCounts {
    /// Adverts received and accepted.
    pub received: u64,
    /// Adverts sent.
    pub sent: u64,
    /// Adverts of an Active that resigned (priority 0).
    pub resignations: u64,
    /// Number of times that it became Active.
    pub became_master: u64,
    /// Adverts rejected: length, TTL, type, interval, list of addresses, authentication.
    pub errors: u64,
}

impl Lab {
    /// Returns the counters of keepalived on a host.
    pub async fn keepalived_counts(&self, host: &str) -> anyhow::Result<KeepalivedCounts> {
        let file = self.keepalived_folder(host).join("keepalived.stats");
        if file.exists() {
            fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
        }
        await_that(&format!("keepalived on {host} tells what it counted"), LIMIT, async || {
            if !file.exists() {
                // Before, the signal would end it.
                ensure!(awaits(self.process_id(host, KEEPALIVED)?, Signal::SIGUSR2)?, "it is starting");
                self.signal_process(host, KEEPALIVED, Signal::SIGUSR2)?;
            }
            Ok(counts(&fs::read_to_string(&file)?))
        })
        .await
    }
}

/// Returns true if a process catches or blocks this signal.
fn awaits(pid: i32, signal: Signal) -> anyhow::Result<bool> {
    let file = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&file).with_context(|| format!("reading {file}"))?;
    let masks = status.lines().filter_map(|line| {
        let line = line.strip_prefix("SigBlk:").or_else(|| line.strip_prefix("SigCgt:"))?;
        u64::from_str_radix(line.trim(), 16).ok()
    });
    Ok(masks.fold(0, |all, mask| all | mask) & 1 << (signal as i32 - 1) != 0)
}

/// The counts in keepalived's statistics; `None` while they are not all there.
fn counts(text: &str) -> Option<KeepalivedCounts> {
    let mut counts = KeepalivedCounts::default();
    let mut section = "";
    let mut is_whole = false;
    for line in text.lines() {
        let (name, value) = line.split_once(':')?;
        let (name, value) = (name.trim(), value.trim());
        let Ok(value) = value.parse::<u64>() else {
            section = name;
            continue;
        };
        match (section, name) {
            ("Advertisements", "Received") => counts.received = value,
            ("Advertisements", "Sent") => counts.sent = value,
            ("Advertisements", "Became master") => counts.became_master = value,
            ("Packet Errors" | "Authentication Errors", _) => counts.errors += value,
            ("Priority Zero", "Received") => counts.resignations = value,
            ("Priority Zero", "Sent") => is_whole = true,
            _ => {}
        }
    }
    is_whole.then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: &str = "VRRP Instance: lab7
  Advertisements:
    Received: 12
    Sent: 2
  Became master: 1
  Released master: 0
  Packet Errors:
    Length: 3
    TTL: 0
    Invalid Type: 0
    Advertisement Interval: 4
    Address List: 5
  Authentication Errors:
    Invalid Type: 0
    Type Mismatch: 6
    Failure: 0
  Priority Zero:
    Received: 7
    Sent: 0
";

    #[test]
    fn counts_are_read_once_all_of_them_are_there() {
        let wanted =
            KeepalivedCounts { received: 12, sent: 2, resignations: 7, became_master: 1, errors: 18 };
        assert_eq!(counts(TOLD), Some(wanted));
        for end in [0, 30, 200, TOLD.len() - 12] {
            assert_eq!(counts(&TOLD[..end]), None, "{:?}", &TOLD[..end]);
        }
    }
}

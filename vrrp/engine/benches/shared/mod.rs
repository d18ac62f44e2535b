//! Parts that several benches need.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use nix::unistd::gettid;
use serde_json::Value;

use crate::lab::Host;

pub(crate) mod adverts;
pub(crate) mod load;
pub(crate) mod site;

/// Real-time priority of what measures: below the routers' (10), above whatever loads the machine.
pub(crate) const OBSERVER: &str = "5";

/// Puts the calling thread under SCHED_FIFO at this priority.
pub(crate) fn real_time(priority: &str) {
    let thread = gettid().to_string();
    let status = Command::new("chrt").args(["-f", "-p", priority, &thread]).status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "chrt -f -p {priority}: real-time priority is refused"
    );
}

/// This program's path.
pub(crate) fn own_path() -> String {
    std::env::current_exe().expect("path of this program").display().to_string()
}

/// A number from the environment.
pub(crate) fn setting(name: &str, default: u32) -> u32 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}: a number is wanted")),
        Err(_) => default,
    }
}

/// A list from the environment, as `FAULTS="cable-pull sigkill"`, or everything.
pub(crate) fn wanted(name: &str, item: &str) -> bool {
    std::env::var(name).map_or(true, |list| list.split([' ', ',']).any(|word| word == item))
}

/// One decimal.
pub(crate) fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Returns the least, middle and greatest value.
pub(crate) fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_unstable_by(f64::total_cmp);
    [values[0], values[values.len() / 2], values[values.len() - 1]]
}

/// Returns the CPU time of this process, ended threads and the kernel's work for its packets included, and of the kernel's threads that do
/// the rest of that work.
pub(crate) fn used() -> Duration {
    let kernel: u64 = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|process| {
            let name = fs::read_to_string(process.path().join("comm")).ok()?;
            let text = fs::read_to_string(process.path().join("schedstat")).ok()?;
            name.starts_with("ksoftirqd").then(|| text.split(' ').next()?.parse::<u64>().ok())?
        })
        .sum();
    Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap()) + Duration::from_nanos(kernel)
}

/// Returns the bytes that the kernel keeps for itself in small pieces, as connections and elements of nf_tables.
pub(crate) fn unreclaimable() -> f64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("SUnreclaim:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() * 1024.0
}

/// Has `nft` apply these rules in the host's namespace.
pub(crate) fn nft(host: &Host, rules: &str) {
    let rules = rules.to_owned();
    host.run(move || {
        let mut child = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(rules.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "nft");
    });
}

/// Makes it the caller's who ran this by sudo.
fn give_back(path: &Path) {
    let id = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    if let Some(user) = id("SUDO_UID") {
        std::os::unix::fs::chown(path, Some(user), id("SUDO_GID")).expect("give it to the caller");
    }
}

/// Replaces those rows of `target/bench/<name>` that `ours` tells, keeps the others, and returns the path.
pub(crate) fn write(name: &str, rows: Vec<Value>, ours: impl Fn(&Value) -> bool) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target"), PathBuf::from);
    let folder = target.join("bench");
    fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("making {}: {error}", folder.display()));
    let folder = folder.canonicalize().unwrap_or(folder);
    let file = folder.join(name);
    let earlier = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice::<Vec<Value>>(&bytes).ok());
    let mut all = rows;
    all.extend(earlier.unwrap_or_default().into_iter().filter(|row| !ours(row)));
    let text = serde_json::to_string_pretty(&all).expect("rows are JSON") + "\n";
    fs::write(&file, text).unwrap_or_else(|error| panic!("writing {}: {error}", file.display()));
    give_back(&folder);
    give_back(&file);
    file
}

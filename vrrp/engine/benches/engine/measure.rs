//! Runs the cases.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use serde_json::{Value, json};
use windlass_engine::Hold;

use crate::announcements::Announcements;
use crate::case::Case;
use crate::cost::{Used, memory_mb};
use crate::interop::process::{Daemon, TempDir};
use crate::lab::Host;
use crate::report::line;
use crate::routers::arguments;
use crate::shared::adverts::Adverts;
use crate::shared::site::{Site, source};
use crate::shared::{OBSERVER, own_path, real_time, setting, tenth, wanted};

/// Host that takes no part.
pub(crate) const WITNESS: usize = 2;
/// From so many VIPs on their announcements, repeated for this long, would disturb.
const MANY: usize = 1000;
const CAMPAIGN: Duration = Duration::from_secs(7);
/// Every wait.
const LIMIT: Duration = Duration::from_mins(1);

/// Measures every case of its own that is wanted, and returns the rows.
pub(crate) fn all() -> Vec<Value> {
    real_time(OBSERVER);
    let cases: Vec<Case> = Case::all().into_iter().filter(|case| wanted("CASES", &case.name())).collect();
    let (begin, count) = (Instant::now(), u32::try_from(cases.len()).expect("a small number"));
    let mut rows = Vec::new();
    for (done, case) in (1..).zip(cases) {
        let row = measure(case);
        let rest = begin.elapsed() * (count - done) / done;
        println!("bench: {done} of {count}, about {} s to go: {}", rest.as_secs(), line(&row));
        rows.push(row);
    }
    if wanted("CASES", "flat-out") {
        let row = flat_out(Case::flat_out());
        println!("bench: {}", line(&row));
        rows.push(row);
    }
    rows
}

fn measure(case: Case) -> Value {
    let site = Site::new(3, case.segments());
    let scratch = TempDir::new();
    let announcements = Announcements::on(&site.hosts[WITNESS], case.family);
    let adverts = Adverts::on(&site.hosts[WITNESS], case.family);
    let mut nodes = [0, 1].map(|number| start(&site.hosts[number], &scratch, case, number));
    settle(case, &site, &announcements);

    let before = [0, 1].map(|node: usize| Used::by(nodes[node].pid()));
    std::thread::sleep(Duration::from_secs(setting("REST", 5).into()));
    let after = [0, 1].map(|node: usize| Used::by(nodes[node].pid()));
    let [active, backup] = [0, 1].map(|node| tenth(after[node].percent_since(before[node])));
    let memory = [0, 1].map(|node: usize| tenth(memory_mb(nodes[node].pid())));

    let (mut firsts, mut lasts, mut missing) = (Vec::new(), Vec::new(), 0);
    let rounds = setting("ROUNDS", 3);
    for round in 0..rounds {
        let (first, last, silent) = fail_over(case, &nodes[0], &adverts, &announcements);
        firsts.extend(first);
        lasts.extend(last);
        missing += silent;
        if round + 1 < rounds {
            nodes[0].sigkill();
            nodes[0] = start(&site.hosts[0], &scratch, case, 0);
            settle(case, &site, &announcements);
        }
    }
    json!({
        "measure": "cost",
        "case": case.name(),
        "family": case.family_name(),
        "hold": case.hold_name(),
        "routers": case.routers,
        "vips": case.all_vips(),
        "interval_ms": case.interval_ms,
        "cpu_percent": active,
        "backup_cpu_percent": backup,
        "memory_mb": memory[0],
        "backup_memory_mb": memory[1],
        "rounds": rounds,
        "first_vip_ms": median(firsts),
        "last_vip_ms": median(lasts),
        "vips_not_announced": missing,
    })
}

/// Kills the Active; when the first and the last VIP were announced, in milliseconds, and how many were not.
pub(crate) fn fail_over(
    case: Case,
    active: &Daemon,
    adverts: &Adverts,
    announcements: &Announcements,
) -> (Option<f64>, Option<f64>, usize) {
    adverts.forget();
    announcements.forget();
    loop {
        let heard = adverts.next(Instant::now() + LIMIT).expect("adverts of the Active");
        if heard.source == source(case.family, 0) {
            std::thread::sleep((heard.at + case.interval() / 2).saturating_duration_since(Instant::now()));
            break;
        }
    }
    let began = Instant::now();
    killpg(active.pid(), Signal::SIGKILL).expect("kill the Active");
    // What it still announced.
    announcements.forget();
    let limit = case.interval() * 5 + Duration::from_secs(15);
    let heard = announcements.await_all(case.all_vips(), began + limit);
    let after = |at: &Instant| (*at - began).as_secs_f64() * 1000.0;
    let (first, last) = (heard.values().min().map(after), heard.values().max().map(after));
    (first, last, case.all_vips() - heard.len())
}

pub(crate) fn start(host: &Host, scratch: &TempDir, case: Case, node: usize) -> Daemon {
    let program = own_path();
    let arguments = arguments(case, node);
    let mut command = vec!["chrt", "-o", "0", program.as_str()];
    command.extend(arguments.iter().map(String::as_str));
    Daemon::start(host, scratch, &format!("node{node}"), &command)
}

/// Waits until the first node sends all adverts, the other none, and no announcements are due for a while.
pub(crate) fn settle(case: Case, site: &Site, announcements: &Announcements) {
    let deadline = Instant::now() + LIMIT;
    if case.all_vips() >= MANY {
        std::thread::sleep(CAMPAIGN);
    }
    let pause = (case.interval() * 4).max(Duration::from_secs(1));
    let expected = case.expected_in(pause);
    loop {
        let before = [0, 1].map(|node: usize| adverts_sent(&site.hosts[node]));
        announcements.forget();
        std::thread::sleep(pause);
        let [active, backup] = [0, 1].map(|node: usize| adverts_sent(&site.hosts[node]) - before[node]);
        let quiet = announcements.await_all(1, Instant::now() + Duration::from_millis(1)).is_empty();
        // More are repeated announcements, or reports of the groups that many VIPs of IPv6 are solicited in; of bound ones
        // the kernel reports for as long as they are renewed.
        let calm = case.hold == Hold::Address || active * 10 < expected * 13 + 20;
        if active * 10 > expected * 7 && backup * 10 < expected * 3 && quiet && calm {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{}: {active} adverts by the first node and {backup} by the other in {pause:?}; expected were {expected} and 0; \
             announcements: {}",
            case.name(),
            if quiet { "none" } else { "some" }
        );
    }
}

/// Frames that a host has sent: its adverts and announcements.
pub(crate) fn adverts_sent(host: &Host) -> u64 {
    let text =
        host.run(|| fs::read_to_string("/proc/thread-self/net/dev").expect("counters of the interfaces"));
    let sent = text.lines().filter_map(|line| {
        let (name, counters) = line.trim().split_once(':')?;
        // The tenth column: packets sent.
        name.starts_with("eth").then(|| counters.split_whitespace().nth(9)?.parse::<u64>().ok()).flatten()
    });
    sent.sum()
}

/// One process with nobody to hear it.
fn flat_out(case: Case) -> Value {
    let site = Site::new(2, case.segments());
    let scratch = TempDir::new();
    let node = start(&site.hosts[0], &scratch, case, 0);
    std::thread::sleep(Duration::from_secs(8));
    let seconds = 5;
    let (used, sent) = (Used::by(node.pid()), adverts_sent(&site.hosts[0]));
    std::thread::sleep(Duration::from_secs(seconds));
    let (used_then, sent_then) = (Used::by(node.pid()), adverts_sent(&site.hosts[0]));
    json!({
        "measure": "adverts",
        "case": "flat-out",
        "routers": case.routers,
        "interval_ms": case.interval_ms,
        "adverts_per_second": (sent_then - sent) / seconds,
        "wanted_per_second": case.expected_in(Duration::from_secs(1)),
        "cpu_percent": tenth(used_then.percent_since(used)),
    })
}

pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied().map(tenth)
}

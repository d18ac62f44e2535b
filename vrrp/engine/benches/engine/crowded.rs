//! Takeovers of 10,000 guarded VIPs by a node whose kernel tracks a million connections to them, while a program changes nftables each
//! second.

use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_engine::Family;
use windlass_kernel::connections::{Connection, ConnectionKey, Inserted, Tracking, Transport};

use crate::announcements::Announcements;
use crate::case::Case;
use crate::cost::{Used, peak_mb};
use crate::interop::process::{Daemon, TempDir};
use crate::lab::Host;
use crate::measure::{WITNESS, fail_over, median, settle, start};
use crate::shared::adverts::Adverts;
use crate::shared::site::{Site, vip};
use crate::shared::{setting, tenth};

/// Its name among the cases.
pub(crate) const CASE: &str = "crowded";
/// Skew and three intervals of the successor, and what an announcement waits for its connections after a silence.
const BOUND: f64 = 402.3;
const LIFETIME: Duration = Duration::from_hours(1);
/// After a takeover: by then closed connections are forgotten.
const AFTERWARDS: Duration = Duration::from_secs(3);
/// Of the whole machine, whose first namespace has it.
const LIMIT: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
/// Inserted at once.
const PIECE: u32 = 50_000;
const WRITER: &str =
    "while :; do nft 'add table inet bench-writer; delete table inet bench-writer'; sleep 1; done";
const HOLD_THREAD: &str = "windlass-hold";

pub(crate) fn measure() -> Value {
    let case = Case { vips: 10_000, family: Family::V6, guarded: true, ..Case::one_router() };
    let (entries, rounds) = (setting("ENTRIES", 1_000_000), setting("ROUNDS", 20));
    let _limit = Limit::at_least(entries + entries / 5);
    let site = Site::new(3, 1);
    let scratch = TempDir::new();
    fill(&site.hosts[1], case, entries);
    let announcements = Announcements::on(&site.hosts[WITNESS], case.family);
    let adverts = Adverts::on(&site.hosts[WITNESS], case.family);
    let backup = start(&site.hosts[1], &scratch, case, 1);
    let _writer = Daemon::start(&site.hosts[1], &scratch, "writer", &["sh", "-c", WRITER]);
    let (mut first, mut last, mut hold, mut silent) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for _ in 0..rounds {
        let mut active = start(&site.hosts[0], &scratch, case, 0);
        settle(case, &site, &announcements);
        let used = || Used::by_threads(backup.pid(), |thread| thread == HOLD_THREAD);
        let before = used();
        let (taken, done, missing) = fail_over(case, &active, &adverts, &announcements);
        first.extend(taken);
        last.extend(done);
        silent += missing;
        active.sigkill();
        std::thread::sleep(AFTERWARDS);
        hold.push(used().micros_since(before) / 1000.0);
    }
    json!({
        "measure": "crowded",
        "case": CASE,
        "entries": entries,
        "vips": case.all_vips(),
        "rounds": rounds,
        "interval_ms": case.interval_ms,
        "failover_median_ms": median(first.clone()),
        "failover_p99_ms": first.iter().copied().max_by(f64::total_cmp).map(tenth),
        "bound_ms": BOUND,
        "last_vip_ms": median(last),
        "vips_not_announced": silent,
        "hold_cpu_ms": median(hold),
        "peak_memory_mb": tenth(peak_mb(backup.pid())),
    })
}

/// Has the host's kernel track so many connections to the VIPs.
fn fill(host: &Host, case: Case, entries: u32) {
    host.run(move || {
        let mut tracking = Tracking::open().unwrap().with_share(100);
        for piece in (0..entries).step_by(PIECE as usize) {
            let connections: Vec<_> =
                (piece..entries.min(piece + PIECE)).map(|number| connection(case, number)).collect();
            let outcomes = tracking.insert(&connections, LIFETIME).unwrap();
            let other = outcomes.iter().find(|outcome| **outcome != Inserted::New);
            assert_eq!(other, None, "connection {piece} and the next");
        }
    });
}

fn connection(case: Case, number: u32) -> Connection {
    let of = |network: u128, host: u32| IpAddr::from(Ipv6Addr::from_bits(network << 96 | u128::from(host)));
    let vip = vip(case.family, 0, number as usize % case.vips);
    // Each client has 50,000 ports.
    let (client, port) = (of(0x2001_0db9, number / 50_000), u16::try_from(number % 50_000 + 1024).unwrap());
    Connection {
        key: ConnectionKey {
            transport: Transport::Tcp,
            client: SocketAddr::new(client, port),
            vip: (vip, 80).into(),
        },
        backend: (of(0x2001_0dba, number / 50_000), 8080).into(),
        source: (vip, port).into(),
    }
}

/// How many connections the machine tracks at most, until it is dropped.
struct Limit {
    before: String,
}

impl Limit {
    fn at_least(entries: u32) -> Self {
        let before = fs::read_to_string(LIMIT).unwrap_or_else(|error| panic!("{LIMIT}: {error}"));
        if before.trim().parse::<u32>().is_ok_and(|limit| limit < entries) {
            fs::write(LIMIT, entries.to_string()).unwrap_or_else(|error| panic!("{LIMIT}: {error}"));
        }
        Self { before }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        let _ = fs::write(LIMIT, &self.before);
    }
}

//! What 200,000 connections of an Active cost a Backup's process, told by the one and put into the kernel by the other.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_engine::Family;
use windlass_kernel::connections::{Inserted, Tracking};

use crate::cost::{memory_mb, peak_mb};
use crate::interop::process::TempDir;
use crate::lab::Lan;
use crate::replica::{Routers, known, start, vip};
use crate::shared::{setting, tenth};
use crate::table;

const ROUTERS: Routers = Routers { count: 1, vips: 1 };
const LIFETIME: Duration = Duration::from_hours(1);
const LIMIT: Duration = Duration::from_mins(2);
/// Of these memory is taken that the process no longer uses but has not given back.
const SETTLED: Duration = Duration::from_secs(5);

pub(crate) fn all() -> Vec<Value> {
    let entries = setting("ENTRIES", 200_000);
    let (lan, scratch) = (Lan::new(2), TempDir::new());
    let backup = start(&lan.hosts[1], &scratch, ROUTERS, 1);
    let _active = start(&lan.hosts[0], &scratch, ROUTERS, 0);
    await_known(&scratch, 0);
    thread::sleep(SETTLED);
    let before = memory_mb(backup.pid());
    lan.hosts[0].run(move || {
        let mut tracking = Tracking::open().unwrap().with_share(100);
        let connections: Vec<_> = (0..entries).map(|number| table::connection(number, vip(0))).collect();
        let outcomes = tracking.insert(&connections, LIFETIME).unwrap();
        assert!(outcomes.iter().all(|outcome| *outcome == Inserted::New));
    });
    // No event tells of them: they are found by the list of each minute.
    let begin = Instant::now();
    await_known(&scratch, entries);
    let told = begin.elapsed();
    thread::sleep(SETTLED);
    let vips = [IpAddr::V4(vip(0))].into();
    let in_kernel = lan.hosts[1].run(move || {
        let mut listed = 0;
        Tracking::open().unwrap().list(Family::V4, &vips, |_, _| listed += 1).unwrap();
        listed
    });
    assert_eq!(in_kernel, entries, "in the Backup's kernel");
    let after = memory_mb(backup.pid());
    vec![
        json!({"what": "backup_memory_mb", "entries": entries, "with_none": tenth(before), "with_all": tenth(after),
                "growth": tenth(after - before), "peak": tenth(peak_mb(backup.pid())),
                "told_after_s": tenth(told.as_secs_f64())}),
    ]
}

fn await_known(scratch: &TempDir, connections: u32) {
    let begin = Instant::now();
    while known(scratch, 1) != usize::try_from(connections).ok() {
        assert!(begin.elapsed() < LIMIT, "the Backup knows {:?} instead of {connections}", known(scratch, 1));
        thread::sleep(Duration::from_millis(100));
    }
}

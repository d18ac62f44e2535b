//! Reading and changing the kernel's table.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use nix::unistd::getpid;
use serde_json::{Value, json};
use windlass_engine::Family;
use windlass_kernel::connections::{Connection, ConnectionKey, Inserted, Tracking, Transport};

use crate::cost::memory_mb;
use crate::lab::{Host, VIP};
use crate::shared::{setting, spread, tenth, unreclaimable};

const LIFETIME: Duration = Duration::from_mins(10);
/// That a backend's node has in another form.
const FORWARDED: u32 = 10_000;

/// A connection to this VIP of its own for each number.
pub(crate) fn connection(number: u32, vip: std::net::Ipv4Addr) -> Connection {
    let client =
        SocketAddr::from((std::net::Ipv4Addr::from_bits(0xc612_0000 + number / 50_000), port(number)));
    let key = ConnectionKey { transport: Transport::Tcp, client, vip: (vip, 80).into() };
    let backend = std::net::Ipv4Addr::from_bits(0xc000_0264 + number / 50_000);
    Connection { key, backend: (backend, 8080).into(), source: (vip, port(number)).into() }
}

fn port(number: u32) -> u16 {
    u16::try_from(number % 50_000 + 1024).unwrap()
}

pub(crate) fn all() -> Vec<Value> {
    let (rounds, entries) = (setting("ROUNDS", 5), setting("ENTRIES", 200_000));
    let mut figures: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for _ in 0..rounds {
        let host = Host::new();
        for (what, figure) in host.run(move || round(entries)) {
            figures.entry(what).or_default().push(figure);
        }
    }
    figures
        .into_iter()
        .map(|(what, values)| {
            let [least, middle, most] = spread(values).map(tenth);
            json!({"what": what, "entries": entries, "rounds": rounds, "min": least, "median": middle, "max": most})
        })
        .collect()
}

fn round(entries: u32) -> Vec<(&'static str, f64)> {
    let mut tracking = Tracking::open().unwrap().with_share(100);
    let connections: Vec<_> = (0..entries).map(|number| connection(number, VIP)).collect();
    let keys: Vec<_> = connections.iter().map(|connection| connection.key).collect();
    let before = memory_mb(getpid());
    let kernel_before = unreclaimable();
    let mut figures = Vec::new();
    let mut timed = |what: &'static str, job: &mut dyn FnMut(&mut Tracking)| {
        let begin = Instant::now();
        job(&mut tracking);
        figures.push((what, begin.elapsed().as_secs_f64() * 1e3));
    };
    timed("insert_ms", &mut |tracking| {
        let outcomes = tracking.insert(&connections, LIFETIME).unwrap();
        assert!(outcomes.iter().all(|outcome| *outcome == Inserted::New));
    });
    let kernel = unreclaimable();
    timed("list_ms", &mut |tracking| assert_eq!(count(tracking), entries));
    timed("insert_again_ms", &mut |tracking| {
        let outcomes = tracking.insert(&connections, LIFETIME).unwrap();
        assert!(outcomes.iter().all(|outcome| *outcome == Inserted::Present));
    });
    timed("refresh_ms", &mut |tracking| assert!(tracking.refresh(&keys, LIFETIME).unwrap().is_empty()));
    timed("delete_ms", &mut |tracking| assert_eq!(tracking.delete(&keys).unwrap(), keys.len()));
    let forwarded: Vec<_> = connections.iter().take(FORWARDED as usize).map(forwarded).collect();
    assert!(tracking.insert(&forwarded, LIFETIME).unwrap().iter().all(|outcome| *outcome == Inserted::New));
    let begin = Instant::now();
    let outcomes = tracking.replace(&connections[..forwarded.len()], LIFETIME).unwrap();
    figures.push(("replace_10000_ms", begin.elapsed().as_secs_f64() * 1e3));
    assert!(outcomes.iter().all(|outcome| *outcome == Inserted::New));
    figures.push(("kernel_memory_mb", (kernel - kernel_before) / 1e6));
    figures.push(("memory_growth_mb", memory_mb(getpid()) - before));
    figures
}

fn count(tracking: &mut Tracking) -> u32 {
    let mut listed = 0;
    tracking.list(Family::V4, &[IpAddr::V4(VIP)].into(), |_, _| listed += 1).unwrap();
    listed
}

/// As the node of its backend has it, untranslated.
fn forwarded(connection: &Connection) -> Connection {
    let key = ConnectionKey {
        transport: connection.key.transport,
        client: connection.source,
        vip: connection.backend,
    };
    Connection { key, backend: connection.backend, source: connection.source }
}

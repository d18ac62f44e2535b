//! Replication over UDP, as the engine does it, beside a prototype over TCP, on a LAN that loses packets: how long until a new Backup has
//! all connections, the delay from a change to the Backup and to its acknowledgement, and how many connections of a stream of new ones a
//! takeover would keep.
//!
//! Only the transport is measured: senders and receivers without the kernel's connection tracking, signed messages on both.

use std::collections::BTreeMap;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use serde_json::{Value, json};
use windlass_engine::auth::{AuthMode, KeyId, Keyring};
use windlass_kernel::clock;
use windlass_kernel::poll::poll;
use windlass_vrrp::Time;
use windlass_vrrp::replication::{Connection, Connections, Envelopes, Way};

use crate::lab::{Host, Lan, address};
use crate::replica::vip;
use crate::shared::{nft, setting, spread, tenth, wanted};
use crate::table;

mod tcp;
mod udp;

/// The engine's port for replication.
const PORT: u16 = 10112;
const ACTIVE: usize = 0;
const BACKUP: usize = 1;
/// Time between two looks at the kernel's events, as the engine's.
const LOOK: Duration = Duration::from_millis(100);
/// Longest time for a snapshot or a single change.
const LIMIT: Duration = Duration::from_mins(2);
/// New connections in a second.
const RATE: u32 = 2_000;
/// Time from the acknowledgement of a change to the next one.
const PAUSE: Duration = Duration::from_millis(50);

/// The Active's end.
trait Source {
    fn changed(&mut self, connection: &Connection, now: Time);
    /// Receives and sends what is there. Returns the time of the next turn.
    fn turn(&mut self, table: &Connections, now: Time) -> Time;
    fn descriptor(&self) -> BorrowedFd<'_>;
    /// Returns true if it cannot send until the descriptor is writable.
    fn is_blocked(&self) -> bool;
    /// Returns true if the Backup has acknowledged everything.
    fn is_acknowledged(&self) -> bool;
}

/// The Backup's end.
trait Sink {
    /// Receives and sends what is there. Returns the time of the next turn.
    fn turn(&mut self, now: Time) -> Option<Time>;
    fn descriptor(&self) -> BorrowedFd<'_>;
    fn replicas(&self) -> &Connections;
    /// Returns true if it has a whole snapshot and everything after it.
    fn is_in_sync(&self, now: Time) -> bool;
}

/// Variant of the prototype.
#[derive(Clone, Copy)]
struct Tcp {
    /// True if a heartbeat follows 20, 60, 140 ms … after what is not acknowledged.
    probes: bool,
    /// Algorithm of congestion control.
    congestion: &'static str,
    /// Settings of the kernel (`net.ipv4`).
    settings: &'static [&'static str],
}

/// UDP where there is no variant of TCP.
const TRANSPORTS: [(&str, Option<Tcp>); 6] = [
    ("udp", None),
    ("tcp", Some(Tcp { probes: false, congestion: "cubic", settings: &[] })),
    ("tcp-probes", Some(Tcp { probes: true, congestion: "cubic", settings: THIN })),
    ("tcp-probes-bbr", Some(Tcp { probes: true, congestion: "bbr", settings: THIN })),
    ("tcp-probes-rto", Some(Tcp { probes: true, congestion: "cubic", settings: RTO })),
    ("tcp-probes-rto-bbr", Some(Tcp { probes: true, congestion: "bbr", settings: RTO })),
];
/// No exponential pause between retransmissions of little data.
const THIN: &[&str] = &["tcp_thin_linear_timeouts=1"];
/// The same, and a timeout of 20 instead of 200 ms, which older kernels do not have as a setting.
const RTO: &[&str] = &["tcp_thin_linear_timeouts=1", "tcp_rto_min_us=20000"];

pub(crate) fn all() -> Vec<Value> {
    let (rounds, samples, seconds) = (setting("ROUNDS", 5), setting("SAMPLES", 150), setting("SECONDS", 5));
    let mut figures: BTreeMap<(&str, u32, String), Vec<f64>> = BTreeMap::new();
    for _ in 0..rounds {
        for loss in [0, 5, 20].into_iter().filter(|loss| wanted("LOSS", &loss.to_string())) {
            for (name, tcp) in TRANSPORTS.into_iter().filter(|(name, _)| wanted("TRANSPORTS", name)) {
                let mut note = |what: &str, values: Vec<f64>| {
                    figures.entry((name, loss, what.to_owned())).or_default().extend(values);
                };
                for entries in [10_000, 200_000].into_iter().filter(|n: &u32| wanted("SIZES", &n.to_string()))
                {
                    let took = Pair::start(tcp, loss, entries).snapshot(entries);
                    note(&format!("snapshot_of_{entries}_ms"), vec![took]);
                }
                let mut pair = Pair::start(tcp, loss, 0);
                pair.snapshot(0);
                let (applied, acknowledged) = pair.delays(samples);
                note("replicated_after_ms", applied);
                note("acknowledged_after_ms", acknowledged);
                note("kept_percent_of_last_second", pair.kept(seconds));
            }
        }
    }
    figures.into_iter().map(|((name, loss, what), values)| row(name, loss, &what, values)).collect()
}

fn row(name: &str, loss: u32, what: &str, mut values: Vec<f64>) -> Value {
    let [least, middle, most] = spread(values.clone()).map(tenth);
    let mean = values.iter().sum::<f64>() / f64::from(u32::try_from(values.len()).unwrap());
    values.sort_unstable_by(f64::total_cmp);
    let [p1, p99] = [1, 99].map(|percent| tenth(values[(values.len() - 1) * percent / 100]));
    json!({"what": what, "transport": name, "loss_percent": loss, "samples": values.len(), "mean": tenth(mean),
           "min": least, "p1": p1, "median": middle, "p99": p99, "max": most})
}

/// State of the Backup's thread, for the Active's.
#[derive(Default)]
struct Shown {
    stop: AtomicBool,
    in_sync: AtomicBool,
    count: AtomicUsize,
    /// Numbers of connections, and when it first had so many.
    arrivals: Mutex<Vec<(usize, Time)>>,
}

/// An Active, which [`Pair::turn`] drives, and a Backup with a thread of its own.
struct Pair {
    _lan: Lan,
    table: Connections,
    source: Box<dyn Source>,
    begun: Time,
    /// Time of the Active's next turn.
    due: Time,
    next: u32,
    shown: Arc<Shown>,
    backup: Option<JoinHandle<()>>,
}

impl Pair {
    fn start(tcp: Option<Tcp>, loss: u32, entries: u32) -> Self {
        let lan = Lan::new(2);
        let settings = tcp.map_or(&[] as &[_], |tcp| tcp.settings);
        await_link(&lan);
        lan.hosts.iter().for_each(|host| prepare(host, loss, settings));
        let mut table = Connections::default();
        for number in 0..entries {
            table.put(connection(number)).unwrap();
        }
        let begun = clock::now();
        let (source, mut sink): (Box<dyn Source>, Box<dyn Sink + Send>) = match tcp {
            None => udp::open(&lan, begun),
            Some(tcp) => tcp::open(&lan, tcp, begun),
        };
        let shown = Arc::new(Shown::default());
        let backup = thread::spawn({
            let shown = Arc::clone(&shown);
            move || receive(sink.as_mut(), &shown)
        });
        Self { _lan: lan, table, source, begun, due: begun, next: entries, shown, backup: Some(backup) }
    }

    /// Returns the milliseconds until the Backup has them all.
    fn snapshot(&mut self, entries: u32) -> f64 {
        let all = usize::try_from(entries).unwrap();
        while !(self.shown.in_sync.load(Ordering::Relaxed) && self.count() == all) {
            if clock::now() >= self.begun + LIMIT {
                println!("bench: {} of {entries} within {LIMIT:?}", self.count());
                break;
            }
            self.turn(Duration::from_millis(1));
        }
        milliseconds(clock::now().since(self.begun))
    }

    /// Returns the milliseconds from single changes to the Backup, and until they are acknowledged.
    fn delays(&mut self, samples: u32) -> (Vec<f64>, Vec<f64>) {
        let (mut began, mut acknowledged) = (BTreeMap::new(), Vec::new());
        for _ in 0..samples {
            let now = clock::now();
            self.add(1, now);
            began.insert(self.table.len(), now);
            while !self.source.is_acknowledged() && clock::now() < now + LIMIT {
                self.turn(LOOK);
            }
            acknowledged.push(milliseconds(clock::now().since(now)));
            self.rest_until(clock::now() + PAUSE);
        }
        let arrivals = self.shown.arrivals.lock().unwrap();
        let after = |(count, at): &(usize, Time)| Some(milliseconds(at.since(*began.get(count)?)));
        (arrivals.iter().filter_map(after).collect(), acknowledged)
    }

    /// Adds new connections, those of each look together. Returns the percentage of those of the last second that a takeover
    /// would keep, at many moments.
    fn kept(&mut self, seconds: u32) -> Vec<f64> {
        let (mut kept, begin) = (Vec::new(), clock::now());
        for look in 0..(seconds + 1) * 10 {
            self.add(RATE / 10, clock::now());
            // Each 7 ms: no multiple of the look, nor of anything that a transport waits for.
            for moment in 1..=14 {
                self.rest_until(begin + LOOK * look + Duration::from_millis(7) * moment);
                let missing = u32::try_from(self.table.len().saturating_sub(self.count())).unwrap();
                // Before that the last second is not full.
                if look >= 10 {
                    kept.push(100.0 * f64::from(RATE.saturating_sub(missing)) / f64::from(RATE));
                }
            }
        }
        kept
    }

    fn add(&mut self, many: u32, now: Time) {
        for _ in 0..many {
            let connection = connection(self.next);
            self.next += 1;
            self.due = now;
            self.table.put(connection).unwrap();
            self.source.changed(&connection, now);
        }
    }

    fn rest_until(&mut self, end: Time) {
        while clock::now() < end {
            self.turn(end.since(clock::now()));
        }
    }

    /// Waits until the Active has something to do, for at most `limit`, and lets it act.
    fn turn(&mut self, limit: Duration) {
        let wait = self.due.since(clock::now()).min(limit);
        let writes = if self.source.is_blocked() { PollFlags::POLLOUT } else { PollFlags::empty() };
        poll(
            &mut [PollFd::new(self.source.descriptor(), PollFlags::POLLIN | writes)],
            Some(wait),
            "the Backup",
        );
        self.due = self.source.turn(&self.table, clock::now());
    }

    fn count(&self) -> usize {
        self.shown.count.load(Ordering::Relaxed)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.shown.stop.store(true, Ordering::Relaxed);
        self.backup.take().unwrap().join().unwrap();
    }
}

fn receive(sink: &mut dyn Sink, shown: &Shown) {
    let mut before = 0;
    while !shown.stop.load(Ordering::Relaxed) {
        let due = sink.turn(clock::now());
        let (now, count) = (clock::now(), sink.replicas().len());
        shown.in_sync.store(sink.is_in_sync(now), Ordering::Relaxed);
        if count != before {
            before = count;
            shown.count.store(count, Ordering::Relaxed);
            shown.arrivals.lock().unwrap().push((count, now));
        }
        let wait = due.map_or(LOOK, |due| due.since(now)).min(LOOK);
        poll(&mut [PollFd::new(sink.descriptor(), PollFlags::POLLIN)], Some(wait), "the Active");
    }
}

/// Waits until the hosts reach each other: a first packet that the bridge loses would count.
fn await_link(lan: &Lan) {
    let listener = lan.hosts[ACTIVE].run(|| TcpListener::bind((ip(ACTIVE), PORT)).unwrap());
    drop(lan.hosts[BACKUP].run(|| TcpStream::connect((ip(ACTIVE), PORT)).unwrap()));
    drop(listener);
}

/// Has a host lose what it receives, and send each packet by itself: one that the kernel divides late would be lost as a whole.
fn prepare(host: &Host, loss: u32, settings: &'static [&'static str]) {
    host.ip("link set eth0 gso_max_segs 1");
    for setting in settings {
        let (name, value) = setting.split_once('=').unwrap();
        host.run(move || std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value).unwrap());
    }
    let rules = format!(
        "table inet loss {{
           chain loss {{
             type filter hook input priority -300;
             ip daddr 192.0.2.0/24 numgen random mod 100 < {loss} drop
           }}
         }}\n"
    );
    if loss > 0 {
        nft(host, &rules);
    }
}

fn connection(number: u32) -> Connection {
    table::connection(number, vip(0))
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn envelopes() -> Envelopes {
    let key = format!("hex:{}", "17".repeat(32)).parse().unwrap();
    Envelopes::new(Some((Keyring::new(KeyId::new(1).unwrap(), key), AuthMode::Enforce)))
}

fn ip(host: usize) -> IpAddr {
    address(host).into()
}

/// From the Active to the Backup.
fn way() -> Way {
    Way { from: ip(ACTIVE), to: ip(BACKUP) }
}

/// From the Backup to the Active.
fn way_back() -> Way {
    Way { from: ip(BACKUP), to: ip(ACTIVE) }
}

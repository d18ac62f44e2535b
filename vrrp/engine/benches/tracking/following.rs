//! Following connections that begin and end at once.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use windlass_dataplane::guard::{Guard, Guarded};
use windlass_kernel::connections::{Aging, AgingLimits, Event, Events};
use windlass_vrrp::Time;

use crate::lab::{Host, VIP};
use crate::shared::{nft, setting, spread, tenth, used};

/// Hosts that connect.
const CLIENTS: u32 = 2;
/// Behind the clients.
const BACKEND: Ipv4Addr = Ipv4Addr::new(198, 18, 2, 2);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Listening {
    Nobody,
    ToAll,
    ToWhatMatters,
}

impl Listening {
    fn name(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::ToAll => "to all",
            Self::ToWhatMatters => "to what matters",
        }
    }
}

pub(crate) fn all() -> Vec<Value> {
    let (rounds, connections) = (setting("ROUNDS", 5), setting("CONNECTIONS", 10_000));
    let mut figures: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    for _ in 0..rounds {
        let mut nobody = 0.0;
        for listening in [Listening::Nobody, Listening::ToAll, Listening::ToWhatMatters] {
            let round = round(listening, connections);
            if listening == Listening::Nobody {
                nobody = round.cpu;
            }
            let mut note = |what, value| figures.entry((listening.name(), what)).or_default().push(value);
            note("cpu_us_per_connection", round.cpu);
            note("more_than_nobody_us_per_connection", round.cpu - nobody);
            note("follower_us_per_connection", round.follower);
            note("events_per_connection", round.events);
            note("connections_per_second", round.rate);
        }
    }
    figures
        .into_iter()
        .map(|((listening, what), values)| {
            let [least, middle, most] = spread(values).map(tenth);
            json!({"what": what, "listening": listening, "connections": connections, "rounds": rounds,
                   "min": least, "median": middle, "max": most})
        })
        .collect()
}

/// Of each connection: microseconds of CPU time, and events; connections of a second.
struct Round {
    cpu: f64,
    follower: f64,
    events: f64,
    rate: f64,
}

fn round(listening: Listening, connections: u32) -> Round {
    let site = Site::new();
    let _guard = (listening == Listening::ToWhatMatters).then(|| site.node.run(masks));
    let listener = site.backend.run(|| TcpListener::bind((BACKEND, 8080)).unwrap());
    thread::spawn(move || listener.incoming().flatten().for_each(drop));
    let stop = Arc::new(AtomicBool::new(false));
    let follower = (listening != Listening::Nobody).then(|| {
        let events = site.node.run(|| Events::open([IpAddr::V4(VIP)].into()).unwrap());
        let stop = Arc::clone(&stop);
        thread::spawn(move || follow(events, &stop))
    });
    let (begin, before) = (Instant::now(), used());
    thread::scope(|scope| {
        for client in &site.clients {
            scope.spawn(move || client.run(move || connect(connections / CLIENTS)));
        }
    });
    let elapsed = begin.elapsed();
    stop.store(true, Ordering::Relaxed);
    let (follower, events) = follower.map_or_else(Default::default, |thread| thread.join().unwrap());
    let each = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(connections);
    Round {
        cpu: each(used().saturating_sub(before)),
        follower: each(follower),
        events: f64::from(events) / f64::from(connections),
        rate: f64::from(connections) / elapsed.as_secs_f64(),
    }
}

fn connect(connections: u32) {
    for _ in 0..connections {
        let mut stream = TcpStream::connect((VIP, 80)).unwrap();
        // The backend ends at once.
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
    }
}

/// As the agent would: each 100 ms. Its CPU time, and how many events there were.
fn follow(mut events: Events, stop: &AtomicBool) -> (Duration, u32) {
    let mut aging = Aging::new(AgingLimits::default());
    let (begin, mut heard) = (Instant::now(), 0);
    loop {
        let last = stop.load(Ordering::Relaxed);
        thread::sleep(Duration::from_millis(100));
        let now = Time::from_nanos(u64::try_from(begin.elapsed().as_nanos()).unwrap());
        while let Some(event) = events.hear().unwrap() {
            if event == Event::Lost {
                println!("bench: events were lost: this thread waited too long for a processor");
            }
            heard += 1;
            aging.hear(&event, now);
        }
        while aging.due(now).is_some() {}
        if last {
            return (clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into(), heard);
        }
    }
}

/// Clients, a node and a backend.
struct Site {
    clients: Vec<Host>,
    node: Host,
    backend: Host,
}

impl Site {
    fn new() -> Self {
        let clients = (0..CLIENTS).map(|_| Host::new()).collect();
        let site = Self { clients, node: Host::new(), backend: Host::new() };
        for (n, host) in site.clients.iter().chain([&site.backend]).enumerate() {
            site.node.ip(&format!("link add port{n} type veth peer name eth0 netns {}", host.tid()));
            site.node.ip(&format!("addr add 198.18.{n}.1/24 dev port{n}"));
            site.node.ip(&format!("link set port{n} up"));
            host.ip(&format!("addr add 198.18.{n}.2/24 dev eth0"));
            host.ip("link set eth0 up");
            host.ip(&format!("route add default via 198.18.{n}.1"));
        }
        site.node.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap());
        nft(&site.node, &rules());
        site
    }
}

/// As kube-proxy's nftables mode and the guard make them.
fn rules() -> String {
    format!(
        "table ip kube-proxy {{
           chain nat-prerouting {{
             type nat hook prerouting priority dstnat;
             ip daddr {VIP} tcp dport 80 meta mark set meta mark | 0x4000 dnat to {BACKEND}:8080
           }}
           chain nat-postrouting {{
             type nat hook postrouting priority 90;
             ct original ip daddr {VIP} meta mark & 0x4000 != 0 snat to {VIP} fully-random
           }}
         }}\n"
    )
}

/// What has the kernel tell only what matters.
fn masks() -> Guard {
    let replicated = Guarded { replicated: [IpAddr::V4(VIP)].into(), ..Guarded::default() };
    Guard::install("masks", &replicated).unwrap()
}

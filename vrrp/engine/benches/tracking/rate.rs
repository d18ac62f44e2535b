//! What replication costs the Active while 20,000 connections a second begin and end at once: clients, a node that translates as
//! kube-proxy does, its peer, and a backend on one LAN.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::getpid;
use serde_json::{Value, json};
use windlass_engine::{ConnectionReplication, RouterConfig};

use crate::cost::Used;
use crate::lab::{Host, Lan, Node, address, await_some};
use crate::replica::{Routers, configuration, vip};
use crate::rest::is_thread;
use crate::shared::{nft, setting, spread, tenth, used};

const NODES: [usize; 2] = [0, 1];
const BACKEND: usize = 2;
/// Hosts that connect, after the backend.
const CLIENTS: usize = 4;
/// Of the backend, so that the kernel has ports for all that it remembers.
const BACKENDS: u8 = 16;
const ROUTERS: Routers = Routers { count: 1, vips: 1 };
/// Time in which connections are made at once.
const SLOT: Duration = Duration::from_millis(10);

pub(crate) fn all() -> Vec<Value> {
    let (rounds, rate, seconds) = (setting("ROUNDS", 5), setting("RATE", 20_000), setting("SECONDS", 5));
    let mut figures: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    for _ in 0..rounds {
        let [without, with] = [false, true].map(|replicates| round(replicates, rate, seconds));
        // What that many cost in a second, as a share of a processor.
        let percent = |micros: f64| micros * f64::from(rate) / 1e6 * 100.0;
        let mut note = |name, what, value| figures.entry((name, what)).or_default().push(value);
        for (name, round) in [("without", &without), ("with", &with)] {
            note(name, "rate_reached_per_second", round.reached);
            note(name, "cpu_us_per_new_connection", round.cpu);
        }
        note("with", "replication_thread_percent", percent(with.thread));
        note("with", "replication_percent", percent(with.cpu - without.cpu));
    }
    figures
        .into_iter()
        .map(|((replication, what), values)| {
            let [least, middle, most] = spread(values).map(tenth);
            json!({"what": what, "replication": replication, "rate": rate, "seconds": seconds, "rounds": rounds,
                   "min": least, "median": middle, "max": most})
        })
        .collect()
}

/// Of each connection: microseconds of CPU time of all, and of the thread; connections of a second.
struct Round {
    cpu: f64,
    thread: f64,
    reached: f64,
}

fn round(replicates: bool, rate: u32, seconds: u32) -> Round {
    let lan = Lan::new(BACKEND + 1 + CLIENTS);
    prepare(&lan);
    let nodes = NODES.map(|node: usize| start(&lan.hosts[node], node, replicates));
    if replicates {
        let in_sync = || nodes[1].engine.replication_status().peers.iter().any(|peer| peer.in_sync);
        await_some("a peer in sync", || in_sync().then_some(()));
    }
    // Who has the address is known.
    await_some("a first connection", || lan.hosts[BACKEND + 1].run(|| connect().ok()));
    let of_client = rate * seconds / u32::try_from(CLIENTS).unwrap();
    let (begin, before, thread_before) = (Instant::now(), used(), Used::by_threads(getpid(), is_thread));
    thread::scope(|scope| {
        for client in &lan.hosts[BACKEND + 1..] {
            scope.spawn(move || client.run(move || connect_at(of_client, seconds)));
        }
    });
    // Looked at by then: the events of the last ones.
    thread::sleep(Duration::from_millis(500));
    let (after, thread_after) = (used(), Used::by_threads(getpid(), is_thread));
    let each = |micros: f64| micros / f64::from(rate * seconds);
    Round {
        cpu: each((after.saturating_sub(before)).as_secs_f64() * 1e6),
        thread: each(thread_after.micros_since(thread_before)),
        reached: f64::from(rate * seconds) / (begin.elapsed().as_secs_f64() - 0.5),
    }
}

fn start(host: &Host, node: usize, replicates: bool) -> Node {
    let started = host.engine_with(|options| {
        options.guard = true;
        options.connection_replication = replicates.then(ConnectionReplication::default);
    });
    let told = |router: RouterConfig| {
        if replicates { router } else { RouterConfig { replicas: [].into(), ..router } }
    };
    started.engine.apply(configuration(ROUTERS, node).into_iter().map(told).collect());
    started
}

/// The node that is Active translates, the backend serves, and clients have ports enough.
fn prepare(lan: &Lan) {
    for setting in ["ip_forward=1", "conf/all/send_redirects=0", "conf/eth0/send_redirects=0"] {
        set(&lan.hosts[0], setting);
    }
    nft(&lan.hosts[0], &rules());
    let backend = &lan.hosts[BACKEND];
    for number in 1..=BACKENDS {
        backend.ip(&format!("addr add {}/24 dev eth0", of_backend(number)));
    }
    let listener = backend.run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 8080)).unwrap());
    thread::spawn(move || listener.incoming().flatten().for_each(drop));
    for client in &lan.hosts[BACKEND + 1..] {
        set(client, "ip_local_port_range=1024 65535");
        set(client, "conf/all/accept_redirects=0");
        client.ip("route add 198.19.0.0/16 dev eth0");
    }
    // Answers to the VIP.
    backend.ip("route add 198.19.0.0/16 dev eth0");
}

fn of_backend(number: u8) -> Ipv4Addr {
    let [a, b, c, _] = address(BACKEND).octets();
    [a, b, c, 100 + number].into()
}

fn set(host: &Host, setting: &'static str) {
    let (name, value) = setting.split_once('=').unwrap();
    host.run(move || fs::write(format!("/proc/sys/net/ipv4/{name}"), value).unwrap());
}

/// As kube-proxy's nftables mode makes them for one Service; the guard does the rest.
fn rules() -> String {
    let backends: Vec<String> =
        (1..=BACKENDS).map(|number| format!("{}: {}", number - 1, of_backend(number))).collect();
    format!(
        "table ip kube-proxy {{
           chain nat-prerouting {{
             type nat hook prerouting priority dstnat;
             ip daddr {} tcp dport 80 meta mark set meta mark | 0x4000 dnat to numgen inc mod {BACKENDS} map {{ {} }}:8080
           }}
         }}\n",
        vip(0),
        backends.join(", ")
    )
}

fn connect() -> std::io::Result<()> {
    let to = SocketAddr::from((vip(0), 80));
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(5))?;
    // The backend ends at once.
    stream.read(&mut [0; 1]).map(drop)
}

/// Connects as often within so many seconds, evenly, or as fast as it goes.
fn connect_at(connections: u32, seconds: u32) {
    let slots = u32::try_from(Duration::from_secs(seconds.into()).as_millis() / SLOT.as_millis()).unwrap();
    let begin = Instant::now();
    for slot in 0..slots {
        let (first, next) =
            (u64::from(slot) * u64::from(connections), u64::from(slot + 1) * u64::from(connections));
        for _ in first / u64::from(slots)..next / u64::from(slots) {
            connect().unwrap();
        }
        thread::sleep((begin + SLOT * (slot + 1)).saturating_duration_since(Instant::now()));
    }
}

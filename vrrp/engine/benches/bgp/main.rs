//! `make bench-bgp`: how soon a router has the routes of the speaker.
//!
//! A speaker and a router of each maker on a link, a session Established. All: from the order to announce 10,000 prefixes until the router
//! has all of them. One: from the order to announce one more until the router has it. Leave: from the order to end the engine with 10,000
//! prefixes until it has ended. FRR's own speaker beside it is the floor: its order is a filter that goes, or a `network` command. The
//! router is asked by its own client, whose time is in each figure.
//!
//! Settings (environment): ROUNDS (5), SIZES (10000), SYSTEMS (`windlass frr`).
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "it ends at the first thing that is not as it should be, like a test"
)]

use std::process::ExitCode;
use std::time::Instant;

use serde_json::{Value, json};

#[path = "../../tests/it/lab.rs"]
#[allow(dead_code, reason = "made for the tests")]
mod lab;
#[path = "../../tests/it/interop/process.rs"]
#[allow(dead_code, reason = "made for the tests")]
mod process;
mod sender;
#[path = "../shared/mod.rs"]
#[allow(dead_code, reason = "shared by benches")]
mod shared;
mod speaker;

use lab::{Lan, await_some};
use sender::{Frr, Sender, Windlass};
use speaker::makers::{Bird, ExaBgp, FAR, GoBgp, GoBgp4, Maker, OpenBgpd};
use speaker::router::Router;

/// Name by which the tests' modules use it.
mod interop {
    pub(crate) use crate::process;
}

/// The prefix that comes alone.
const ONE: &str = "203.0.113.1/32";

fn milliseconds(since: Instant) -> f64 {
    shared::tenth(since.elapsed().as_secs_f64() * 1000.0)
}

fn row(system: &str, case: &str, times: Vec<f64>) -> Value {
    let requests = times.len();
    let [_, median, max] = shared::spread(times);
    let row =
        json!({ "system": system, "case": case, "median_ms": median, "max_ms": max, "requests": requests });
    println!("{row}");
    row
}

/// Waits until the router has a prefix.
fn await_route<M: Maker>(router: &M, prefix: &str) {
    await_some(prefix, || router.route(prefix).contains(prefix).then_some(()));
}

/// Times of a round: all routes, one more, the end of the sender. The router is a new one: some take no connection for a while after the
/// end of a session.
fn round<S: Sender, M: Maker>(all: &[String]) -> [f64; 3] {
    let lan = Lan::new(2);
    for (host, last) in lan.hosts.iter().zip(1..) {
        host.ip("link set lo up");
        host.ip(&format!("addr add 2001:db8::{last}/64 dev eth0 nodad"));
    }
    // ExaBGP binds to all addresses of its settings.
    lan.hosts[1].ip(&format!("addr add {}/32 dev lo", FAR.router));
    let router = M::start(&lan.hosts[1]);
    let sender = S::start(&lan.hosts[0], all);

    let begin = Instant::now();
    sender.announce_all();
    await_route(&router, all.last().expect("a prefix"));
    await_some("all prefixes", || (router.prefixes().len() == all.len()).then_some(()));
    let many = milliseconds(begin);

    let begin = Instant::now();
    sender.announce_one(ONE);
    await_route(&router, ONE);
    let one = milliseconds(begin);

    let begin = Instant::now();
    drop(sender);
    let leave = milliseconds(begin);
    if S::LEAVES {
        await_some("withdrawal", || router.prefixes().is_empty().then_some(()));
    }
    [many, one, leave]
}

/// The rows of a sender with a router of a maker.
fn rows<S: Sender, M: Maker>(maker: &str) -> Vec<Value> {
    if !process::there(M::PROGRAM) || !shared::wanted("SYSTEMS", S::NAME) {
        return Vec::new();
    }
    let size = shared::setting("SIZES", 10_000);
    let all: Vec<String> = (0..size).map(|n| format!("198.18.{}.{}/32", n / 250, n % 250)).collect();
    let rounds: Vec<[f64; 3]> = (0..shared::setting("ROUNDS", 5)).map(|_| round::<S, M>(&all)).collect();
    let column = |number: usize| rounds.iter().map(|round| round[number]).collect();
    let mut rows = vec![
        row(S::NAME, &format!("{size} routes to {maker}"), column(0)),
        row(S::NAME, &format!("one route to {maker}"), column(1)),
    ];
    if S::LEAVES {
        rows.push(row(S::NAME, &format!("leave {maker} with {size} routes"), column(2)));
    }
    rows
}

fn both<M: Maker>(maker: &str) -> Vec<Value> {
    [rows::<Windlass, M>(maker), rows::<Frr, M>(maker)].concat()
}

fn main() -> ExitCode {
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("runs by `make bench-bgp` (cargo bench --bench bgp)");
        return ExitCode::SUCCESS;
    }
    if !lab::require_root() {
        return ExitCode::FAILURE;
    }
    let rows = [
        both::<Router>("frr"),
        both::<Bird>("bird"),
        both::<OpenBgpd>("openbgpd"),
        both::<ExaBgp>("exabgp"),
        both::<GoBgp>("gobgp 3"),
        both::<GoBgp4>("gobgp 4"),
    ]
    .concat();
    // Those with connections are of `make bench-bgp-racks`.
    let file = shared::write("bgp.json", rows, |row| row.get("connections").is_none());
    println!("\nbench: {}", file.display());
    ExitCode::SUCCESS
}

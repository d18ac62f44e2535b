//! One of two routers, by hand: watch the second take over from the first.
//!
//! Two hosts of one LAN are two network namespaces. Build the example, make them, and start the first router, as root:
//!
//! ```sh
//! cargo build -p windlass-engine --example two_routers
//! ip netns add one
//! ip netns add two
//! ip link add eth0 netns one type veth peer name eth0 netns two
//! ip -n one addr add 192.0.2.1/24 dev eth0
//! ip -n two addr add 192.0.2.2/24 dev eth0
//! ip -n one link set eth0 up
//! ip -n two link set eth0 up
//! ip netns exec one target/debug/examples/two_routers eth0 7 200 100 192.0.2.1 192.0.2.2 192.0.2.50
//! ```
//!
//! Start the second in another terminal. It is Backup while it hears the first:
//!
//! ```sh
//! ip netns exec two target/debug/examples/two_routers eth0 7 100 100 192.0.2.2 192.0.2.1 192.0.2.50
//! ```
//!
//! Kill the first (Ctrl-C): the second says that the Active is silent, and is Active 361 ms after the last advert it heard
//! (3 intervals of 100 ms and its skew time). End the first by Ctrl-D instead, and it resigns: the second needs its skew
//! time of 61 ms only. Started again, the first takes over, since its priority is higher.
//!
//! For IPv6 the routers speak from link-local addresses. In place of the last two commands:
//!
//! ```sh
//! ip -n one addr add fe80::1/64 dev eth0 nodad
//! ip -n two addr add fe80::2/64 dev eth0 nodad
//! ip netns exec one target/debug/examples/two_routers eth0 7 200 100 fe80::1 fe80::2 2001:db8::50
//! ip netns exec two target/debug/examples/two_routers eth0 7 100 100 fe80::2 fe80::1 2001:db8::50
//! ```
//!
//! At the end:
//!
//! ```sh
//! ip netns del one
//! ip netns del two
//! ```
//!
//! Arguments: interface, VRID, priority, advertisement interval in milliseconds, source address, the peer's address, VIP.
//! Prints each event after the seconds since the machine started; ends, and resigns, when its standard input ends.

use std::error::Error;
use std::io::{Read, stdin};
use std::process::ExitCode;
use std::str::FromStr;

use nix::time::{ClockId, clock_gettime};
use windlass_engine::{Engine, Event, Interval, Options, Priority, RouterConfig, Vrid};

const USAGE: &str = "two_routers <interface> <vrid> <priority> <interval-ms> <source-ip> <peer-ip> <vip>";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("two_routers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let config = configuration(std::env::args().skip(1).collect())?;
    let engine = Engine::start(Options::new(print))?;
    engine.apply(vec![config]);
    stdin().read_to_end(&mut Vec::new())?;
    engine.shutdown();
    Ok(())
}

fn configuration(arguments: Vec<String>) -> Result<RouterConfig, Box<dyn Error>> {
    let [interface, vrid, priority, interval, source, peer, vip] =
        <[String; 7]>::try_from(arguments).map_err(|_| format!("seven arguments expected: {USAGE}"))?;
    Ok(RouterConfig {
        priority: Priority::new(parse("priority", &priority)?)?,
        interval: Interval::from_millis(parse("interval", &interval)?)?,
        peers: [parse("peer address", &peer)?].into(),
        addresses: [parse("VIP", &vip)?].into(),
        ..RouterConfig::new(
            interface,
            Vrid::try_from(parse::<u32>("vrid", &vrid)?)?,
            parse("source address", &source)?,
        )
    })
}

fn parse<T: FromStr<Err: std::fmt::Display>>(what: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|error| format!("{what} {text:?}: {error}; usage: {USAGE}"))
}

fn print(event: Event) {
    let seconds = clock_gettime(ClockId::CLOCK_BOOTTIME)
        .map_or(0.0, |time| std::time::Duration::from(time).as_secs_f64());
    match event {
        Event::StateChanged { key, state, reason } => println!("{seconds:.6} {key}: {state} ({reason})"),
        Event::Failed { key, error } => println!("{seconds:.6} {key}: failed: {error}"),
        Event::Recovered { key } => println!("{seconds:.6} {key}: recovered"),
        other => println!("{seconds:.6} {other:?}"),
    }
}

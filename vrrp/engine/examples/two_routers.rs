//! One of two routers, by hand: run it on two hosts (or in two network namespaces) of one LAN and stop one of them.
//!
//! ```text
//! two_routers <interface> <vrid> <priority> <interval-ms> <source-ip> <peer-ip> <vip>
//! ```
//!
//! Prints each event with seconds of the monotonic clock; ends (and resigns) when its standard input ends.

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
    let seconds = clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0.0, |time| std::time::Duration::from(time).as_secs_f64());
    match event {
        Event::StateChanged { key, state, reason } => println!("{seconds:.6} {key}: {state} ({reason})"),
        Event::Failed { key, error } => println!("{seconds:.6} {key}: failed: {error}"),
        Event::Recovered { key } => println!("{seconds:.6} {key}: recovered"),
        other => println!("{seconds:.6} {other:?}"),
    }
}

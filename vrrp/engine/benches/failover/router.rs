//! Windlass' side: this program as a router process.

use std::net::IpAddr;
use std::str::FromStr;

use nix::sys::signal::{SigSet, Signal};
use windlass_engine::{Checksum, Engine, Event, Hold, Interval, Options, Priority, RouterConfig, Vrid};

use crate::setup::VRID;

/// The argument that makes this program a router.
pub(crate) const ROLE: &str = "router";

/// Runs a router until SIGTERM. Arguments: priority, interval in ms, source, peer, VIP.
pub(crate) fn run(arguments: &[String]) {
    let [priority, interval, source, peer, vip] = arguments else {
        panic!("router: {arguments:?}: wanted are priority, interval, source, peer, VIP")
    };
    // Before there are threads, so that all of them leave the signal to the wait below.
    let mut end = SigSet::empty();
    end.add(Signal::SIGTERM);
    end.thread_block().expect("block SIGTERM");
    let options = Options::new(|event| {
        if let Event::Failed { key, error } = event {
            eprintln!("{key}: {error}");
        }
    });
    let engine = Engine::start(options).expect("start the engine");
    engine.apply(vec![RouterConfig {
        priority: Priority::new(parse(priority)).unwrap(),
        interval: Interval::from_millis(parse(interval)).unwrap(),
        peers: [parse::<IpAddr>(peer)].into(),
        addresses: [parse::<IpAddr>(vip)].into(),
        checksum: Checksum::Rfc9568,
        hold: Hold::Address,
        accept: true,
        ..RouterConfig::new("eth0", Vrid::new(VRID).unwrap(), parse(source))
    }]);
    end.wait().expect("wait for SIGTERM");
    engine.shutdown();
}

fn parse<T: FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

//! A node as a process of its own, which tells and is told connections.

use std::net::{IpAddr, Ipv4Addr};
use std::thread;
use std::time::Duration;

use windlass_engine::{
    ConnectionReplication, Engine, Event, Interval, Options, Priority, RouterConfig, Vrid,
};

use crate::interop::process::{Daemon, TempDir};
use crate::lab::{Host, address};
use crate::shared::own_path;

/// The argument that makes this program a node.
pub(crate) const ROLE: &str = "node";
/// Between two looks at what there is to tell.
const LOOK: Duration = Duration::from_millis(100);

/// Virtual routers, each with so many VIPs.
#[derive(Clone, Copy)]
pub(crate) struct Routers {
    pub(crate) count: usize,
    pub(crate) vips: usize,
}

/// The VIP with this number, of all routers.
pub(crate) fn vip(number: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(0xc613_0000 + u32::try_from(number).unwrap())
}

/// What the node of two with this index runs, the first of them Active.
pub(crate) fn configuration(Routers { count, vips }: Routers, node: usize) -> Vec<RouterConfig> {
    let peer: IpAddr = address(1 - node).into();
    let router = |number: usize| RouterConfig {
        priority: Priority::new(if node == 0 { 200 } else { 100 }).unwrap(),
        interval: Interval::SECOND,
        peers: [peer].into(),
        replicas: [peer].into(),
        vip_as_source: true,
        addresses: (number * vips..(number + 1) * vips).map(|number| vip(number).into()).collect(),
        ..RouterConfig::new(
            "eth0",
            Vrid::new(u8::try_from(number + 1).unwrap()).unwrap(),
            address(node).into(),
        )
    };
    (0..count).map(router).collect()
}

/// Starts the node of two with this index on a host. What it knows it prints to the file `<name>.log`.
pub(crate) fn start(host: &Host, scratch: &TempDir, routers: Routers, node: usize) -> Daemon {
    let program = own_path();
    let numbers = [node, routers.count, routers.vips].map(|number| number.to_string());
    let command: Vec<&str> =
        [program.as_str(), ROLE].into_iter().chain(numbers.iter().map(String::as_str)).collect();
    Daemon::start(host, scratch, &name(node), &command)
}

fn name(node: usize) -> String {
    format!("node{node}")
}

/// What the node with this index said last: connections that it has of its peer, if it is in sync with that.
pub(crate) fn known(scratch: &TempDir, node: usize) -> Option<usize> {
    let said = std::fs::read_to_string(scratch.path(&format!("{}.log", name(node)))).unwrap();
    said.lines().rfind(|line| line.starts_with("known "))?.strip_prefix("known ")?.parse().ok()
}

/// Runs the node until it is killed.
pub(crate) fn run(arguments: &[String]) -> ! {
    let numbers: Vec<usize> = arguments.iter().map(|text| text.parse().unwrap()).collect();
    let [node, count, vips] = numbers[..] else { panic!("{arguments:?}: wanted are node, routers, VIPs") };
    let mut options = Options::new(|event| {
        if let Event::Failed { key, error } = event {
            println!("{key}: {error}");
        }
    });
    options.guard = true;
    options.connection_replication = Some(ConnectionReplication::default());
    let engine = Engine::start(options).expect("start the engine");
    engine.apply(configuration(Routers { count, vips }, node));
    let mut said = String::new();
    loop {
        let status = engine.replication_status();
        let of_peer = status.peers.first().filter(|peer| peer.in_sync).map(|peer| peer.connections);
        let line = match (&status.error, of_peer) {
            (Some(error), _) => format!("error {error}"),
            (None, None) => "not in sync".to_owned(),
            (None, Some(connections)) => format!("known {connections}"),
        };
        if line != said {
            println!("{line}");
            said = line;
        }
        thread::sleep(LOOK);
    }
}

//! The table that directs packets for shared addresses: at a director, and its cost by itself.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use windlass_dataplane::sharing::{LOTS, Share, SharedBy, Shares, Sharing, SharingLink};
use windlass_engine::Protocol;

use crate::lab::{Host, address};
use crate::scene::{PORT, index, set};
use crate::shared::{spread, tenth, unreclaimable};

/// Name of the table.
const TABLE: &str = "windlass-sharing";
/// Index of the server's address in the client's network.
const SERVER: usize = 2;
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 3];
/// Addresses and nodes of the table that is measured by itself, each with twelve lots of each address.
const SERVICES: u32 = 1000;
const NODES: u8 = 10;
/// Changes of one address in a round, each of so many lots.
const CHANGES: usize = 20;
const MOVED_LOTS: usize = 6;

/// Shares these addresses, with lots of the servers in turn.
fn shares(
    interface: &str,
    vips: impl Iterator<Item = Ipv4Addr>,
    protocol: Protocol,
    servers: &[IpAddr],
) -> Shares {
    let mut lots = [0; LOTS];
    let indexes = (0..).take(servers.len()).cycle();
    lots.iter_mut().zip(indexes).for_each(|(lot, server)| *lot = server);
    let share = Arc::new(Share {
        interface: interface.to_owned(),
        ports: [PORT].into(),
        by: SharedBy::Connection,
        servers: servers.to_vec(),
        lots,
        former: Vec::new(),
    });
    let services = vips.map(|vip| ((vip.into(), protocol), Arc::clone(&share))).collect();
    Shares { services, ..Shares::default() }
}

/// Makes the node the director of UDP to these addresses, and the pod the server of all lots: it is another host of the client's network,
/// by a macvlan interface on the client's end of the wire, and has the addresses.
pub(crate) fn direct([client, node, pod]: [&Host; 3], vips: &[Ipv4Addr]) {
    let (server, mac) = (address(SERVER), SERVER_MAC.map(|byte| format!("{byte:02x}")).join(":"));
    let tid = pod.tid();
    client.ip(&format!("link add link eth0 name server netns {tid} address {mac} type macvlan mode private"));
    pod.ip("link set lo up");
    pod.ip("link set server up");
    // The way to the client stays the one by the node.
    pod.ip(&format!("addr add {server}/32 dev server"));
    pod.ip("route add local 198.19.0.0/16 dev lo");
    for interface in ["all", "server"] {
        set(pod, &format!("ipv4/conf/{interface}/rp_filter"), "0");
    }
    node.ip(&format!("neigh add {server} lladdr {mac} dev eth0 nud permanent"));
    let shares = shares("eth0", vips.iter().copied(), Protocol::Udp, &[server.into()]);
    let own = [address(1).into()].into();
    let link = SharingLink { index: index(node, "eth0"), own, peers: [(server.into(), SERVER_MAC)].into() };
    let links = BTreeMap::from([("eth0".to_owned(), link)]);
    node.run(move || drop(Sharing::install(TABLE, &shares, &links).expect("direct packets")));
}

/// Measures the table of many addresses on one of the nodes that serve them, and returns its row.
pub(crate) fn table(rounds: u32) -> Value {
    let measured: Vec<[f64; 3]> = (0..rounds).map(|_| Host::new().run(round)).collect();
    let median = |n: usize| spread(measured.iter().map(|figures| figures[n]).collect())[1];
    json!({
        "case": "table",
        "services": SERVICES,
        "nodes": NODES,
        "rounds": rounds,
        "bytes": median(0),
        "start_ms": tenth(median(1)),
        "change_ms": tenth(median(2)),
    })
}

/// Returns the bytes of the table, and the milliseconds of its installation and of a change of one address.
fn round() -> [f64; 3] {
    let nodes: Vec<IpAddr> = (1..=NODES).map(|node| IpAddr::from([192, 0, 2, node])).collect();
    let (own, others) = nodes.split_first().unwrap();
    let peers = (2..).zip(others).map(|(number, node)| (*node, [2, 0, 0, 0, 0, number])).collect();
    let link = SharingLink { index: 1, own: [*own].into(), peers };
    let links = BTreeMap::from([("lo".to_owned(), link)]);
    let vips = (0..SERVICES).map(|number| Ipv4Addr::from_bits(0xc613_0000 + number));
    let mut shares = shares("lo", vips, Protocol::Tcp, &nodes);
    let (begin, before) = (Instant::now(), unreclaimable());
    let mut sharing = Sharing::install(TABLE, &shares, &links).expect("install the table");
    let (start, bytes) = (begin.elapsed(), unreclaimable() - before);
    let keys: Vec<_> = shares.services.keys().copied().take(CHANGES).collect();
    let change = |key| {
        let share = shares.services.get_mut(&key).unwrap();
        Arc::make_mut(share).lots.iter_mut().take(MOVED_LOTS).for_each(|lot| *lot = (*lot + 1) % NODES);
        let begin = Instant::now();
        sharing.update(&shares, &links).expect("change the table");
        begin.elapsed().as_secs_f64() * 1e3
    };
    let [_, change, _] = spread(keys.into_iter().map(change).collect());
    sharing.remove().expect("remove the table");
    [bytes, start.as_secs_f64() * 1e3, change]
}

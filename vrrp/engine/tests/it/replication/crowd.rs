//! Beside thousands of other connections. The kernel's table is one for all network namespaces, and a list of any of them walks all of it.

use std::net::Ipv4Addr;
use std::time::Instant;

use windlass_kernel::connections::Tracking;

use super::*;
use crate::connections::scene::set;
use crate::lab::Host;
use crate::lab::take_all_turns;

/// Has the kernel of a host track so many flows.
pub(super) fn track_flows(host: &Host, many: usize) {
    set(host, "netfilter/nf_conntrack_udp_timeout", "600");
    host.ip("link set lo up");
    host.run(move || {
        let [from, to] = ["127.0.0.1:0", "0.0.0.0:0"].map(|own| UdpSocket::bind(own).unwrap());
        let port = to.local_addr().unwrap().port();
        for number in 0..u32::try_from(many).unwrap() {
            // What does not fit into the receiver's buffer is lost, and tracked.
            from.send_to(b"", (Ipv4Addr::from_bits(0x7f01_0000 + number), port)).unwrap();
        }
    });
}

/// A host whose kernel tracks so many flows.
fn crowd(many: usize) -> Host {
    let host = Host::new();
    let tracked = "table inet tracked {
           chain outgoing {
             type filter hook output priority 0;
             ct state new accept
           }
         }";
    run(&host, "nft -f -", tracked);
    track_flows(&host, many);
    let tracked =
        host.run(|| Tracking::open().expect("open connection tracking").usage().expect("usage").entries);
    assert!(usize::try_from(tracked).unwrap() >= many, "{tracked} of {many} are tracked");
    host
}

/// What has its backend on the node that takes over is put in the place of what the other forwarded, between its death and the
/// announcement: no list may come in between.
#[test]
fn no_takeover_waits_for_a_list_of_a_table_with_hundreds_of_thousands_of_entries() {
    if !require_root() {
        return;
    }
    let _turn = take_all_turns();
    let _crowd = crowd(225_000);
    let scene = Scene::for_engines(Backend::OnSecondNode);
    let nodes = start(&scene, replicate_and_forward);
    let streams = replicated(&scene, &nodes);
    drain_first_node(&scene, &nodes);
    assert_eq!(kept(&streams), 2 * MANY, "after a drain");
    await_arrival(&scene, B);
    await_replicas(&nodes[A], 0);
    nodes[A].forget_events();
    nodes[A].engine.apply(routers(&scene, A));
    await_states(&nodes[A], State::Active);
    await_arrival(&scene, A);
    assert_eq!(kept(&streams), 2 * MANY, "taken back");
    await_replicas(&nodes[B], MANY);
    let died = Instant::now();
    first_node_dies(&scene, &nodes);
    let active = died.elapsed();
    assert_eq!(kept(&streams), 2 * MANY, "after its death");
    println!("Active {active:?} after the death, all connections answered {:?} after it", died.elapsed());
}

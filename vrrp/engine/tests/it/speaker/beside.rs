//! Another speaker on the same host: BIRD, as the pod network of a cluster may have it.

use windlass_engine::BfdPath;

use super::bfd::{timers, with_bfd};
use super::makers::{Bird, Maker};
use super::router::require;
use super::*;

/// BIRD's session with the router on host 1, and its BFD.
const BIRD: &str = "router id 192.0.2.77;
    protocol static { ipv4; route 203.0.113.101/32 blackhole; }
    protocol bfd {}
    protocol bgp fabric {
        local 192.0.2.1 as 64512;
        neighbor 192.0.2.2 as 64500; connect delay time 1;
        ipv4 { import none; export where source = RTS_STATIC; };
    }";
/// The router's neighbours on host 0: BIRD and the speaker.
const BOTH: &str = "neighbor 192.0.2.1 remote-as 64512
                    neighbor 192.0.2.1 passive
                    neighbor 192.0.2.101 remote-as 64512
                    neighbor 192.0.2.101 passive";

// shows: bgp B10, B27; interop I-35
#[test]
fn bird_on_the_same_host_keeps_its_session_and_the_speaker_has_one_from_an_address_of_its_own() {
    if !require_frr() || !require(Bird::PROGRAM) {
        return;
    }
    let lan = lan(1);
    lan.hosts[0].ip("addr add 192.0.2.101/32 dev eth0");
    let router = Router::start(&lan.hosts[1], ROUTER, BOTH);
    let _bird = Bird::with(&lan.hosts[0], BIRD);
    router.await_routes(&["203.0.113.101/32"]);
    let node = lan.hosts[0].engine();
    let announced = routes(&["203.0.113.1/32"]);
    // The router takes a speaker at BIRD's address for the neighbour that it has a session with.
    node.engine.speak(speaker([("router", peer(1))], &announced));
    await_session(&node, "router", |session| {
        session.error.as_ref().is_some_and(|error| error.contains("collision"))
    });
    let own = PeerConfig { source: "192.0.2.101".parse().ok(), ..peer(1) };
    let own = with_bfd(own, timers(300, 300, 3), BfdPath::SingleHop);
    node.engine.speak(speaker([("router", own)], &announced));
    router.await_routes(&["203.0.113.1/32", "203.0.113.101/32"]);
    assert_eq!(router.neighbour("192.0.2.1")["connectionsEstablished"], 1, "BIRD's session");
    let error = await_some("error of BFD", || node.engine.bfd_status().error.clone());
    assert!(error.contains("UDP port 3784"), "{error}");
}

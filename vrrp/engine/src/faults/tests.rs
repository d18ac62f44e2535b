use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use windlass_bgp::bfd;
use windlass_bgp::session::{Config, ExpectedAs};
use windlass_bgp::{Asn, HoldTime, RouterId};
use windlass_vrrp::{State, TransitionReason};

use crate::lab::{Host, LIMIT, Lan, Node, address, await_some, require_root, router, source};
use crate::{
    BfdConfig, BfdPath, ConnectionForwarding, ConnectionReplication, Endpoint, Event, Hold, Options,
    PeerConfig, Restrictions, RouterConfig, Speaker,
};

#[path = "../../tests/it/speaker/played.rs"]
#[allow(dead_code, reason = "made for the tests in network namespaces")]
mod played;

use played::{BfdPeer, Witness};

/// The thread of an engine that is to panic: its name and its network namespace.
static DOOMED: Mutex<Option<(&'static str, PathBuf)>> = Mutex::new(None);
/// Held by a test that has threads panic: one at a time.
static DOOMS: Mutex<()> = Mutex::new(());

fn namespace() -> PathBuf {
    fs::read_link("/proc/thread-self/ns/net").expect("the thread's namespace")
}

pub(crate) fn round() {
    let doomed = DOOMED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some((name, of)) = doomed
        && thread::current().name() == Some(name)
        && namespace() == of
    {
        std::panic::panic_any("as the test wants it");
    }
}

/// Has a thread of an engine in the host's namespace panic, once something wakes it.
fn doom(host: &Host, thread: Option<&'static str>) {
    let doomed = thread.map(|thread| (thread, host.run(namespace)));
    *DOOMED.lock().unwrap_or_else(PoisonError::into_inner) = doomed;
}

/// Has the threads of an engine go round, and report something.
fn stir(node: &Node) {
    let mut wider = router(0, 2);
    wider.addresses.insert("192.0.2.51".parse().unwrap());
    let nowhere = RouterConfig {
        interface: "eth9".to_owned(),
        addresses: ["192.0.2.52".parse().unwrap()].into(),
        ..router(0, 2)
    };
    let owned_by = |owner: u64| {
        let mut restrictions = Restrictions::default();
        restrictions.owned_by("192.0.2.53".parse().unwrap(), [owner]);
        Arc::new(restrictions)
    };
    node.engine.listen(&["eth0".to_owned()]);
    // Connections to the former owner end immediately.
    node.engine.restrict(owned_by(1));
    node.engine.restrict(owned_by(2));
    node.engine.restrict(Arc::new(Restrictions::default()));
    node.engine.apply(vec![wider, nowhere]);
    node.engine.share(Arc::default());
    node.engine.snapshot();
    node.engine.listen(&[]);
    node.engine.apply(vec![router(0, 2)]);
}

/// Has the engine start all helpers.
fn with_all_helpers(options: &mut Options) {
    options.connection_replication = Some(ConnectionReplication::default());
    options.guard = true;
    options.connection_forwarding = Some(ConnectionForwarding::default());
}

/// An Active and a Backup that hears it.
fn pair(lan: &Lan, change: impl Fn(&mut Options), hold: Hold) -> (Node, Node) {
    let [first, second] = [0, 1].map(|host| lan.hosts[host].engine_with(&change));
    first.engine.apply(vec![RouterConfig { hold, ..router(0, 2) }]);
    second.engine.apply(vec![router(1, 2)]);
    first.await_status("Active", |status| status.state == State::Active);
    second.await_status("Backup that hears it", |status| status.active == Some(source(0)));
    second.forget_events();
    (first, second)
}

// shows: threats T-32
#[test]
fn if_a_thread_that_the_election_needs_panics_the_engine_stops_says_so_and_a_peer_takes_over() {
    if !require_root() {
        return;
    }
    let _turn = DOOMS.lock().unwrap_or_else(PoisonError::into_inner);
    for (thread, hold) in [
        ("windlass-neighbour", Hold::Respond),
        // Without it nobody would serve what is bound nowhere.
        ("windlass-hold", Hold::Address),
        ("windlass-vrrp", Hold::Respond),
    ] {
        let lan = Lan::new(2);
        let (first, second) = pair(&lan, |_| (), hold);
        doom(&lan.hosts[0], Some(thread));
        await_some("panic", || {
            let mut wider = RouterConfig { hold, ..router(0, 2) };
            first.engine.restrict(Arc::new(Restrictions::default()));
            first.engine.apply(vec![wider.clone()]);
            wider.addresses.insert("192.0.2.51".parse().unwrap());
            first.engine.apply(vec![wider]);
            first.engine.stopped_by()
        });
        doom(&lan.hosts[0], None);
        let stopped = first.await_event("end of the engine", |event| match event {
            Event::Stopped { thread } => Some(*thread),
            _ => None,
        });
        assert_eq!((stopped, first.engine.stopped_by()), (thread, Some(thread)));
        let reason = match thread {
            // Nobody else can say that it resigns.
            "windlass-vrrp" => TransitionReason::ActiveSilent,
            _ => TransitionReason::ActiveResigned,
        };
        assert_eq!(second.await_state(State::Active), reason, "{thread}");
        assert!(first.engine.snapshot().is_empty(), "{thread}: nobody is kept waiting for an answer");
    }
}

// shows: threats T-33
#[test]
fn if_a_helper_panics_adverts_go_on_nobody_resigns_and_its_function_returns() {
    if !require_root() {
        return;
    }
    let _turn = DOOMS.lock().unwrap_or_else(PoisonError::into_inner);
    let lan = Lan::new(2);
    let (first, second) = pair(&lan, with_all_helpers, Hold::Respond);
    let error = |thread: &str| {
        let helpers = first.engine.helpers();
        helpers.into_iter().find(|helper| helper.thread == thread).expect("the helper").error
    };
    for thread in [
        "windlass-connections",
        "windlass-hold",
        "windlass-links",
        "windlass-endings",
        "windlass-sharing",
        "windlass-sets",
        "windlass-events",
    ] {
        doom(&lan.hosts[0], Some(thread));
        if thread == "windlass-sets" {
            // Its sets are compared once another program has changed nftables.
            let changed = || Command::new("nft").args(["add", "table", "inet", "other"]).status();
            assert!(lan.hosts[0].run(changed).is_ok_and(|status| status.success()));
        }
        let why = await_some("fault", || {
            stir(&first);
            error(thread)
        });
        assert!(why.contains("panicked") && why.contains("as the test wants it"), "{why}");
        if thread == "windlass-connections" {
            let status = first.engine.replication_status();
            assert!(status.peers.is_empty() && status.error.as_ref() == Some(&why), "{status:?}");
        }
        let heard = second.status().counters.adverts_received;
        second.await_status("further adverts", |status| status.counters.adverts_received > heard + 5);
        doom(&lan.hosts[0], None);
        await_some("return", || {
            stir(&first);
            error(thread).is_none().then_some(())
        });
        first.await_event("news of the return", |event| {
            matches!(event, Event::HelperBack { thread: back } if *back == thread).then_some(())
        });
    }
    assert_eq!(first.engine.replication_status().error, None);
    let (active, backup) = (first.status().counters, second.status().counters);
    assert_eq!((active.became_active, active.resignations_sent), (1, 0));
    assert_eq!((backup.became_active, backup.resignations_received), (0, 0));
    // The interfaces are followed again, with the sockets that there were.
    lan.hosts[0].ip("addr del 192.0.2.1/24 dev eth0");
    first.await_event("failure", |event| match event {
        Event::Failed { key, .. } => (key.interface == "eth0").then_some(()),
        _ => None,
    });
    assert_eq!(first.engine.stopped_by(), None);
}

// shows: threats T-33
#[test]
fn if_the_helper_that_removes_connections_panics_at_a_takeover_that_is_reported_and_the_address_is_served() {
    if !require_root() {
        return;
    }
    let _turn = DOOMS.lock().unwrap_or_else(PoisonError::into_inner);
    let lan = Lan::new(2);
    let [first, second] = [0, 1].map(|host| lan.hosts[host].engine_with(with_all_helpers));
    second.engine.apply(vec![router(1, 2)]);
    second.await_state(State::Active);
    doom(&lan.hosts[0], Some("windlass-forget"));
    first.engine.apply(vec![router(0, 2)]);
    let error = first.await_event("fault", |event| match event {
        Event::HelperAway { thread: "windlass-forget", error } => Some(error.clone()),
        _ => None,
    });
    assert!(error.contains("connections that are over stay in connection tracking"), "{error}");
    doom(&lan.hosts[0], None);
    first.await_event("news of the return", |event| {
        matches!(event, Event::HelperBack { thread: "windlass-forget" }).then_some(())
    });
    first.await_status("announcement", |status| status.counters.announcements > 0);
    let counters = first.status().counters;
    assert_eq!((counters.became_active, counters.resignations_sent), (1, 0));
}

/// The router of AS 64500 on host 1.
fn bgp_router() -> Speaker {
    let session = Config {
        local_as: Asn::new(64512).unwrap(),
        router_id: RouterId::new([192, 0, 2, 1].into()).unwrap(),
        expected_as: ExpectedAs::External,
        families: windlass_bgp::Family::ALL.into(),
        hold_time: HoldTime::new(30).unwrap(),
        keepalive: None,
        extended_next_hop: false,
    };
    let peer = PeerConfig::new(session, Endpoint::Address { address: source(1), interface: None });
    Speaker { peers: [("router".to_owned(), peer)].into(), ..Speaker::default() }
}

// shows: bgp D7
#[test]
fn if_the_bgp_speaker_panics_its_connections_close_no_virtual_router_resigns_and_it_connects_again() {
    if !require_root() {
        return;
    }
    let _turn = DOOMS.lock().unwrap_or_else(PoisonError::into_inner);
    let lan = Lan::new(2);
    let (first, second) = pair(&lan, |_| (), Hold::Respond);
    let listener = lan.hosts[1].run(|| TcpListener::bind("0.0.0.0:179").unwrap());
    listener.set_nonblocking(true).unwrap();
    let accept = || await_some("connection", || listener.accept().ok()).0;
    first.engine.speak(bgp_router());
    let mut connection = accept();
    connection.set_read_timeout(Some(LIMIT)).unwrap();
    doom(&lan.hosts[0], Some("windlass-bgp"));
    first.engine.speak(bgp_router());
    connection.read_to_end(&mut Vec::new()).expect("the end of the connection");
    let error = first.await_event("fault", |event| match event {
        Event::HelperAway { thread: "windlass-bgp", error } => Some(error.clone()),
        _ => None,
    });
    assert!(error.contains("the peers have withdrawn this node's routes"), "{error}");
    assert!(first.engine.speaker_status().is_empty());
    doom(&lan.hosts[0], None);
    let _connection = accept();
    first.await_event("news of the return", |event| {
        matches!(event, Event::HelperBack { thread: "windlass-bgp" }).then_some(())
    });
    let (active, backup) = (first.status().counters, second.status().counters);
    assert_eq!((active.became_active, active.resignations_sent), (1, 0));
    assert_eq!((backup.became_active, backup.resignations_received), (0, 0));
}

// shows: bgp D10
#[test]
fn if_bfd_panics_its_sessions_end_as_by_an_administrator_bgp_stays_and_no_virtual_router_resigns() {
    if !require_root() {
        return;
    }
    let _turn = DOOMS.lock().unwrap_or_else(PoisonError::into_inner);
    let lan = Lan::new(2);
    let (first, second) = pair(&lan, |_| (), Hold::Respond);
    let interval = Duration::from_millis(300);
    let timers = bfd::Config { transmit: interval, receive: interval, multiplier: 3.try_into().unwrap() };
    let listener = played::listen(&lan.hosts[1]);
    let router = BfdPeer::start(&lan.hosts[1], address(1), address(0), timers);
    let mut speaker = bgp_router();
    for peer in speaker.peers.values_mut() {
        peer.bfd = Some(BfdConfig::new(timers, BfdPath::SingleHop).unwrap());
    }
    first.engine.speak(speaker);
    let _witness = Witness::meet(listener);
    let is_up = |event: &Event| match event {
        Event::BfdChanged { change, .. } => (change.to == bfd::State::Up).then_some(()),
        _ => None,
    };
    first.await_event("BFD", is_up);
    doom(&lan.hosts[0], Some("windlass-bfd"));
    let error = first.await_event("fault", |event| match event {
        Event::HelperAway { thread: "windlass-bfd", error } => Some(error.clone()),
        _ => None,
    });
    assert!(error.contains("BGP sessions stay"), "{error}");
    let left = await_some("end at the peer", || {
        router.changes().into_iter().find(|change| change.from == bfd::State::Up)
    });
    assert_eq!((left.to, left.remote), (bfd::State::Down, bfd::State::AdminDown));
    assert!(first.engine.bfd_status().sessions.is_empty());
    doom(&lan.hosts[0], None);
    first.await_event("BFD again", is_up);
    let session = first.engine.speaker_status()[0].clone();
    assert_eq!((session.state, session.error), (windlass_bgp::State::Established, None));
    let (active, backup) = (first.status().counters, second.status().counters);
    assert_eq!((active.became_active, active.resignations_sent), (1, 0));
    assert_eq!((backup.became_active, backup.resignations_received), (0, 0));
}

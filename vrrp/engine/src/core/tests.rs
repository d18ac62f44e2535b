//! The thread's body, driven by hand on a cable whose two ends are in one network namespace.

use std::net::IpAddr;
use std::process::Command;

use windlass_vrrp::auth::{AntiReplay, Authentication, Key, KeyId, Keyring, Mode, Window};
use windlass_vrrp::wire::{AddressList, Advert, Checksum, GROUP_V4, Path};
use windlass_vrrp::{Family, Interval, Priority, State, Version, Vrid};

use super::*;
use crate::config::{Hold, RouterConfig};
use crate::interfaces;
use crate::links::{LinkState, Sources};
use crate::netlink::tests::in_namespace;
use crate::sockets::LinkSockets;
use crate::status::RouterStatus;

const VRIDS: u8 = 20;

fn source(family: u8, host: u8) -> IpAddr {
    match family {
        4 => [192, 0, 2, host].into(),
        _ => format!("fe80::{host}").parse().unwrap(),
    }
}

/// Twenty routers in each family at 100 ms. Every other one signs, every third sends frames from the virtual MAC address.
fn routers(interface: &str, host: u8, priority: u8) -> Vec<RouterConfig> {
    let of_family = |family| {
        (1..=VRIDS).map(move |vrid| RouterConfig {
            priority: Priority::new(priority).unwrap(),
            interval: Interval::from_millis(100).unwrap(),
            peers: [source(family, 3 - host)].into(),
            addresses: [source(family, 100 + vrid)].into(),
            hold: if vrid % 3 == 0 { Hold::Vmac } else { Hold::Respond },
            authentication: (vrid % 2 == 0).then(authentication),
            ..RouterConfig::new(interface, Vrid::new(vrid).unwrap(), source(family, host))
        })
    };
    [4, 6].into_iter().flat_map(of_family).collect()
}

fn authentication() -> Authentication {
    let keyring = Keyring::new(KeyId::new(1).unwrap(), Key::new(&[1; 32]).unwrap());
    let anti_replay = AntiReplay::Window(Window::from_seconds(300).unwrap());
    Authentication { keyring, mode: Mode::Enforce, anti_replay }
}

/// A cable with its ends in this namespace.
fn lay_cable() {
    // With addresses: what the kernel refuses to send is told, and telling costs.
    for arguments in [
        "link add name end-a type veth peer name end-b",
        "link set end-a up",
        "link set end-b up",
        "addr add fe80::1/64 dev end-a nodad",
        "addr add fe80::2/64 dev end-b nodad",
    ] {
        assert!(Command::new("ip").args(arguments.split(' ')).status().unwrap().success());
    }
}

/// A thread's body on this interface, not run yet.
fn core(interface: &str, host: u8, routers: Vec<RouterConfig>) -> (Core, Arc<Inbox>) {
    let found = interfaces::scan().unwrap().into_iter().find(|info| info.name == interface).unwrap();
    let sockets = Arc::new(LinkSockets::open(interface, found.index, found.mac, 1500).unwrap());
    let sources = Sources { usable: vec![source(4, host), source(6, host)], unusable: Vec::new() };
    let inbox = Arc::new(Inbox::new().unwrap());
    inbox.link(interface.to_owned(), LinkState::Usable { sockets, sources });
    inbox.desire(routers);
    let (roster, (sink, _)) =
        (Arc::new(Roster::new().unwrap()), crate::delivery::start(Box::new(|_| {})).unwrap());
    (Core::new(roster, Arc::clone(&inbox), sink, Arc::default(), true).unwrap(), inbox)
}

fn statuses(core: &Core) -> Vec<RouterStatus> {
    core.links.values().flat_map(Link::router_statuses).collect()
}

/// Until all are in this state and know who is Active: what the first advert of a peer costs is spent then.
fn run_until(core: &mut Core, state: State) {
    let there = |status: &RouterStatus| status.state == state && status.active.is_some();
    for _ in 0..20_000 {
        if statuses(core).len() == 2 * usize::from(VRIDS) && statuses(core).iter().all(there) {
            return;
        }
        core.round();
    }
    panic!("not all {state}: {:#?}", statuses(core));
}

/// Adverts sent and received, and times that a router became Active.
fn traffic(core: &Core) -> (u64, u64) {
    let counters = statuses(core).into_iter().map(|status| status.counters);
    counters.fold((0, 0), |(adverts, tenures), c| {
        (adverts + c.adverts_sent + c.adverts_received, tenures + c.became_active)
    })
}

/// Allocations while at least 200 adverts were sent or received, after as many: hearing a peer for the first time costs. On
/// a busy machine routers may oversleep, and telling of that costs: then it is measured again.
fn allocations(core: &mut Core, state: State) -> u64 {
    for _ in 0..50 {
        run_until(core, state);
        let (found, _) = traffic(core);
        while traffic(core).0 < found + 200 {
            core.round();
        }
        let (begun, tenures) = traffic(core);
        let mut allocations = 0;
        while traffic(core).0 < begun + 200 {
            let used = allocation_counter::measure(|| (0..10).for_each(|_| assert!(!core.round())));
            allocations += used.count_total;
        }
        if traffic(core).1 == tenures && statuses(core).iter().all(|s| s.state == state) {
            return allocations;
        }
    }
    panic!("never undisturbed: {:#?}", statuses(core));
}

#[test]
fn sending_and_receiving_adverts_allocates_nothing() {
    in_namespace(|| {
        lay_cable();
        let ((mut active, inbox), (mut backup, _)) =
            (core("end-a", 1, routers("end-a", 1, 200)), core("end-b", 2, routers("end-b", 2, 100)));
        assert_eq!(allocations(&mut active, State::Active), 0, "of an Active");
        let other = std::thread::spawn(move || active.run());
        assert_eq!(allocations(&mut backup, State::Backup), 0, "of a Backup");
        inbox.stop();
        other.join().unwrap();
    });
}

/// An advert from this host's address, with VRID 1.
fn advert(host: u8) -> Vec<u8> {
    let path = Path::V4 { source: [192, 0, 2, host].into(), destination: GROUP_V4 };
    let advert = Advert {
        path,
        ttl: 255,
        vrid: Vrid::MIN,
        priority: Priority::new(200).ok(),
        interval: Interval::from_millis(100).unwrap(),
        addresses: AddressList::representing(&BTreeSet::new(), path.source(), 1),
    };
    advert.datagram(Version::V3, Checksum::Rfc9568)
}

/// A Backup whose thread was held up until just after its deadline: did it stay Backup, when the advert that it waited for
/// had arrived in time, behind this many others? `None`: the test was itself held up for so long that the Backup would
/// listen once more in any case.
fn stays_backup(behind: usize) -> Option<bool> {
    let config = RouterConfig { addresses: BTreeSet::new(), ..routers("end-b", 2, 100).remove(0) };
    let (mut backup, _inbox) = core("end-b", 2, vec![config]);
    assert!(!backup.round());
    let (due, _) = backup.deadlines.first().expect("a Backup's deadline");
    let ends = LinkSockets::open("end-a", end_a(), [0; 6], 1500).unwrap();
    let outlet = &ends.family(Family::V4).unwrap().outlet;
    let target = outlet.target(Path::V4 { source: [192, 0, 2, 1].into(), destination: GROUP_V4 });
    for _ in 0..behind {
        outlet.send(&advert(77), &target).unwrap();
    }
    outlet.send(&advert(1), &target).unwrap();
    while clock::now() <= due {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut stayed = true;
    for _ in 0..10_000 {
        if clock::now().since(due) > Duration::from_millis(300) {
            return None;
        }
        backup.round();
        let status = statuses(&backup).remove(0);
        stayed &= status.counters.became_active == 0;
        if status.counters.adverts_received == 1 {
            assert_eq!(status.counters.strangers, behind as u64);
            return Some(stayed);
        }
    }
    panic!("the advert never arrived: {:#?}", statuses(&backup));
}

fn end_a() -> u32 {
    interfaces::scan().unwrap().into_iter().find(|info| info.name == "end-a").unwrap().index
}

#[test]
fn an_advert_that_waits_is_read_before_its_absence_is_believed() {
    in_namespace(|| {
        lay_cable();
        // More than one round reads, and less than the queue holds.
        for behind in [0, 1000] {
            let stayed = (0..20).find_map(|_| stays_backup(behind));
            assert_eq!(stayed, Some(true), "behind {behind} adverts");
        }
    });
}

#[test]
fn an_interface_has_the_same_few_sockets_whatever_runs_on_it() {
    in_namespace(|| {
        lay_cable();
        let raw = |file| {
            std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap().lines().count() - 1
        };
        let (mut all, _inbox) = core("end-a", 1, routers("end-a", 1, 200));
        run_until(&mut all, State::Active);
        // Adverts in, adverts out, the census.
        assert_eq!((raw("raw"), raw("raw6")), (3, 3), "of {} routers", statuses(&all).len());
    });
}

#[test]
fn a_thread_that_has_the_inbox_in_hand_keeps_nobody_waiting() {
    in_namespace(|| {
        lay_cable();
        let (mut active, inbox) = core("end-a", 1, routers("end-a", 1, 200));
        run_until(&mut active, State::Active);
        let sent = traffic(&active).0;
        inbox.put(|_| {
            while traffic(&active).0 < sent + 200 {
                inbox.bell.write(1).unwrap();
                assert!(!active.round());
            }
        });
    });
}

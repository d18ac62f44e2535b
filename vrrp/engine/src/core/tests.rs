//! The thread's body, driven by hand on a cable whose two ends are in one network namespace.

use std::net::IpAddr;
use std::process::Command;

use windlass_kernel::interfaces;
use windlass_kernel::sockets::{AdvertSender, LinkSockets};
use windlass_vrrp::auth::{AntiReplay, AuthMode, Authentication, Key, KeyId, Keyring, Window};
use windlass_vrrp::wire::{AddressList, Advert, Checksum, GROUP_V4, GROUP_V6, Path};
use windlass_vrrp::{Family, Interval, Priority, State, Version, Vrid};

use super::*;
use crate::config::{Hold, RouterConfig};
use crate::lab::hosts::in_namespace;
use crate::link_state::{LinkState, Sources};
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
    Authentication { keyring, mode: AuthMode::Enforce, anti_replay }
}

/// A cable with its ends in this namespace.
fn lay_cable() {
    // With addresses: what the kernel refuses to send is reported, and reports cost.
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
    let found =
        interfaces::scan().unwrap().interfaces.into_iter().find(|info| info.name == interface).unwrap();
    let sockets = Arc::new(LinkSockets::open(interface, found.index, found.mac, 1500).unwrap());
    let sources = Sources { usable: vec![source(4, host), source(6, host)], unusable: Vec::new() };
    let inbox = Arc::new(Inbox::new().unwrap());
    inbox.link(interface.to_owned(), LinkState::Usable { sockets, sources });
    inbox.apply(routers);
    let (shared, (event_sender, _)) = (Arc::new(SharedState::new().unwrap()), crate::event_queue::channel());
    (
        Core::new(shared, Arc::clone(&inbox), event_sender, Arc::default(), true, Duration::from_mins(1))
            .unwrap(),
        inbox,
    )
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
    counters.fold((0, 0), |(adverts, takeovers), c| {
        (adverts + c.adverts_sent + c.adverts_received, takeovers + c.became_active)
    })
}

/// Allocations while at least 200 adverts were sent or received, after as many: hearing a peer for the first time costs. On
/// a busy machine routers may stall, and telling of that costs: then it is measured again.
fn allocations(core: &mut Core, state: State) -> u64 {
    for _ in 0..50 {
        run_until(core, state);
        let (found, _) = traffic(core);
        while traffic(core).0 < found + 200 {
            core.round();
        }
        let (begun, takeovers) = traffic(core);
        let mut allocations = 0;
        while traffic(core).0 < begun + 200 {
            let used = allocation_counter::measure(|| (0..10).for_each(|_| assert!(!core.round())));
            allocations += used.count_total;
        }
        if traffic(core).1 == takeovers && statuses(core).iter().all(|s| s.state == state) {
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

fn path(family: Family, host: u8) -> Path {
    match family {
        Family::V4 => Path::V4 { source: [192, 0, 2, host].into(), destination: GROUP_V4 },
        Family::V6 => {
            let source = [0xfe80, 0, 0, 0, 0, 0, 0, u16::from(host)].into();
            Path::V6 { source, destination: GROUP_V6 }
        }
    }
}

/// Sends adverts from these hosts' addresses, with VRID 1.
fn send(sender: &AdvertSender, family: Family, hosts: impl IntoIterator<Item = u8>) {
    for host in hosts {
        sender.send(&advert(path(family, host)), &sender.target(path(family, host))).unwrap();
    }
}

fn advert(path: Path) -> Vec<u8> {
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

/// A Backup with VRID 1 on one end of the cable, when it is due to take over, and the sockets of the other end. Adverts of host 77 reach
/// its thread, which is no peer.
fn backup(family: Family) -> (Core, Time, LinkSockets) {
    let mut configs = routers("end-b", 2, 100).into_iter();
    let config = configs.find(|config| config.family() == family).unwrap();
    let config = RouterConfig { addresses: BTreeSet::new(), ..config };
    // The kernel keeps away whoever is a peer in none. It is due much later.
    let of_stranger = RouterConfig {
        vrid: Vrid::new(2).unwrap(),
        interval: Interval::from_seconds(10).unwrap(),
        peers: [path(family, 77).source()].into(),
        ..config.clone()
    };
    let (mut backup, _inbox) = core("end-b", 2, vec![config, of_stranger]);
    // (What the kernel refuses is asked for again.)
    let due = (0..100).find_map(|_| {
        assert!(!backup.round());
        backup.deadlines.first().map(|(due, _)| due)
    });
    let due = due.unwrap_or_else(|| panic!("no Backup has a deadline: {:#?}", statuses(&backup)));
    (backup, due, LinkSockets::open("end-a", end_a(), [0; 6], 1500).unwrap())
}

fn sleep_beyond(time: Time) {
    while clock::now() <= time {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a Backup that is run now, this long after it was due, would listen once more in any case.
fn is_stalled(due: Time) -> bool {
    clock::now().since(due) > Duration::from_millis(300)
}

/// A Backup whose thread was held up until just after its deadline: did it stay Backup, when the advert that it waited for
/// had arrived in time, behind this many others? `None`: the test was itself held up for so long that the Backup would
/// listen once more in any case.
fn stays_backup(behind: usize) -> Option<bool> {
    let (mut backup, due, ends) = backup(Family::V4);
    let sender = &ends.family(Family::V4).unwrap().sender;
    send(sender, Family::V4, std::iter::repeat_n(77, behind).chain([1]));
    sleep_beyond(due);
    let mut stayed = true;
    for _ in 0..10_000 {
        if is_stalled(due) {
            return None;
        }
        backup.round();
        let status = statuses(&backup).remove(0);
        stayed &= status.counters.became_active == 0;
        if status.counters.adverts_received == 1 {
            assert_eq!(status.counters.foreign_adverts, behind as u64);
            return Some(stayed);
        }
    }
    panic!("the advert never arrived: {:#?}", statuses(&backup));
}

fn end_a() -> u32 {
    interfaces::scan().unwrap().interfaces.into_iter().find(|info| info.name == "end-a").unwrap().index
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

/// A Backup that was due before more strangers came than a round reads: did it take over in the first round, and how many
/// were read by then? `None` as above.
fn takes_over_before_strangers(family: Family) -> Option<(u64, u64)> {
    let (mut backup, due, ends) = backup(family);
    let sender = &ends.family(family).unwrap().sender;
    // What was stamped within a millisecond is not known to have come in order.
    sleep_beyond(due + Duration::from_millis(2));
    send(sender, family, [77; 1000]);
    backup.round();
    let counters = statuses(&backup).remove(0).counters;
    (!is_stalled(due)).then_some((counters.became_active, counters.foreign_adverts))
}

#[test]
fn a_silence_that_a_flood_followed_is_believed_before_the_flood_is_read() {
    in_namespace(|| {
        lay_cable();
        for family in [Family::V4, Family::V6] {
            let taken = (0..20).find_map(|_| takes_over_before_strangers(family));
            assert_eq!(taken, Some((1, 256)), "{family}");
        }
    });
}

/// A Backup that was due after exactly as many strangers came as a round reads: did it take over in the first round?
fn takes_over_behind_a_full_round() -> Option<u64> {
    let (mut backup, due, ends) = backup(Family::V4);
    send(&ends.family(Family::V4).unwrap().sender, Family::V4, [77; 256]);
    sleep_beyond(due);
    backup.round();
    (!is_stalled(due)).then(|| statuses(&backup).remove(0).counters.became_active)
}

#[test]
fn a_queue_that_held_no_more_than_a_round_reads_is_known_to_be_empty() {
    in_namespace(|| {
        lay_cable();
        assert_eq!((0..20).find_map(|_| takes_over_behind_a_full_round()), Some(1));
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
        // Adverts in, adverts out, foreign adverts.
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
        inbox.send(|_| {
            while traffic(&active).0 < sent + 200 {
                inbox.waker.write(1).unwrap();
                assert!(!active.round());
            }
        });
    });
}

/// The first router of each family, alone.
fn loners() -> Vec<RouterConfig> {
    let firsts = routers("end-a", 1, 200).into_iter().filter(|config| config.vrid == Vrid::MIN);
    firsts.map(|config| RouterConfig { peers: BTreeSet::new(), ..config }).collect()
}

/// Rounds that wait for nothing, until the statuses are such.
fn run_until_all(core: &mut Core, what: &str, there: impl Fn(&[RouterStatus]) -> bool) -> Vec<RouterStatus> {
    let limit = clock::now() + Duration::from_secs(30);
    while clock::now() < limit {
        let all = statuses(core);
        if there(&all) {
            return all;
        }
        core.inbox.waker.write(1).unwrap();
        core.round();
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("not {what}: {:#?}", statuses(core));
}

fn are_active(all: &[RouterStatus]) -> bool {
    !all.is_empty() && all.iter().all(|status| status.state == State::Active && status.error.is_none())
}

#[test]
fn a_router_whose_adverts_cannot_be_waited_for_does_not_run_until_they_can() {
    in_namespace(|| {
        lay_cable();
        let (mut core, inbox) = core("end-a", 1, loners());
        let commands = inbox.take();
        let LinkState::Usable { sockets, .. } = &commands.links[0].1 else { panic!("usable") };
        let sockets = Arc::clone(sockets);
        inbox.send(|all| *all = commands);
        let adverts = sockets.family(Family::V4).unwrap().adverts.descriptor();
        // The kernel refuses a descriptor that is there.
        core.poller.add(adverts, u64::MAX - 1).unwrap();
        let all = run_until_all(&mut core, "one deaf and one Active", |all| {
            all.len() == 2 && all[0].error.is_some() && are_active(&all[1..])
        });
        let error = all[0].error.as_deref().unwrap();
        assert!(
            error.contains("interface end-a: adverts for IPv4 cannot be waited for: File exists"),
            "{error}"
        );
        // Tried again, in vain.
        let retry = core.retry.expect("a time to try again");
        run_until_all(&mut core, "tried again", |_| clock::now() > retry + Duration::from_millis(200));
        let deaf = statuses(&core).remove(0);
        assert_eq!((deaf.state, deaf.counters.became_active), (State::Initialize, 0));
        core.poller.remove(adverts);
        run_until_all(&mut core, "all Active", are_active);
        assert_eq!(core.retry, None);
    });
}

#[test]
fn of_two_routers_with_one_vip_the_one_with_the_higher_vrid_is_refused_by_name() {
    in_namespace(|| {
        lay_cable();
        let first = loners().remove(0);
        let second =
            RouterConfig { vrid: Vrid::new(2).unwrap(), addresses: [source(4, 102)].into(), ..first.clone() };
        let greedy = RouterConfig { addresses: [source(4, 101), source(4, 102)].into(), ..first.clone() };
        let (mut core, inbox) = core("end-a", 1, vec![first.clone(), second.clone()]);
        run_until_all(&mut core, "both Active", |all| all.len() == 2 && are_active(all));
        inbox.apply(vec![second.clone(), greedy]);
        let all = run_until_all(&mut core, "one refused", |all| all[1].error.is_some());
        assert!(are_active(&all[..1]), "{all:#?}");
        assert_eq!((all[1].state, all[1].counters.resignations_sent > 0), (State::Initialize, true));
        assert_eq!(
            all[1].error.as_deref().unwrap(),
            "VRID 2 for IPv4 on end-a: 192.0.2.102 is a VIP of VRID 1 on this interface, too: take it out of one of the two"
        );
        inbox.apply(vec![first, second]);
        run_until_all(&mut core, "both Active again", are_active);
    });
}

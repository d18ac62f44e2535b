use std::net::IpAddr;
use std::time::Instant;

use netlink_packet_core::NLM_F_CREATE;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};

use super::*;
use crate::lab::{add_interface, in_namespace};
use crate::netlink::tests::own_address;

const START: Time = Time::from_nanos(1_000_000_000);

fn follower(buffer: usize) -> Follower {
    Follower::with_monitor(Monitor::with_buffer(buffer).unwrap(), START).unwrap()
}

/// What a new dump gives.
fn dump() -> Interfaces {
    Interfaces::dump(&mut RouteSocket::open().unwrap()).unwrap().0
}

/// Waits until the table is what a dump gives, by notices alone. The kernel tells the state of an interface a while after it
/// has changed, whatever the test does.
fn await_truth(follower: &mut Follower) {
    let limit = Instant::now() + Duration::from_secs(20);
    while *follower.table() != dump() {
        assert!(Instant::now() < limit, "{:#?}\nis not\n{:#?}", follower.table(), dump());
        follower.take_notifications(START);
        std::thread::yield_now();
    }
}

fn nth(index: u32, n: u16) -> AddressMessage {
    let [high, low] = n.to_be_bytes();
    let address = IpAddr::from([10, 0, high, low]);
    let mut message = AddressMessage::default();
    message.header.index = index;
    message.header.family = netlink_packet_route::AddressFamily::Inet;
    message.header.prefix_len = 32;
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    message
}

fn add(index: u32, n: u16) -> (RouteNetlinkMessage, u16) {
    (RouteNetlinkMessage::NewAddress(nth(index, n)), NLM_F_CREATE)
}

fn remove(index: u32, n: u16) -> (RouteNetlinkMessage, u16) {
    (RouteNetlinkMessage::DelAddress(nth(index, n)), 0)
}

fn all_done(route: &mut RouteSocket, orders: impl Iterator<Item = (RouteNetlinkMessage, u16)>) {
    assert!(route.batch(orders).unwrap().iter().all(Result::is_ok));
}

#[test]
fn an_interface_is_followed_through_rename_addresses_and_removal_without_a_dump() {
    in_namespace(|| {
        let mut route = RouteSocket::open().unwrap();
        let index = add_interface(&mut route, "eth0");
        let mut follower = follower(1 << 20);
        assert_eq!(follower.table().get("eth0").map(|info| info.index), Some(index));
        let routine = follower.deadline();

        let mut link = LinkMessage::default();
        link.header.index = index;
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        link.attributes = vec![LinkAttribute::IfName("lan0".to_owned()), LinkAttribute::Mtu(1400)];
        route.request(RouteNetlinkMessage::SetLink(link.clone()), 0).unwrap();
        assert!(follower.follow(START));
        assert_eq!(follower.table().get("eth0"), None);
        assert_eq!(follower.table().get("lan0").map(|info| (info.index, info.mtu)), Some((index, 1400)));

        all_done(&mut route, [add(index, 1), add(index, 2), remove(index, 1)].into_iter());
        assert!(follower.follow(START));
        let addresses = follower.table().get("lan0").unwrap().ipv4;
        assert_eq!(addresses, [("10.0.0.2".parse().unwrap(), 32)]);
        await_truth(&mut follower);

        link.attributes.clear();
        route.request(RouteNetlinkMessage::DelLink(link), 0).unwrap();
        assert!(follower.follow(START));
        assert_eq!(follower.table().get("lan0"), None);
        await_truth(&mut follower);
        assert_eq!(follower.deadline(), routine, "no dump was needed");
    });
}

/// The tag that the engine sets comes back from the kernel, by notice and by dump.
#[test]
fn what_the_engine_binds_is_not_in_the_table() {
    in_namespace(|| {
        let mut route = RouteSocket::open().unwrap();
        let index = add_interface(&mut route, "eth0");
        let mut follower = follower(1 << 20);
        for vip in ["192.0.2.50", "2001:db8::50"] {
            let message = own_address(index, vip.parse().unwrap(), 60);
            route.request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE).unwrap();
        }
        follower.follow(START);
        let info = follower.table().get("eth0").unwrap();
        assert_eq!((info.ipv4, info.ipv6, info.ipv6_unusable), Default::default());
        await_truth(&mut follower);
    });
}

#[test]
fn two_thousand_addresses_at_once_overrun_a_small_buffer_and_the_table_equals_the_dump_afterwards() {
    in_namespace(|| {
        let mut route = RouteSocket::open().unwrap();
        let index = add_interface(&mut route, "eth0");
        // Each of these in a monitor of its own: one overrun does not help the next.
        for buffer in [2304, 64 * 1024, 16 << 20] {
            let mut follower = follower(buffer);
            let later = START + Duration::from_secs(1);
            all_done(&mut route, (0..2000).map(|n| add(index, n)));
            follower.follow(later);
            // A big buffer holds them all, and they are taken in several goes.
            while follower.take_notifications(later) {}
            assert_eq!(follower.table().get("eth0").unwrap().ipv4.len(), 2000);
            await_truth(&mut follower);
            let dumped = follower.deadline() > START + RESYNC_INTERVAL;
            assert_eq!(dumped, buffer < 1 << 20, "buffer of {buffer}");

            let later = later + Duration::from_secs(1);
            all_done(&mut route, (0..2000).map(|n| remove(index, n)));
            follower.follow(later);
            while follower.take_notifications(later) {}
            assert_eq!(follower.table().get("eth0").unwrap().ipv4, []);
            await_truth(&mut follower);
            // And it hears again.
            all_done(&mut route, [add(index, 1)].into_iter());
            assert!(follower.follow(later));
            await_truth(&mut follower);
            all_done(&mut route, [remove(index, 1)].into_iter());
        }
    });
}

/// The queue that overran holds what came first, the additions. The removals were lost.
#[test]
fn what_was_heard_before_a_loss_does_not_bring_back_what_is_gone() {
    in_namespace(|| {
        let mut route = RouteSocket::open().unwrap();
        let index = add_interface(&mut route, "eth0");
        let mut follower = follower(16 * 1024);
        all_done(&mut route, (0..500).map(|n| add(index, n)));
        all_done(&mut route, (0..500).map(|n| remove(index, n)));
        for _ in 0..3 {
            follower.follow(START);
            assert_eq!(follower.table().get("eth0").unwrap().ipv4, []);
        }
        await_truth(&mut follower);
    });
}

/// While another thread changes addresses all the time: whatever is overrun, told twice or dumped in between, the end is
/// right.
#[test]
fn under_a_storm_of_changes_the_table_ends_up_right() {
    in_namespace(|| {
        let mut route = RouteSocket::open().unwrap();
        let index = add_interface(&mut route, "eth0");
        let mut follower = follower(8192);
        let mut now = START;
        std::thread::scope(|scope| {
            let storm = scope.spawn(move || {
                for round in 0..60u16 {
                    let orders =
                        (0..150).map(|n| if n % 7 == round % 7 { remove(index, n) } else { add(index, n) });
                    // Some are there already, some are not.
                    route.batch(orders).unwrap();
                }
            });
            while !storm.is_finished() {
                now = now + Duration::from_millis(300);
                follower.follow(now);
            }
        });
        follower.follow(now);
        follower.follow(now + RESYNC_INTERVAL);
        await_truth(&mut follower);
    });
}

#[test]
fn the_whole_is_asked_for_once_a_minute_even_if_nothing_is_heard() {
    in_namespace(|| {
        let mut follower = follower(1 << 20);
        assert_eq!(follower.deadline(), START + RESYNC_INTERVAL);
        // As if a notice had been missed.
        follower.table = Interfaces::default();
        assert!(!follower.follow(START + Duration::from_secs(59)));
        assert!(follower.follow(START + RESYNC_INTERVAL));
        await_truth(&mut follower);
        assert_eq!(follower.deadline(), START + RESYNC_INTERVAL + RESYNC_INTERVAL);
    });
}

//! Who asks and who claims in elections, with another host that has an address (RFC 5227, RFC 4862 §5.4).

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use proptest::prelude::*;
use windlass_vrrp::{Interval, Priority, State, Time, Versions, Vrid};

use super::TRANSIT_TIME;
use crate::config::RouterConfig;

mod lan;

use lan::{Delays, Entry, Lan, Observed};

const PROBE: Duration = Duration::from_millis(60);
const PROMPT: Delays = Delays { adverts: Duration::from_micros(300), frames: Duration::from_micros(200) };
const TAKEN: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 200));
const FREE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 201));

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn after(time: u64) -> Time {
    Time::from_nanos(time * 1_000_000)
}

/// The node with this index among so many. Priorities fall with the index, as the controller ranks.
fn router(node: u8, nodes: u8, interval: u32) -> RouterConfig {
    let source = |node: u8| IpAddr::from([192, 0, 2, node + 1]);
    RouterConfig {
        priority: Priority::new(254 - 16 * node).unwrap(),
        interval: Interval::from_millis(interval).unwrap(),
        peers: (0..nodes).filter(|other| *other != node).map(source).collect(),
        addresses: [TAKEN, FREE].into(),
        probe: Some(PROBE),
        ..RouterConfig::new("eth0", Vrid::new(7).unwrap(), source(node))
    }
}

/// Nodes that are started at these milliseconds.
fn started_at(starts: &[u64], foreign_adverts: &[IpAddr], unproven: bool) -> Lan {
    let mut lan = Lan::new(foreign_adverts);
    let count = u8::try_from(starts.len()).unwrap();
    for (node, start) in (0..).zip(starts) {
        lan.add(router(node, count, 100), after(*start), PROMPT, unproven);
    }
    lan
}

/// Nodes in a settled election, with no stranger.
fn settled(nodes: usize, unproven: bool) -> Lan {
    let mut lan = started_at(&vec![0; nodes], &[], unproven);
    lan.run_for(millis(2000));
    assert_eq!(lan.active(), [0]);
    lan
}

fn claims(lan: &Lan, address: IpAddr) -> Vec<&Entry> {
    lan.log.iter().filter(|entry| entry.observed == Observed::Claimed(address)).collect()
}

/// When this node became Active and when it claimed the address, the first time since.
fn took_over(lan: &Lan, begin: Time, node: usize, address: IpAddr) -> (Time, Time) {
    let mut observations = lan.since(begin).filter(|entry| entry.node == node);
    let became = observations
        .find(|entry| matches!(entry.observed, Observed::Became(State::Active, _)))
        .expect("Active")
        .at;
    (became, observations.find(|entry| entry.observed == Observed::Claimed(address)).expect("a claim").at)
}

#[test]
fn who_preempts_a_peer_that_asks_still_asks_too_and_leaves_the_stranger_his_address() {
    // Proven or not: by its own knowledge the higher one can tell that the lower became Active a moment ago.
    for unproven in [true, false] {
        let mut lan = started_at(&[20, 0], &[TAKEN], unproven);
        lan.run_for(millis(5000));
        assert_eq!(lan.active(), [0]);
        let both =
            lan.log.iter().filter(|entry| matches!(entry.observed, Observed::Became(State::Active, _)));
        assert_eq!(both.map(|entry| entry.node).collect::<Vec<_>>(), [1, 0], "the lower one is first");
        assert_eq!(claims(&lan, TAKEN), [] as [&Entry; 0]);
        assert_eq!(claims(&lan, FREE).iter().map(|entry| entry.node).collect::<Vec<_>>(), [0]);
    }
}

#[test]
fn who_preempts_a_peer_that_has_found_a_stranger_finds_him_too() {
    let mut lan = started_at(&[1000, 0], &[TAKEN], true);
    lan.run_for(millis(5000));
    assert_eq!(lan.active(), [0]);
    assert_eq!(claims(&lan, TAKEN), [] as [&Entry; 0]);
    let finders = lan.log.iter().filter(|entry| entry.observed == Observed::FoundTaken(TAKEN));
    assert_eq!(finders.map(|entry| entry.node).collect::<Vec<_>>(), [1, 0]);
}

#[test]
fn who_has_found_a_stranger_and_lost_the_router_asks_again_though_the_address_was_proven() {
    let mut lan = started_at(&[400, 0], &[TAKEN], false);
    lan.run_for(millis(380));
    assert_eq!(lan.active(), [1]);
    assert!(lan.log.iter().any(|entry| entry.observed == Observed::FoundTaken(TAKEN)));
    lan.run_for(millis(1000));
    assert_eq!(lan.active(), [0]);
    let begin = lan.now;
    lan.crash(0);
    lan.run_for(millis(5000));
    let of_second = |entry: &&Entry| entry.node == 1 && entry.observed == Observed::Claimed(TAKEN);
    assert_eq!(lan.since(begin).filter(of_second).count(), 0);
}

#[test]
fn an_address_in_service_is_claimed_at_the_instant_of_a_takeover() {
    let mut lan = settled(3, true);
    lan.prove();
    let begin = lan.now;
    lan.crash(0);
    lan.run_for(millis(2000));
    let (became, claimed) = took_over(&lan, begin, 1, FREE);
    assert_eq!(claimed, became);
    assert!(!lan.since(begin).any(|entry| matches!(entry.observed, Observed::Asked(_))), "{:#?}", lan.log);
}

#[test]
fn an_address_that_nobody_is_known_to_serve_is_claimed_after_the_question() {
    let mut lan = settled(3, true);
    let begin = lan.now;
    lan.crash(0);
    lan.run_for(millis(2000));
    let (became, claimed) = took_over(&lan, begin, 1, FREE);
    assert_eq!(claimed.since(became), TRANSIT_TIME + PROBE);
}

#[test]
fn a_node_that_comes_back_takes_over_without_a_question_from_a_peer_that_serves() {
    let mut lan = Lan::new(&[]);
    lan.add(router(0, 2, 100), after(5000), PROMPT, false);
    lan.add(router(1, 2, 100), after(0), PROMPT, false);
    lan.run_for(millis(10_000));
    let (became, claimed) = took_over(&lan, after(5000), 0, FREE);
    assert_eq!(claimed, became);
}

#[test]
fn a_frozen_owner_that_wakes_up_is_no_stranger_and_answers_nobody() {
    for unproven in [true, false] {
        // Awake again before, while and after its successor asks.
        for span in [250, 305, 320, 350, 380, 1000] {
            let mut lan = settled(2, unproven);
            lan.freeze(0, millis(span));
            lan.run_for(millis(5000));
            assert_eq!(lan.active(), [0], "frozen for {span} ms");
            let taken = |entry: &&Entry| matches!(entry.observed, Observed::FoundTaken(_));
            assert_eq!(lan.log.iter().find(taken), None, "frozen for {span} ms");
            assert_eq!(claims(&lan, FREE).last().unwrap().node, 0, "frozen for {span} ms");
        }
    }
}

fn any_delays() -> impl Strategy<Value = Delays> {
    (100_u64..9_000, 100_u64..9_000).prop_map(|(adverts, frames)| Delays {
        adverts: Duration::from_micros(adverts),
        frames: Duration::from_micros(frames),
    })
}

proptest! {
    /// Two to four nodes that are started within half a second, of which some crash or freeze.
    #[test]
    fn no_history_makes_a_node_claim_a_strangers_address_or_take_a_peer_for_a_stranger(
        starts in proptest::collection::vec((0_u64..500, any_delays()), 2..=4),
        (interval, versions) in prop_oneof![
            (prop_oneof![Just(50_u32), Just(100), Just(1000)], Just(Versions::V3)),
            (Just(1000_u32), prop_oneof![Just(Versions::V2), Just(Versions::V2AndV3)]),
        ],
        faults in proptest::collection::vec((0_u64..4000, 0_usize..4, proptest::option::of(1_u64..3000)), 0..4),
    ) {
        let mut lan = Lan::new(&[TAKEN]);
        let count = u8::try_from(starts.len()).unwrap();
        for (node, (start, delays)) in (0..).zip(&starts) {
            let config = RouterConfig { versions, ..router(node, count, interval) };
            lan.add(config, after(*start), *delays, true);
        }
        let mut crashed = 0;
        for (wait, node, frozen) in faults {
            lan.run_for(millis(wait));
            let node = node % usize::from(count);
            match frozen {
                Some(span) => lan.freeze(node, millis(span)),
                // One is left, and those that wake up again.
                None if crashed + 1 < count => {
                    crashed += 1;
                    lan.crash(node);
                }
                None => {}
            }
        }
        lan.run_for(millis(20_000));
        prop_assert_eq!(claims(&lan, TAKEN), Vec::<&Entry>::new());
        let mistaken = lan.log.iter().find(|entry| entry.observed == Observed::FoundTaken(FREE));
        prop_assert_eq!(mistaken, None);
        // Whoever is Active in the end found the one address taken, and claimed the other.
        let [active] = lan.active()[..] else { panic!("{:?} are Active", lan.active()) };
        let of_active = |is: &dyn Fn(&Observed) -> bool| {
            lan.log.iter().rposition(|entry| entry.node == active && is(&entry.observed))
        };
        let became = of_active(&|observed| matches!(observed, Observed::Became(State::Active, _)));
        let last = |wanted: Observed| of_active(&|observed| *observed == wanted);
        prop_assert!(last(Observed::FoundTaken(TAKEN)) > became, "{:#?}", lan.log);
        prop_assert!(last(Observed::Claimed(FREE)) > became, "{:#?}", lan.log);
    }
}

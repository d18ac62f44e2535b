use windlass_kernel::mark_mask::MarkMask;

use windlass_dataplane::sharing::SharedBy;
use windlass_kernel::port::Protocol;

use super::*;
use crate::sharing::trails::Trail;

const VIPS: [&str; 3] = ["192.0.2.50", "192.0.2.51", "2001:db8::50"];

fn vip(number: usize) -> IpAddr {
    VIPS[number].parse().unwrap()
}

fn peer(number: u8) -> IpAddr {
    [192, 0, 2, number].into()
}

fn at(seconds: u64) -> Time {
    Time::from_nanos(seconds * 1_000_000_000)
}

fn served(number: usize, takeover: u64, by: HandedOverBy) -> ServedVip {
    ServedVip { vip: vip(number), interface: 2, takeover, by }
}

/// A window of 10 s, and two marks.
fn plan() -> MovePlan {
    let marks = MarkMask::new(0x30).unwrap();
    MovePlan::new(ConnectionForwarding { window: Duration::from_secs(10), marks })
}

/// What is served here and marked, with what, and whether the window is open.
fn moved(plan: &MovePlan, now: Time) -> Vec<(IpAddr, u32, bool)> {
    let here = |moved: Moved| match moved.unknown {
        UnknownConnections::Forwarded => Some(true),
        UnknownConnections::Untouched => Some(false),
        UnknownConnections::Dropped => None,
    };
    let all = plan.moved(now).into_iter();
    all.filter_map(|(vip, moved)| Some((vip, moved.mark?, here(moved)?))).collect()
}

/// What has left, and what it is still marked with.
fn left(plan: &MovePlan, now: Time) -> Vec<(IpAddr, Option<u32>)> {
    let all = plan.moved(now).into_iter();
    let left = all.filter(|(_, moved)| moved.unknown == UnknownConnections::Dropped);
    left.map(|(vip, moved)| (vip, moved.mark)).collect()
}

#[test]
fn what_a_peer_handed_over_is_marked_for_it_as_long_as_this_node_serves_it() {
    let mut plan = plan();
    plan.follow([served(0, 1, HandedOverBy::Peer(peer(1)))], at(0));
    assert_eq!(moved(&plan, at(0)), [(vip(0), 0x10, true)]);
    // Of the same peer, and of another.
    plan.follow(
        [
            served(0, 1, HandedOverBy::Peer(peer(1))),
            served(1, 2, HandedOverBy::Peer(peer(2))),
            served(2, 3, HandedOverBy::Peer("fe80::1".parse().unwrap())),
        ],
        at(1),
    );
    assert_eq!(moved(&plan, at(1)), [(vip(0), 0x10, true), (vip(1), 0x20, true), (vip(2), 0x10, true)]);
    plan.follow([], at(2));
    assert_eq!(moved(&plan, at(2)), []);
    assert_eq!(plan.hops().count(), 3, "known for a moment more");
    plan.follow([], at(5));
    assert_eq!(plan.hops().count(), 0);
}

/// Who sends a packet may not have heard yet that the VIP has moved.
#[test]
fn what_has_left_is_forwarded_for_a_moment_and_what_is_unknown_is_left_to_the_next_active() {
    let mut plan = plan();
    plan.follow([served(0, 1, HandedOverBy::Peer(peer(1))), served(1, 2, HandedOverBy::Nobody)], at(10));
    assert_eq!(left(&plan, at(10)), []);
    plan.follow([served(0, 1, HandedOverBy::Peer(peer(1)))], at(11));
    assert_eq!(
        (moved(&plan, at(11)), left(&plan, at(11))),
        (vec![(vip(0), 0x10, true)], vec![(vip(1), None)])
    );
    plan.follow([], at(12));
    assert_eq!(left(&plan, at(12)), [(vip(0), Some(0x10)), (vip(1), None)]);
    assert_eq!(plan.due(at(12)), Some(at(14)));
    plan.follow([], at(14));
    assert_eq!(left(&plan, at(14)), [(vip(0), Some(0x10))]);
    plan.follow([served(0, 3, HandedOverBy::Peer(peer(2)))], at(14));
    assert_eq!((moved(&plan, at(14)), left(&plan, at(14))), (vec![(vip(0), 0x20, true)], vec![]));
    plan.follow([], at(15));
    plan.follow([], at(18));
    assert_eq!((plan.moved(at(18)), plan.hops().count()), (BTreeMap::new(), 0));
}

#[test]
fn a_takeover_from_nobody_ends_what_was_handed_over_before() {
    let mut plan = plan();
    plan.follow([served(0, 1, HandedOverBy::Nobody)], at(0));
    assert_eq!(moved(&plan, at(0)), []);
    plan.follow([served(0, 2, HandedOverBy::Peer(peer(1)))], at(1));
    plan.follow([served(0, 3, HandedOverBy::Nobody)], at(2));
    assert_eq!((moved(&plan, at(2)), plan.hops().count()), (vec![], 0));
}

#[test]
fn who_fell_silent_is_sent_what_it_may_know_until_it_does_not_answer() {
    for answered in [true, false] {
        let mut plan = plan();
        let hop = NextHop { interface: 2, address: peer(1) };
        let all =
            || [served(0, 1, HandedOverBy::SilentPeer(peer(1))), served(1, 2, HandedOverBy::Peer(peer(2)))];
        plan.follow(all(), at(1));
        assert_eq!(plan.doubted().collect::<Vec<_>>(), [hop]);
        assert_eq!(moved(&plan, at(1)), [(vip(0), 0x10, true), (vip(1), 0x20, true)], "at once");
        plan.follow(all(), at(2));
        assert_eq!(plan.doubted().count(), 1, "still");
        plan.note_answer(hop, answered);
        plan.follow(all(), at(3));
        assert_eq!(plan.doubted().count(), 0);
        let first = answered.then_some((vip(0), 0x10, true));
        let expected: Vec<_> = first.into_iter().chain([(vip(1), 0x20, true)]).collect();
        assert_eq!(moved(&plan, at(3)), expected);
    }
}

#[test]
fn a_node_whose_place_another_has_taken_has_to_show_that_it_lives() {
    let mut plan = plan();
    plan.follow(
        [served(0, 1, HandedOverBy::Peer(peer(1))), served(1, 2, HandedOverBy::Peer(peer(2)))],
        at(1),
    );
    plan.doubt(peer(3));
    assert_eq!(plan.doubted().count(), 0, "it handed nothing over");
    plan.doubt(peer(1));
    let hop = NextHop { interface: 2, address: peer(1) };
    assert_eq!(plan.doubted().collect::<Vec<_>>(), [hop]);
    plan.note_answer(hop, false);
    assert_eq!(moved(&plan, at(3)), [(vip(1), 0x20, true)]);
}

/// Also of a node that is dead by now, but not of what nobody had.
#[test]
fn others_may_have_connections_of_what_they_had_until_the_window_closes() {
    let mut plan = plan();
    let all = || {
        [
            served(0, 1, HandedOverBy::SilentPeer(peer(1))),
            served(1, 2, HandedOverBy::Nobody),
            served(2, 3, HandedOverBy::Peer("fe80::1".parse().unwrap())),
        ]
    };
    plan.follow(all(), at(100));
    plan.note_answer(NextHop { interface: 2, address: peer(1) }, false);
    let for_seconds = |seconds| Duration::from_secs(seconds);
    assert_eq!(plan.had_for(at(103)), [(vip(0), for_seconds(3)), (vip(2), for_seconds(3))].into());
    plan.follow([served(0, 1, HandedOverBy::SilentPeer(peer(1)))], at(104));
    assert_eq!(plan.had_for(at(104)), [(vip(0), for_seconds(4))].into(), "the other has left");
    assert_eq!(plan.had_for(at(110)), BTreeMap::new());
}

#[test]
fn a_vip_that_changes_its_virtual_router_keeps_what_was_known() {
    let mut plan = plan();
    plan.follow([served(0, 1, HandedOverBy::Peer(peer(1)))], at(0));
    // Neither router serves it for a moment.
    plan.follow([], at(1));
    plan.follow([served(0, 2, HandedOverBy::ThisNode)], at(1));
    assert_eq!(moved(&plan, at(1)), [(vip(0), 0x10, true)]);
    plan.follow([served(1, 2, HandedOverBy::ThisNode)], at(2));
    assert_eq!(moved(&plan, at(2)), [], "the other was never handed over");
}

#[test]
fn the_window_closes_and_what_is_forwarded_goes_on_until_nothing_is() {
    let mut plan = plan();
    let all = || [served(0, 1, HandedOverBy::Peer(peer(1)))];
    plan.follow(all(), at(100));
    assert_eq!(plan.due(at(100)), Some(at(110)));
    plan.note_counted(7, at(108));
    plan.follow(all(), at(110));
    assert_eq!(moved(&plan, at(110)), [(vip(0), 0x10, false)], "marked connections are forwarded still");
    plan.note_counted(9, at(115));
    plan.follow(all(), at(124));
    assert_eq!(moved(&plan, at(124)), [(vip(0), 0x10, false)]);
    assert_eq!(plan.due(at(124)), Some(at(125)));
    plan.follow(all(), at(125));
    assert_eq!((moved(&plan, at(125)), plan.hops().count()), (vec![], 0));
    plan.follow(all(), at(126));
    assert_eq!((moved(&plan, at(126)), plan.due(at(126))), (vec![], None), "and it is not begun anew");
    assert_eq!(plan.forwarded(), 9);
}

#[test]
fn a_count_that_begins_anew_is_added() {
    let mut plan = plan();
    for packets in [5, 5, 8, 2, 3] {
        plan.note_counted(packets, at(1));
    }
    assert_eq!(plan.forwarded(), 5 + 3 + 2 + 1);
}

#[test]
fn a_node_that_does_not_answer_twice_in_a_row_is_sent_nothing_more() {
    let mut plan = plan();
    let hop = NextHop { interface: 2, address: peer(1) };
    let all = || [served(0, 1, HandedOverBy::Peer(peer(1))), served(1, 2, HandedOverBy::Peer(peer(2)))];
    plan.follow(all(), at(0));
    for (reachable, dead) in
        [(Some(false), false), (Some(true), false), (Some(false), false), (None, false), (Some(false), false)]
    {
        assert_eq!(plan.note_reachable(hop, reachable), dead);
    }
    assert!(plan.note_reachable(hop, Some(false)));
    for second in [1, 2] {
        assert_eq!(moved(&plan, at(second)), [(vip(1), 0x20, true)]);
        plan.follow(all(), at(second));
    }
}

#[test]
fn more_nodes_than_marks_are_told_and_a_mark_is_not_used_again_before_the_others() {
    let mut plan = plan();
    let from = |number, takeover| served(0, takeover, HandedOverBy::Peer(peer(number)));
    let mut marks = Vec::new();
    for takeover in 1..=5 {
        assert_eq!(plan.follow([from(u8::try_from(takeover).unwrap(), takeover)], at(takeover)), [].into());
        marks.push(moved(&plan, at(takeover))[0].1);
    }
    assert_eq!(marks, [0x10, 0x20, 0x30, 0x10, 0x20]);
    let refused = plan.follow(
        [
            served(0, 5, HandedOverBy::Peer(peer(5))),
            served(1, 6, HandedOverBy::Peer(peer(6))),
            served(2, 7, HandedOverBy::Peer("fe80::1".parse().unwrap())),
        ],
        at(6),
    );
    assert_eq!(refused, [].into());
    let third = ServedVip { vip: peer(99), ..from(7, 8) };
    let fourth = ServedVip { vip: peer(98), ..from(8, 9) };
    let all = [from(5, 5), served(1, 6, HandedOverBy::Peer(peer(6))), third, fourth];
    assert_eq!(plan.follow(all, at(6)), [peer(8)].into(), "three marks of this family are taken");
}

/// Trails of the first VIP: its only lot asks these peers.
fn trails(peers: &[u8]) -> Arc<Trails> {
    trails_without(peers, &[])
}

/// The same while these do not answer.
fn trails_without(peers: &[u8], silent: &[u8]) -> Arc<Trails> {
    let hops = peers.iter().map(|n| NextHop { interface: 2, address: peer(*n) }).collect();
    let trail = Trail::new(SharedBy::Connection, [(7, hops)].into());
    let services =
        if peers.is_empty() { BTreeMap::new() } else { [((vip(0), Protocol::Tcp), Arc::new(trail))].into() };
    let silent = silent.iter().map(|n| peer(*n)).collect();
    Arc::new(Trails { addresses: [(vip(0), 0)].into(), silent, services })
}

fn passing(plan: &MovePlan) -> Option<guard::Trails> {
    let (_, marks, _) = plan.passing_inputs();
    plan.passing((&PassingInputs::default(), &marks), None)
}

/// The step of that lot.
fn step(plan: &MovePlan) -> Option<(u32, u8)> {
    let passing = passing(plan).unwrap();
    let steps = &passing.services.get(&(vip(0), Protocol::Tcp))?.1;
    steps.get(&7).map(|step| (step.mark, step.times))
}

#[test]
fn a_shared_vip_is_not_handed_over_and_its_nodes_share_the_marks_with_those_that_hand_over() {
    let mut plan = plan();
    plan.follow([served(0, 1, HandedOverBy::Nobody)], at(0));
    assert_eq!(plan.follow_trails(Some(trails(&[1, 2]))), [].into());
    let all = || [served(0, 2, HandedOverBy::Peer(peer(3))), served(1, 3, HandedOverBy::Peer(peer(2)))];
    plan.follow(all(), at(1));
    assert_eq!(moved(&plan, at(1)), [(vip(1), 0x20, true)]);
    assert_eq!(left(&plan, at(1)), []);
    assert_eq!(step(&plan), Some((0x10, 3)));
    assert_eq!(plan.marked(), [(vip(0), 0x10), (vip(0), 0x20), (vip(1), 0x20)].into());
    let led: Vec<_> = plan.led().into_iter().map(|((hop, _), vips)| (hop.address, vips)).collect();
    assert_eq!(led, [(peer(1), [vip(0)].into()), (peer(2), [vip(0), vip(1)].into())]);
}

#[test]
fn a_node_for_which_no_mark_is_left_is_named_and_the_next_one_is_asked() {
    let mut plan = plan();
    assert_eq!(plan.follow_trails(Some(trails(&[1, 2, 3, 4]))), [peer(4)].into());
    assert_eq!(plan.follow_trails(Some(trails(&[4, 1]))), [peer(4)].into());
    assert_eq!(step(&plan), Some((0x10, 2)));
    // The others' marks are not used any more.
    plan.expire(at(100));
    assert_eq!(plan.follow_trails(Some(trails(&[4, 1]))), [].into());
    assert_eq!(step(&plan), Some((0x20, 3)));
}

#[test]
fn a_node_that_does_not_answer_is_not_asked_until_it_does() {
    let mut plan = plan();
    plan.follow_trails(Some(trails(&[1, 2])));
    let hop = NextHop { interface: 2, address: peer(1) };
    assert!(!plan.note_reachable(hop, Some(false)));
    assert_eq!(step(&plan), Some((0x10, 3)));
    assert!(plan.note_reachable(hop, Some(false)), "told once");
    assert!(!plan.note_reachable(hop, Some(false)));
    assert_eq!(step(&plan), Some((0x20, 2)));
    assert_eq!(plan.marked(), [(vip(0), 0x20)].into(), "what it had is forgotten");
    plan.note_reachable(hop, Some(true));
    assert_eq!(step(&plan), Some((0x10, 3)));
}

#[test]
fn connections_that_were_passed_on_end_with_the_silence_of_their_node() {
    let mut plan = plan();
    plan.follow_trails(Some(trails(&[1, 2])));
    assert_eq!(plan.bury_silent(), []);
    plan.follow_trails(Some(trails_without(&[2], &[1])));
    assert_eq!(plan.marked(), [(vip(0), 0x10), (vip(0), 0x20)].into(), "they were passed on");
    let hop = NextHop { interface: 2, address: peer(1) };
    assert_eq!(plan.bury_silent(), [hop]);
    assert_eq!(plan.bury_silent(), [], "told once");
    assert_eq!(plan.marked(), [(vip(0), 0x20)].into());
    plan.follow_trails(Some(trails(&[1, 2])));
    assert_eq!(plan.bury_silent(), []);
    assert_eq!(plan.marked().len(), 2, "it is asked again");
}

#[test]
fn connections_that_were_passed_on_stay_so_for_a_window_after_their_trail() {
    let mut plan = plan();
    plan.follow_trails(Some(trails(&[1])));
    plan.note_counted(5, at(100));
    plan.follow_trails(Some(trails(&[])));
    plan.expire(at(109));
    assert_eq!((step(&plan), plan.marked()), (None, [(vip(0), 0x10)].into()));
    plan.expire(at(110));
    assert_eq!((plan.marked(), plan.hops().count()), ([].into(), 0));
    plan.follow_trails(None);
    assert_eq!(passing(&plan), None);
}

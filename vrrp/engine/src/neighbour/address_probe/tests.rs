use std::net::Ipv4Addr;

use super::*;

const PROBE: Duration = Duration::from_millis(400);

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn addresses(count: u32) -> Vec<IpAddr> {
    (0..count).map(|n| Ipv4Addr::from(0xcb00_7100 + n).into()).collect()
}

fn listed(count: u32) -> AddressProbe {
    let mut address_probe = AddressProbe::default();
    address_probe.set_addresses(&addresses(count));
    address_probe
}

/// Everything asked until `until`, as (milliseconds, addresses), looked at each time there is a deadline.
fn run(address_probe: &mut AddressProbe, until: u64) -> Vec<(u64, usize)> {
    let mut asked = Vec::new();
    while let Some(due) = address_probe.deadline().filter(|due| *due <= at(until)) {
        let ask = address_probe.due(due, due, 1000);
        if !ask.is_empty() {
            asked.push((due.nanos() / 1_000_000, ask.len()));
        }
    }
    asked
}

#[test]
fn a_first_claim_asks_twice_and_waits_for_answers() {
    let mut address_probe = listed(3);
    address_probe.activate(Some(PROBE), Predecessor::Nobody, at(1000));
    assert_eq!(address_probe.cleared().count(), 0);
    assert_eq!(run(&mut address_probe, 1399), [(1000, 3), (1200, 3)]);
    assert_eq!(address_probe.cleared().count(), 0, "an answer may come until 1400");
    assert_eq!(run(&mut address_probe, 10_000), []);
    assert_eq!(address_probe.cleared().collect::<Vec<_>>(), addresses(3));
    assert_eq!(address_probe.deadline(), None);
}

#[test]
fn an_answer_that_came_in_time_and_is_read_late_is_heard() {
    let mut address_probe = listed(1);
    let [vip] = addresses(1)[..] else { unreachable!() };
    address_probe.activate(Some(PROBE), Predecessor::Nobody, at(1000));
    assert_eq!(run(&mut address_probe, 1399), [(1000, 1), (1200, 1)]);
    assert!(address_probe.due(at(5000), at(1399), 10).is_empty());
    assert!(!address_probe.is_clear(vip), "what came since 1399 was not read");
    assert_eq!(address_probe.note_claim(vip, at(5001)), ClaimOutcome::Taken);
}

#[test]
fn a_takeover_from_a_peer_or_without_probe_waits_for_nothing() {
    for (probe, predecessor) in [
        (Some(PROBE), Predecessor::Established),
        (None, Predecessor::Established),
        (None, Predecessor::Nobody),
    ] {
        let mut address_probe = listed(3);
        address_probe.activate(probe, predecessor, at(0));
        assert_eq!(address_probe.cleared().count(), 3);
        assert_eq!(address_probe.deadline(), None);
    }
}

/// Two addresses, the first of them unproven.
fn doubtful() -> (AddressProbe, [IpAddr; 2]) {
    let mut address_probe = listed(2);
    let all = addresses(2);
    address_probe.set_unproven(&Arc::new([all[0]].into()));
    (address_probe, [all[0], all[1]])
}

#[test]
fn a_takeover_from_a_peer_asks_for_what_is_unproven_once_the_peer_has_heard_of_it() {
    let (mut address_probe, [unproven, proven]) = doubtful();
    address_probe.activate(Some(PROBE), Predecessor::Established, at(1000));
    assert_eq!(address_probe.cleared().collect::<Vec<_>>(), [proven]);
    // The peer's last answer to somebody, sent before it heard the advert.
    assert_eq!(address_probe.note_claim(unproven, at(1001)), ClaimOutcome::Irrelevant);
    assert_eq!(run(&mut address_probe, 1419), [(1020, 1), (1220, 1)]);
    assert!(!address_probe.is_clear(unproven));
    assert_eq!(run(&mut address_probe, 1420), []);
    assert!(address_probe.is_clear(unproven));
}

#[test]
fn a_takeover_from_a_peer_that_may_have_been_asking_still_asks_for_everything_once_it_has_heard_of_it() {
    let mut address_probe = listed(3);
    address_probe.activate(Some(PROBE), Predecessor::Recent, at(1000));
    assert_eq!(address_probe.cleared().count(), 0);
    assert_eq!(run(&mut address_probe, 1420), [(1020, 3), (1220, 3)]);
    assert_eq!(address_probe.cleared().count(), 3);
}

#[test]
fn what_is_unproven_is_asked_for_at_each_takeover_until_it_is_proven() {
    let (mut address_probe, [unproven, _]) = doubtful();
    for begin in [0, 10_000] {
        address_probe.activate(Some(PROBE), Predecessor::Established, at(begin));
        assert_eq!(run(&mut address_probe, begin + 5000).len(), 2, "asked twice");
        assert!(address_probe.is_clear(unproven));
        address_probe.deactivate();
        assert!(
            !address_probe.is_clear(unproven),
            "a peer may find a stranger before this node is Active again"
        );
    }
    assert!(address_probe.set_unproven(&Arc::default()));
    address_probe.activate(Some(PROBE), Predecessor::Established, at(20_000));
    assert!(address_probe.is_clear(unproven));
    assert_eq!(address_probe.deadline(), None);
}

#[test]
fn a_doubt_or_its_end_while_active_changes_nothing() {
    let (mut address_probe, [unproven, proven]) = doubtful();
    address_probe.activate(Some(PROBE), Predecessor::Established, at(0));
    address_probe.take_changed();
    address_probe.set_unproven(&Arc::new([proven].into()));
    address_probe.activate(Some(PROBE), Predecessor::Nobody, at(10));
    assert!(!address_probe.has_changed());
    assert!(address_probe.is_clear(proven));
    assert_eq!(run(&mut address_probe, 5000), [(20, 1), (220, 1)]);
    assert!(address_probe.is_clear(unproven));
}

#[test]
fn an_address_that_is_taken_is_asked_for_again_soon_and_claimed_when_it_is_free() {
    let mut address_probe = listed(2);
    let all = addresses(2);
    address_probe.activate(Some(PROBE), Predecessor::Nobody, at(0));
    assert_eq!(address_probe.due(at(0), at(0), 10), all);
    assert_eq!(address_probe.note_claim(all[0], at(50)), ClaimOutcome::Taken);
    assert_eq!(address_probe.note_claim(all[0], at(51)), ClaimOutcome::Irrelevant, "told once");
    assert_eq!(run(&mut address_probe, 1049), [(200, 1)]);
    assert_eq!(address_probe.cleared().collect::<Vec<_>>(), [all[1]]);
    // The other host is still there after a second, and gone after two.
    assert_eq!(run(&mut address_probe, 1050), [(1050, 1)]);
    assert_eq!(address_probe.note_claim(all[0], at(1060)), ClaimOutcome::Irrelevant, "told a second ago");
    assert_eq!(run(&mut address_probe, 2459), [(2060, 1), (2260, 1)]);
    assert!(!address_probe.is_clear(all[0]));
    run(&mut address_probe, 2460);
    assert!(address_probe.is_clear(all[0]));
}

// shows: threats T-17
#[test]
fn what_is_to_be_claimed_whoever_has_it_is_asked_for_and_claimed_at_the_first_answer() {
    let mut address_probe = listed(2);
    let all = addresses(2);
    address_probe.set_forced(&Arc::new([all[0]].into()));
    address_probe.activate(Some(PROBE), Predecessor::Nobody, at(0));
    assert!(!address_probe.is_clear(all[0]), "whether another host has it is to be told");
    assert_eq!(run(&mut address_probe, 0), [(0, 2)]);
    assert_eq!(address_probe.note_claim(all[0], at(10)), ClaimOutcome::Forced);
    assert_eq!(address_probe.note_claim(all[1], at(10)), ClaimOutcome::Taken);
    assert!(address_probe.take_changed());
    assert_eq!(address_probe.cleared().collect::<Vec<_>>(), [all[0]]);
    assert_eq!(address_probe.note_claim(all[0], at(20)), ClaimOutcome::Conflict, "it is claimed by two");
    assert_eq!(
        run(&mut address_probe, 1009),
        [],
        "it is asked for no more, and the other one a second later"
    );
    // Its admin decides while another host has it.
    address_probe.set_forced(&Arc::new(all.iter().copied().collect()));
    assert_eq!(address_probe.cleared().collect::<Vec<_>>(), all);
    assert_eq!(address_probe.deadline(), None);
    // And takes it back: what is claimed stays claimed until the next takeover by another node's fault.
    address_probe.set_forced(&Arc::default());
    assert_eq!(address_probe.cleared().collect::<Vec<_>>(), all);
}

// shows: threats T-17
#[test]
fn what_is_to_be_claimed_whoever_has_it_is_asked_for_by_each_node_that_takes_over_and_claimed_meanwhile() {
    let all = addresses(2);
    let mut address_probe = listed(2);
    address_probe.set_forced(&Arc::new([all[0]].into()));
    // The second time it was cleared in the former period.
    for begin in [0, 10_000] {
        address_probe.activate(Some(PROBE), Predecessor::Established, at(begin));
        assert_eq!(address_probe.cleared().collect::<Vec<_>>(), all, "it waits for nothing");
        assert_eq!(run(&mut address_probe, begin + 100), [(begin + 20, 1)], "the peer knows of the takeover");
        assert_eq!(address_probe.note_claim(all[0], at(begin + 110)), ClaimOutcome::Forced);
        assert_eq!(address_probe.cleared().collect::<Vec<_>>(), all);
        assert_eq!(address_probe.deadline(), None, "it is asked for once");
        // An address is added.
        address_probe.activate(Some(PROBE), Predecessor::Nobody, at(begin + 200));
        assert_eq!(address_probe.deadline(), None);
        address_probe.deactivate();
    }
}

#[test]
fn an_address_that_stays_taken_is_asked_for_and_told_of_each_minute() {
    let mut address_probe = listed(1);
    let vip = addresses(1)[0];
    address_probe.activate(Some(PROBE), Predecessor::Nobody, at(0));
    let (mut asked, mut told) = (Vec::new(), Vec::new());
    while let Some(due) = address_probe.deadline().filter(|due| *due <= at(200_000)) {
        assert_eq!(address_probe.due(due, due, 10), [vip]);
        let answer = due + Duration::from_millis(10);
        asked.push(due.nanos() / 1_000_000);
        match address_probe.note_claim(vip, answer) {
            ClaimOutcome::Taken => told.push(answer.nanos() / 1_000_000),
            ClaimOutcome::Irrelevant => {}
            ClaimOutcome::LeftToPeer | ClaimOutcome::Conflict | ClaimOutcome::Forced => {
                panic!("claimed at {due:?}")
            }
        }
    }
    assert_eq!(asked[..4], [0, 1010, 2020, 3030], "each second");
    assert_eq!(asked[9..], [9090, 10_100, 70_110, 130_120, 190_130], "for ten seconds, then each minute");
    assert_eq!(told, [10, 70_120, 130_130, 190_140]);
}

#[test]
fn a_takeover_from_a_peer_asks_for_what_was_another_hosts_within_a_minute_and_claims_it_after_it() {
    let mut address_probe = listed(1);
    let vip = addresses(1)[0];
    address_probe.activate(Some(PROBE), Predecessor::Nobody, at(0));
    address_probe.due(at(0), at(0), 1);
    address_probe.note_claim(vip, at(1));
    address_probe.deactivate();
    assert_eq!(address_probe.deadline(), None, "a Backup asks nothing");
    address_probe.activate(Some(PROBE), Predecessor::Established, at(60_000));
    assert_eq!(address_probe.due(at(60_020), at(60_020), 1), [vip]);
    address_probe.deactivate();
    address_probe.activate(Some(PROBE), Predecessor::Established, at(60_100));
    assert!(address_probe.is_clear(vip), "nobody answered the last question, and a peer was Active since");

    let mut address_probe = listed(1);
    address_probe.activate(Some(PROBE), Predecessor::Nobody, at(0));
    address_probe.due(at(0), at(0), 1);
    address_probe.note_claim(vip, at(1));
    address_probe.deactivate();
    address_probe.activate(Some(PROBE), Predecessor::Established, at(60_001));
    assert!(address_probe.is_clear(vip), "the peer has had it for long");
}

#[test]
fn what_was_cleared_once_is_not_asked_for_again() {
    let mut address_probe = listed(1);
    address_probe.activate(Some(PROBE), Predecessor::Established, at(0));
    address_probe.deactivate();
    address_probe.activate(Some(PROBE), Predecessor::Nobody, at(10_000));
    assert_eq!(run(&mut address_probe, 20_000), []);
    assert_eq!(address_probe.cleared().count(), 1);
}

#[test]
fn only_the_added_address_is_asked_for_and_the_removed_is_forgotten() {
    let mut address_probe = listed(2);
    address_probe.activate(Some(PROBE), Predecessor::Established, at(0));
    let all = addresses(3);
    address_probe.set_addresses(&all[1..]);
    address_probe.activate(Some(PROBE), Predecessor::Nobody, at(100));
    assert_eq!(address_probe.cleared().collect::<Vec<_>>(), [all[1]]);
    assert_eq!(address_probe.due(at(100), at(100), 10), [all[2]]);
    assert_eq!(address_probe.note_claim(all[0], at(110)), ClaimOutcome::Irrelevant);
    assert_eq!(address_probe.note_claim(all[1], at(110)), ClaimOutcome::Conflict);
}

/// One address, in service since a takeover from a peer, and contested at 1000.
fn contested() -> (AddressProbe, IpAddr) {
    let mut address_probe = listed(1);
    let vip = addresses(1)[0];
    address_probe.activate(Some(PROBE), Predecessor::Established, at(0));
    assert_eq!(address_probe.note_claim(vip, at(500)), ClaimOutcome::Conflict);
    address_probe.contest(vip, Claimant::Host, at(1000));
    address_probe.take_changed();
    (address_probe, vip)
}

#[test]
fn an_address_that_is_contested_is_claimed_until_the_other_host_answers_and_again_when_it_is_gone() {
    let (mut address_probe, vip) = contested();
    assert!(address_probe.is_clear(vip));
    assert_eq!(address_probe.note_claim(vip, at(1000)), ClaimOutcome::Irrelevant, "it was not asked");
    assert_eq!(address_probe.due(at(1000), at(1000), 1), [vip]);
    address_probe.contest(vip, Claimant::Host, at(1000));
    assert_eq!(address_probe.cleared().collect::<Vec<_>>(), [vip], "it has not answered");
    assert_eq!(address_probe.note_claim(vip, at(1001)), ClaimOutcome::Taken);
    assert_eq!((address_probe.is_clear(vip), address_probe.take_changed()), (false, true));
    address_probe.contest(vip, Claimant::Host, at(1002));
    assert!(!address_probe.is_clear(vip), "a conflict no more");
    assert_eq!(run(&mut address_probe, 2001), [(2001, 1)], "asked again after a second");
    assert!(!address_probe.is_clear(vip));
    run(&mut address_probe, 10_000);
    assert!(address_probe.is_clear(vip), "nobody answered");
}

#[test]
fn an_address_that_somebody_claimed_who_does_not_answer_is_kept() {
    let (mut address_probe, vip) = contested();
    assert_eq!(run(&mut address_probe, 5000), [(1000, 1), (1200, 1)]);
    assert!(address_probe.is_clear(vip));
    assert_eq!(address_probe.deadline(), None);
    assert_eq!(address_probe.note_claim(vip, at(5000)), ClaimOutcome::Conflict, "the next one");
}

#[test]
fn a_contest_ends_with_the_active_period_and_is_begun_by_nobody_else() {
    for (unproven, claimed) in [([].into(), true), ([addresses(1)[0]].into(), false)] {
        let (mut address_probe, vip) = contested();
        address_probe.set_unproven(&Arc::new(unproven));
        address_probe.deactivate();
        assert_eq!(address_probe.is_clear(vip), claimed, "as what was not contested");
        assert_eq!(address_probe.deadline(), None);
        address_probe.contest(vip, Claimant::Host, at(1100));
        assert_eq!(address_probe.deadline(), None, "a Backup asks nothing");
    }
    let (mut address_probe, vip) = contested();
    address_probe.due(at(1000), at(1000), 1);
    address_probe.note_claim(vip, at(1001));
    address_probe.deactivate();
    address_probe.activate(Some(PROBE), Predecessor::Established, at(2000));
    assert!(!address_probe.is_clear(vip), "the other host is asked first");
}

#[test]
fn the_time_to_answer_counts_from_the_question_and_not_from_its_turn() {
    let mut address_probe = listed(100);
    address_probe.activate(Some(PROBE), Predecessor::Nobody, at(0));
    assert_eq!(address_probe.due(at(0), at(0), 60).len(), 60);
    // The sender's pace leaves the rest for later.
    assert_eq!(address_probe.due(at(150), at(150), 60).len(), 40);
    assert_eq!(run(&mut address_probe, 399), [(200, 60), (350, 40)]);
    assert_eq!(run(&mut address_probe, 400), []);
    assert_eq!(address_probe.cleared().count(), 60);
}

#[test]
fn a_change_is_told_once() {
    let mut address_probe = listed(1);
    address_probe.activate(Some(PROBE), Predecessor::Established, at(0));
    assert!(address_probe.take_changed());
    assert!(!address_probe.take_changed());
    address_probe.activate(Some(PROBE), Predecessor::Established, at(1));
    assert!(!address_probe.take_changed(), "nothing new");
}

/// Two addresses, in service since a takeover from a peer; for the first of them another peer goes first since 1000.
fn for_which_a_peer_goes_first() -> (AddressProbe, [IpAddr; 2]) {
    let mut address_probe = listed(2);
    let all = addresses(2);
    address_probe.activate(Some(PROBE), Predecessor::Established, at(0));
    address_probe.contest(all[0], Claimant::Peer, at(1000));
    assert_eq!(address_probe.due(at(1000), at(1000), 10), [all[0]]);
    address_probe.take_changed();
    (address_probe, [all[0], all[1]])
}

#[test]
fn an_address_is_left_to_a_peer_that_goes_first_once_it_answers_and_taken_back_when_it_has_gone() {
    let (mut address_probe, [moved, kept]) = for_which_a_peer_goes_first();
    assert!(address_probe.is_clear(moved), "the peer may not serve it");
    assert_eq!(address_probe.note_claim(moved, at(1001)), ClaimOutcome::LeftToPeer);
    assert!(address_probe.take_changed());
    assert_eq!(address_probe.cleared().collect::<Vec<_>>(), [kept]);
    // It says so itself: nobody is asked.
    address_probe.take_back(moved);
    assert!(address_probe.take_changed());
    assert!(address_probe.is_clear(moved));
    assert_eq!(address_probe.deadline(), None);
    address_probe.take_back(kept);
    assert!(!address_probe.take_changed(), "it was left to nobody");
}

#[test]
fn an_address_is_kept_from_a_peer_that_goes_first_and_does_not_answer() {
    let (mut address_probe, [moved, kept]) = for_which_a_peer_goes_first();
    assert_eq!(run(&mut address_probe, 5000), [(1200, 1)]);
    assert_eq!(address_probe.cleared().collect::<Vec<_>>(), [moved, kept]);
    assert_eq!(address_probe.note_claim(moved, at(5000)), ClaimOutcome::Conflict);
}

#[test]
fn an_address_that_was_left_to_a_peer_is_asked_for_each_second_for_as_long_as_it_answers() {
    let (mut address_probe, [moved, _]) = for_which_a_peer_goes_first();
    address_probe.note_claim(moved, at(1000));
    for second in 2..30 {
        let now = second * 1000;
        assert_eq!(run(&mut address_probe, now), [(now, 1)]);
        assert_eq!(address_probe.note_claim(moved, at(now)), ClaimOutcome::LeftToPeer);
    }
    assert_eq!(run(&mut address_probe, 40_000), [(30_000, 1), (30_200, 1)]);
    assert!(address_probe.is_clear(moved), "the peer is dead");
}

#[test]
fn what_was_left_to_a_peer_is_no_strangers_at_the_next_takeover() {
    for answered in [false, true] {
        let (mut address_probe, [moved, _]) = for_which_a_peer_goes_first();
        if answered {
            address_probe.note_claim(moved, at(1001));
            address_probe.take_changed();
        }
        address_probe.deactivate();
        assert!(address_probe.is_clear(moved), "as before");
        assert_eq!(address_probe.take_changed(), answered, "it was not claimed until now");
        assert_eq!(address_probe.deadline(), None);
    }
    let (mut address_probe, [moved, _]) = for_which_a_peer_goes_first();
    address_probe.note_claim(moved, at(1001));
    address_probe.set_unproven(&Arc::new([moved].into()));
    address_probe.deactivate();
    assert!(!address_probe.is_clear(moved), "but asked for if none is known to have claimed it");
}

#[test]
fn an_address_that_is_claimed_from_any_host_is_left_to_a_peer() {
    let (mut address_probe, [moved, _]) = for_which_a_peer_goes_first();
    address_probe.set_forced(&Arc::new([moved].into()));
    assert_eq!(address_probe.note_claim(moved, at(1001)), ClaimOutcome::LeftToPeer);
    address_probe.take_all_back();
    assert!(address_probe.is_clear(moved));
}

use std::net::Ipv4Addr;

use super::*;

const PROBE: Duration = Duration::from_millis(400);

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn addresses(range: std::ops::Range<u32>) -> Arc<[IpAddr]> {
    range.map(|n| Ipv4Addr::from(0xcb00_7100 + n).into()).collect()
}

/// A router: Active in its first takeover, from a peer, two addresses.
struct Scene {
    active_state: ActiveState,
    addresses: Arc<[IpAddr]>,
    bound: Arc<BTreeSet<IpAddr>>,
    hold: Hold,
    probe: Option<Duration>,
    unproven: Arc<BTreeSet<IpAddr>>,
    in_service: BTreeSet<IpAddr>,
    link: Option<SocketsId>,
    tracker: RouterTracker,
}

impl Scene {
    fn new(hold: Hold) -> Self {
        Self {
            active_state: ActiveState {
                active: true,
                takeover: 1,
                contentions: 0,
                predecessor: Predecessor::Established,
            },
            addresses: addresses(0..2),
            bound: Arc::default(),
            hold,
            probe: Some(PROBE),
            unproven: Arc::default(),
            in_service: BTreeSet::new(),
            link: Some(1),
            tracker: RouterTracker::default(),
        }
    }

    fn follow(&mut self, millis: u64) -> Vec<AnnouncementChange> {
        let Self { active_state, addresses, bound, hold, probe, unproven, in_service, link, tracker } = self;
        let view = RouterView {
            active_state: *active_state,
            addresses,
            bound,
            hold: *hold,
            probe: *probe,
            unproven,
            forced: &Arc::default(),
            in_service,
            link: *link,
        };
        let changes = tracker.follow(&view, at(millis));
        tracker.take_cleared();
        changes
    }
}

#[test]
fn a_takeover_from_a_peer_announces_everything_without_a_question() {
    let mut scene = Scene::new(Hold::Respond);
    assert_eq!(scene.follow(0), [AnnouncementChange::All(addresses(0..2))]);
    assert_eq!(scene.tracker.deadline(), None);
    assert!(scene.tracker.answers(addresses(0..1)[0]));
    assert_eq!(scene.follow(1), [], "rung again for nothing");
}

// shows: allocation 101
#[test]
fn a_backup_neither_answers_nor_announces() {
    let mut scene = Scene::new(Hold::Respond);
    scene.active_state.active = false;
    assert_eq!(scene.follow(0), []);
    assert!(!scene.tracker.answers(addresses(0..1)[0]));
    assert_eq!(scene.tracker.note_claim(addresses(0..1)[0], at(0)), ClaimOutcome::Irrelevant);
}

#[test]
fn a_demotion_withdraws_and_the_next_takeover_announces_again() {
    let mut scene = Scene::new(Hold::Respond);
    scene.follow(0);
    scene.active_state.active = false;
    assert_eq!(scene.follow(1), [AnnouncementChange::Withdraw]);
    assert!(!scene.tracker.answers(addresses(0..1)[0]));
    assert_eq!(scene.follow(2), []);
    scene.active_state = ActiveState { active: true, takeover: 2, ..scene.active_state };
    assert_eq!(scene.follow(3), [AnnouncementChange::All(addresses(0..2))]);
}

#[test]
fn a_demotion_that_was_slept_through_is_a_takeover_all_the_same() {
    let mut scene = Scene::new(Hold::Respond);
    scene.follow(0);
    scene.active_state.takeover = 2;
    assert_eq!(scene.follow(1), [AnnouncementChange::All(addresses(0..2))]);
}

#[test]
fn a_first_claim_answers_and_announces_only_what_nobody_else_has() {
    let mut scene = Scene::new(Hold::Respond);
    let [free, taken] = [addresses(0..2)[0], addresses(0..2)[1]];
    scene.active_state.predecessor = Predecessor::Nobody;
    assert_eq!(scene.follow(0), [AnnouncementChange::All([].into())]);
    assert!(!scene.tracker.answers(free));
    assert_eq!(scene.tracker.probes(at(0), at(0), 10).len(), 2);
    assert_eq!(scene.tracker.note_claim(taken, at(100)), ClaimOutcome::Taken);
    assert_eq!(scene.tracker.probes(at(200), at(200), 10), [free]);
    assert!(scene.tracker.probes(at(400), at(400), 10).is_empty());
    let all: Arc<[IpAddr]> = [free].into();
    assert_eq!(scene.follow(400), [AnnouncementChange::Changed { all, added: vec![free] }]);
    assert!(scene.tracker.answers(free));
    assert!(!scene.tracker.answers(taken));
}

#[test]
fn a_takeover_from_a_peer_announces_what_is_proven_at_once_and_all_else_when_nobody_answers() {
    let mut scene = Scene::new(Hold::Respond);
    let [proven, unproven] = [addresses(0..2)[0], addresses(0..2)[1]];
    scene.unproven = Arc::new([unproven].into());
    assert_eq!(scene.follow(0), [AnnouncementChange::All([proven].into())]);
    assert!(scene.tracker.probes(at(19), at(19), 10).is_empty(), "the peer has not heard of it yet");
    assert_eq!(scene.tracker.probes(at(20), at(20), 10), [unproven]);
    assert_eq!(scene.tracker.probes(at(220), at(220), 10), [unproven]);
    scene.tracker.probes(at(420), at(420), 10);
    assert_eq!(
        scene.follow(420),
        [AnnouncementChange::Changed { all: addresses(0..2), added: vec![unproven] }]
    );
}

#[test]
fn what_is_doubted_in_backup_is_not_cleared_any_more_before_the_next_takeover() {
    let mut scene = Scene::new(Hold::Respond);
    scene.follow(0);
    scene.active_state.active = false;
    scene.follow(1);
    scene.unproven = Arc::new(addresses(0..1).iter().copied().collect());
    assert_eq!(scene.follow(2), []);
    assert_eq!(scene.tracker.address_probe.cleared().collect::<Vec<_>>(), [addresses(0..2)[1]]);
}

#[test]
fn without_a_probe_even_a_first_claim_is_at_once() {
    let mut scene = Scene::new(Hold::Respond);
    (scene.active_state.predecessor, scene.probe) = (Predecessor::Nobody, None);
    assert_eq!(scene.follow(0), [AnnouncementChange::All(addresses(0..2))]);
}

#[test]
fn an_address_added_while_active_is_asked_for_even_after_a_takeover_from_a_peer() {
    let mut scene = Scene::new(Hold::Respond);
    scene.follow(0);
    scene.addresses = addresses(0..3);
    assert_eq!(scene.follow(10), [], "nothing to announce yet");
    assert_eq!(scene.tracker.probes(at(10), at(10), 10), [addresses(0..3)[2]]);
    scene.tracker.probes(at(210), at(210), 10);
    scene.tracker.probes(at(410), at(410), 10);
    let added = vec![addresses(0..3)[2]];
    assert_eq!(scene.follow(410), [AnnouncementChange::Changed { all: addresses(0..3), added }]);
}

#[test]
fn a_removed_address_is_let_go_at_once() {
    let mut scene = Scene::new(Hold::Respond);
    scene.follow(0);
    scene.addresses = addresses(1..2);
    assert_eq!(scene.follow(1), [AnnouncementChange::Changed { all: addresses(1..2), added: Vec::new() }]);
    assert!(!scene.tracker.answers(addresses(0..1)[0]));
}

// shows: rfc9568 T18
#[test]
fn a_bound_address_is_announced_when_it_is_in_place_and_answered_by_the_kernel() {
    for hold in [Hold::Address, Hold::Vmac] {
        let mut scene = Scene::new(hold);
        let both = addresses(0..2);
        assert_eq!(scene.follow(0), [AnnouncementChange::All([].into())]);
        scene.bound = Arc::new([both[0]].into());
        let first: Arc<[IpAddr]> = [both[0]].into();
        assert_eq!(scene.follow(1), [AnnouncementChange::Changed { all: first, added: vec![both[0]] }]);
        scene.bound = Arc::new(both.iter().copied().collect());
        assert_eq!(
            scene.follow(2),
            [AnnouncementChange::Changed { all: Arc::clone(&both), added: vec![both[1]] }]
        );
        assert_eq!(scene.tracker.answers(both[0]), hold == Hold::Vmac);
        assert!(scene.tracker.claims(both[0]));
        scene.bound = Arc::default();
        scene.follow(3);
        assert!(!scene.tracker.answers(both[0]), "not in place");
    }
}

#[test]
fn what_is_at_another_link_layer_address_is_announced_again() {
    let both = addresses(0..2);
    for (from, to) in [(Hold::Vmac, Hold::Respond), (Hold::Vmac, Hold::Address), (Hold::Address, Hold::Vmac)]
    {
        let mut scene = Scene::new(from);
        scene.bound = Arc::new(both.iter().copied().collect());
        assert_eq!(scene.follow(0), [AnnouncementChange::All(Arc::clone(&both))]);
        scene.hold = to;
        assert_eq!(scene.follow(1), [AnnouncementChange::All(Arc::clone(&both))], "{from:?} to {to:?}");
        assert_eq!(scene.follow(2), []);
    }
    let mut scene = Scene::new(Hold::Respond);
    scene.follow(0);
    scene.hold = Hold::Vmac;
    assert_eq!(scene.follow(1), [AnnouncementChange::All([].into())], "it is not bound yet");
    scene.bound = Arc::new(both.iter().copied().collect());
    let added = both.to_vec();
    assert_eq!(scene.follow(2), [AnnouncementChange::Changed { all: both, added }]);
}

#[test]
fn a_contention_and_another_interface_announce_everything_again() {
    let mut scene = Scene::new(Hold::Respond);
    scene.follow(0);
    scene.active_state.contentions = 3;
    assert_eq!(scene.follow(1), [AnnouncementChange::Again]);
    assert_eq!(scene.follow(2), []);
    scene.link = Some(2);
    assert_eq!(scene.follow(3), [AnnouncementChange::All(addresses(0..2))]);
    scene.link = None;
    assert_eq!(scene.follow(4), [AnnouncementChange::Withdraw]);
}

#[test]
fn what_is_added_is_asked_for_unless_this_node_served_it_in_another_router() {
    for served in [false, true] {
        let mut scene = Scene::new(Hold::Respond);
        scene.follow(0);
        if served {
            scene.in_service = addresses(2..3).iter().copied().collect();
        }
        scene.addresses = addresses(0..3);
        let changes = scene.follow(10);
        let added = addresses(2..3).to_vec();
        let all = addresses(0..3);
        let expected = served.then_some(AnnouncementChange::Changed { all, added });
        assert_eq!(changes, expected.into_iter().collect::<Vec<_>>(), "served: {served}");
        assert_eq!(scene.tracker.claims(addresses(2..3)[0]), served);
        assert_eq!(scene.tracker.deadline().is_none(), served);
    }
}

#[test]
fn an_address_that_is_yielded_is_neither_answered_nor_announced_until_it_is_taken_back() {
    let mut scene = Scene::new(Hold::Respond);
    let (all, [contested, other]) = (addresses(0..2), [addresses(0..1)[0], addresses(1..2)[0]]);
    scene.follow(0);
    scene.tracker.contest(contested, Claimant::Host, at(1000));
    assert!(scene.tracker.answers(contested), "nobody has answered yet");
    assert_eq!(scene.tracker.probes(at(1000), at(1000), 10), [contested]);
    assert_eq!(scene.follow(1000), []);
    assert_eq!(scene.tracker.note_claim(contested, at(1001)), ClaimOutcome::Taken);
    assert!(!scene.tracker.answers(contested) && scene.tracker.answers(other));
    let left = AnnouncementChange::Changed { all: [other].into(), added: Vec::new() };
    assert_eq!(scene.follow(1001), [left]);
    while let Some(due) = scene.tracker.deadline() {
        scene.tracker.probes(due, due, 10);
    }
    assert!(scene.tracker.answers(contested));
    assert_eq!(scene.follow(3000), [AnnouncementChange::Changed { all, added: vec![contested] }]);
}

#[test]
fn what_was_left_to_a_peer_is_not_announced_until_the_peer_loses_to_this_node() {
    let mut scene = Scene::new(Hold::Respond);
    let all = addresses(0..2);
    scene.follow(0);
    scene.tracker.contest(all[0], Claimant::Peer, at(1));
    scene.tracker.probes(at(1), at(1), 10);
    assert_eq!(scene.follow(2), [], "it has not answered");
    assert_eq!(scene.tracker.note_claim(all[0], at(3)), ClaimOutcome::LeftToPeer);
    assert_eq!(scene.follow(3), [AnnouncementChange::Changed { all: addresses(1..2), added: vec![] }]);
    assert!(!scene.tracker.answers(all[0]));
    scene.active_state.contentions += 1;
    let back = AnnouncementChange::Changed { all: all.clone(), added: vec![all[0]] };
    assert_eq!(scene.follow(4), [back, AnnouncementChange::Again]);
    assert!(scene.tracker.answers(all[0]));
}

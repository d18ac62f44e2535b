use std::net::Ipv4Addr;

use super::*;

mod lan;

const START: Time = Time::from_nanos(1);

fn seconds(seconds: f64) -> Time {
    START + Duration::from_secs_f64(seconds)
}

fn host(number: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, number).into()
}

fn choice() -> VridChoice {
    VridChoice::new(host(100), host(1), START)
}

/// The VRIDs of the address in their order.
fn vrid(place: usize) -> Vrid {
    Order::of(host(100)).iter().nth(place).unwrap()
}

/// One that has chosen the first VRID.
fn chosen() -> VridChoice {
    let mut choice = choice();
    assert_eq!(choice.decide(Role::Initialize, none, START + LISTEN), Decision::Use(vrid(0)));
    choice
}

fn none(_: Vrid) -> bool {
    false
}

/// Hears it each second in this time.
fn hear(choice: &mut VridChoice, vrid: Vrid, source: u8, listing: Listing, from: f64, to: f64) {
    let mut at = from;
    while at <= to {
        choice.hear(vrid, host(source), listing, seconds(at));
        at += 1.0;
    }
}

#[test]
fn a_node_listens_before_it_chooses() {
    let mut choice = choice();
    let nearly = START + LISTEN.saturating_sub(Duration::from_millis(1));
    assert_eq!(choice.decide(Role::Initialize, none, nearly), Decision::Listen);
    assert_eq!(choice.due(START), START + LISTEN);
    assert_eq!(choice.decide(Role::Initialize, none, START + LISTEN), Decision::Use(vrid(0)));
}

#[test]
fn a_node_takes_the_vrid_under_which_its_address_is_advertised_at_once() {
    let mut choice = choice();
    choice.hear(vrid(9), host(2), Listing::Ours, seconds(0.1));
    choice.hear(vrid(0), host(3), Listing::Others, seconds(0.1));
    assert_eq!(choice.decide(Role::Initialize, none, seconds(0.1)), Decision::Use(vrid(9)));
}

#[test]
fn vrids_of_strangers_and_those_that_are_taken_on_the_node_are_passed_over() {
    let mut choice = choice();
    choice.hear(vrid(0), host(3), Listing::Others, seconds(0.1));
    choice.hear(vrid(2), host(3), Listing::Nothing, seconds(0.2));
    let taken = |taken| taken == vrid(1);
    assert_eq!(choice.decide(Role::Initialize, taken, START + LISTEN), Decision::Use(vrid(3)));
}

#[test]
fn where_strangers_use_all_vrids_none_is_chosen_until_one_is_free() {
    let mut choice = choice();
    for place in 0..255 {
        let silent_from = if place == 7 { 2.0 } else { 200.0 };
        hear(&mut choice, vrid(place), 3, Listing::Others, 0.0, silent_from);
    }
    assert_eq!(choice.decide(Role::Initialize, none, seconds(4.0)), Decision::NoneFree);
    assert_eq!(choice.decide(Role::Initialize, none, seconds(200.0)), Decision::Use(vrid(7)));
}

#[test]
fn an_active_leaves_its_vrid_to_a_stranger_that_stays_and_a_backup_does_not() {
    let mut active = chosen();
    let mut backup = chosen();
    for choice in [&mut active, &mut backup] {
        hear(choice, vrid(0), 3, Listing::Others, 20.0, 21.0);
    }
    assert_eq!(
        active.decide(Role::Active, none, seconds(21.0)),
        Decision::Use(vrid(0)),
        "a mistake, perhaps"
    );
    for choice in [&mut active, &mut backup] {
        choice.hear(vrid(0), host(3), Listing::Others, seconds(22.0));
    }
    assert_eq!(active.decide(Role::Active, none, seconds(22.0)), Decision::Use(vrid(1)));
    let follows = Role::Backup { active: Some(host(2)) };
    assert_eq!(backup.decide(follows, none, seconds(22.0)), Decision::Use(vrid(0)));
    // The Active has moved, and says so.
    backup.hear(vrid(1), host(2), Listing::Ours, seconds(22.1));
    assert_eq!(backup.decide(follows, none, seconds(22.1)), Decision::Use(vrid(1)));
}

#[test]
fn a_vrid_is_left_at_most_once_in_a_while() {
    let mut choice = chosen();
    for place in 0..3 {
        hear(&mut choice, vrid(place), 3, Listing::Others, 20.0, 23.0);
    }
    assert_eq!(choice.decide(Role::Active, none, seconds(23.0)), Decision::Use(vrid(3)));
    hear(&mut choice, vrid(3), 3, Listing::Others, 23.0, 32.0);
    assert_eq!(choice.decide(Role::Active, none, seconds(32.9)), Decision::Use(vrid(3)));
    assert_eq!(choice.decide(Role::Active, none, seconds(33.0)), Decision::Use(vrid(4)));
}

#[test]
fn what_a_peer_says_of_a_vrid_that_it_leaves_makes_it_no_stranger() {
    let mut choice = chosen();
    choice.hear(vrid(1), host(2), Listing::Ours, seconds(19.0));
    hear(&mut choice, vrid(0), 2, Listing::Nothing, 20.0, 30.0);
    assert_eq!(choice.decide(Role::Active, none, seconds(30.0)), Decision::Use(vrid(0)));
}

#[test]
fn of_two_actives_who_comes_later_in_the_order_moves() {
    let mut first = chosen();
    first.hear(vrid(1), host(2), Listing::Ours, seconds(20.0));
    assert_eq!(first.decide(Role::Active, none, seconds(20.0)), Decision::Use(vrid(0)));
    let mut second = choice();
    second.hear(vrid(1), host(2), Listing::Ours, START);
    assert_eq!(second.decide(Role::Initialize, none, START), Decision::Use(vrid(1)));
    second.hear(vrid(0), host(3), Listing::Ours, seconds(20.0));
    assert_eq!(second.decide(Role::Active, none, seconds(20.0)), Decision::Use(vrid(0)));
}

#[test]
fn of_two_actives_who_is_beside_a_stranger_moves_and_the_other_stays() {
    let mut first = chosen();
    hear(&mut first, vrid(0), 9, Listing::Others, 20.0, 20.0);
    first.hear(vrid(1), host(2), Listing::Ours, seconds(20.0));
    assert_eq!(first.decide(Role::Active, none, seconds(20.0)), Decision::Use(vrid(1)));
}

/// It does not hear the stranger that keeps the other from coming.
#[test]
fn an_active_that_waits_in_vain_for_another_moves_to_it() {
    let mut first = chosen();
    for tenth in 0..30 {
        let now = seconds(20.0 + f64::from(tenth) / 10.0);
        first.hear(vrid(1), host(2), Listing::Ours, now);
        assert_eq!(first.decide(Role::Active, none, now), Decision::Use(vrid(0)));
    }
    assert_eq!(first.decide(Role::Active, none, seconds(23.0)), Decision::Use(vrid(1)));
}

/// Two are Active, each under its own VRID, until they have agreed.
#[test]
fn a_node_that_has_moved_is_not_led_back_by_what_it_heard_before() {
    let mut choice = choice();
    let starts = Role::Backup { active: None };
    choice.hear(vrid(1), host(2), Listing::Ours, seconds(0.1));
    assert_eq!(choice.decide(Role::Initialize, none, seconds(0.1)), Decision::Use(vrid(1)));
    choice.hear(vrid(0), host(3), Listing::Ours, seconds(0.2));
    assert_eq!(choice.decide(starts, none, seconds(0.2)), Decision::Use(vrid(0)));
    assert_eq!(choice.decide(starts, none, seconds(0.21)), Decision::Use(vrid(0)));
    choice.hear(vrid(1), host(2), Listing::Ours, seconds(1.1));
    assert_eq!(choice.decide(starts, none, seconds(1.1)), Decision::Use(vrid(0)), "it has just come");
    choice.hear(vrid(1), host(2), Listing::Ours, seconds(1.2));
    assert_eq!(
        choice.decide(starts, none, seconds(1.2)),
        Decision::Use(vrid(1)),
        "it is heard there, and nobody here"
    );
}

#[test]
fn a_vrid_that_did_not_come_about_is_given_up_for_the_one_that_runs() {
    let mut choice = chosen();
    choice.hear(vrid(3), host(2), Listing::Ours, seconds(20.0));
    assert_eq!(choice.decide(Role::Backup { active: None }, none, seconds(20.0)), Decision::Use(vrid(3)));
    let follows = Role::Backup { active: Some(host(5)) };
    for (at, expected) in [(20.5, 3), (29.9, 3), (30.0, 0)] {
        choice.note_running(vrid(0), host(5), seconds(at));
        assert_eq!(choice.decide(follows, none, seconds(at)), Decision::Use(vrid(expected)), "{at}");
    }
}

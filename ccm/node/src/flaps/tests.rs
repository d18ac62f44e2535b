use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_link_that_goes_away_again_and_again_has_to_be_back_for_longer_each_time() {
    let start = Instant::now();
    let mut flaps = Flaps::default();
    let mut delays = Vec::new();
    for time in 0..8 {
        assert!(flaps.note(start + 60 * time * SECOND));
        delays.push(flaps.delay(start + 60 * time * SECOND).as_secs());
    }
    assert_eq!(delays, [0, 30, 60, 120, 240, 300, 300, 300]);
}

#[test]
fn what_all_virtual_routers_of_an_interface_tell_at_once_counts_once() {
    let start = Instant::now();
    let mut flaps = Flaps::default();
    let noted: Vec<bool> = [0, 0, 4900, 5100].map(|ms| flaps.note(start + ms * SECOND / 1000)).into();
    assert_eq!(noted, [true, false, false, true]);
    assert_eq!(flaps.delay(start + 6 * SECOND), FIRST);
}

#[test]
fn each_time_is_forgotten_after_a_quarter_of_an_hour() {
    let start = Instant::now();
    let mut flaps = Flaps::default();
    for minute in [0, 5, 10] {
        flaps.note(start + 60 * minute * SECOND);
    }
    let at = |minute: u32| (flaps.delay(start + 60 * minute * SECOND).as_secs(), minute);
    assert_eq!([at(14), at(15), at(20), at(25)], [(60, 14), (30, 15), (0, 20), (0, 25)]);
    let next = |minute: u32| flaps.next_change(start + 60 * minute * SECOND).map(|at| at - start);
    assert_eq!(
        [next(10), next(15), next(24)],
        [Some(900 * SECOND), Some(1200 * SECOND), Some(1500 * SECOND)]
    );
    assert_eq!(next(25), None);
}

#[test]
fn what_is_remembered_is_bounded_by_time() {
    let start = Instant::now();
    let mut flaps = Flaps::default();
    for second in 0..5000 {
        flaps.note(start + second * SECOND);
    }
    assert!(flaps.lost.len() <= 900, "{}", flaps.lost.len());
}

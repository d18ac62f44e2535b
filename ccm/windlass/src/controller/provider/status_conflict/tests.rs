use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn web() -> ServiceRef {
    ServiceRef { namespace: "ns".into(), name: "web".into(), uid: "u".into() }
}

#[test]
fn the_first_changes_are_put_right_at_once_and_later_ones_after_a_growing_pause() {
    let mut contests = Contests::default();
    let mut now = at(0);
    let mut pauses = Vec::new();
    for _ in 0..12 {
        match contests.changed(&web(), now) {
            Answer::Now => pauses.push(0),
            Answer::After(pause) => {
                pauses.push(pause.as_secs());
                assert_eq!(contests.changed(&web(), now), Answer::Awaited, "it is on its way");
                now += pause;
            }
            Answer::Awaited => unreachable!("all was answered"),
        }
    }
    assert_eq!(pauses, [0, 0, 0, 5, 10, 20, 40, 80, 160, 300, 300, 300]);
}

#[test]
fn it_is_told_once_it_goes_on_and_hourly_and_forgotten_when_it_is_over() {
    let mut contests = Contests::default();
    let mut told = Vec::new();
    // Every ten minutes for two hours, after four in a row.
    for second in [0, 0, 0, 0].into_iter().chain((1..=12).map(|tens| tens * 600)) {
        contests.changed(&web(), at(second));
        if contests.is_to_be_told(&web(), at(second)) {
            told.push(second);
        }
    }
    assert_eq!(told, [0, 3600, 7200]);
    let later = at(7200 + 1200);
    assert!(!contests.is_to_be_told(&web(), later));
    assert_eq!(contests.changed(&web(), later), Answer::Now, "it begins anew");
    let other = ServiceRef { uid: "made-anew".into(), ..web() };
    assert!(!contests.is_to_be_told(&other, later));
}

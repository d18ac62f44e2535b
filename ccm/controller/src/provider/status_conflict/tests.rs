use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn web() -> ServiceRef {
    ServiceRef { namespace: "ns".into(), name: "web".into(), uid: "u".into() }
}

#[test]
fn the_first_changes_are_put_right_at_once_and_later_ones_after_a_growing_pause() {
    let mut status_conflicts = StatusConflicts::default();
    let mut now = at(0);
    let mut pauses = Vec::new();
    for _ in 0..12 {
        match status_conflicts.changed(&web(), now) {
            Correction::Now => pauses.push(0),
            Correction::After(pause) => {
                pauses.push(pause.as_secs());
                assert_eq!(
                    status_conflicts.changed(&web(), now),
                    Correction::AlreadyScheduled,
                    "it is on its way"
                );
                now += pause;
            }
            Correction::AlreadyScheduled => unreachable!("all was answered"),
        }
    }
    assert_eq!(pauses, [0, 0, 0, 5, 10, 20, 40, 80, 160, 300, 300, 300]);
}

#[test]
fn it_is_told_once_it_goes_on_and_hourly_and_forgotten_when_it_is_over() {
    let mut status_conflicts = StatusConflicts::default();
    let mut told = Vec::new();
    // Every ten minutes for two hours, after four in a row.
    for second in [0, 0, 0, 0].into_iter().chain((1..=12).map(|tens| tens * 600)) {
        status_conflicts.changed(&web(), at(second));
        if status_conflicts.should_report(&web(), at(second)) {
            told.push(second);
        }
    }
    assert_eq!(told, [0, 3600, 7200]);
    let later = at(7200 + 1200);
    assert!(!status_conflicts.should_report(&web(), later));
    assert_eq!(status_conflicts.changed(&web(), later), Correction::Now, "it begins anew");
    let other = ServiceRef { uid: "made-anew".into(), ..web() };
    assert!(!status_conflicts.should_report(&other, later));
}

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn desired(holds: bool, reason: &'static str) -> DesiredCondition<'static> {
    DesiredCondition { type_: "Ready", holds, reason, message: "words".to_owned(), generation: Some(2) }
}

#[test]
fn the_time_is_that_of_the_last_change_of_status_not_of_the_words() {
    let mut conditions = Vec::new();
    // (what is said, when, since when it is so then)
    for (holds, reason, now, since) in
        [(true, "A", 1, 1), (true, "B", 2, 1), (false, "B", 3, 3), (false, "C", 4, 3), (true, "A", 5, 5)]
    {
        desired(holds, reason).set_in(&mut conditions, at(now));
        let said = find(&conditions, "Ready").expect("said");
        assert_eq!(said.last_transition_time, Time(at(since)), "{reason} at {now}");
        assert!(desired(holds, reason).is_same(said) && !desired(!holds, reason).is_same(said));
        assert_eq!((conditions.len(), said.observed_generation), (1, Some(2)));
    }
}

#[test]
fn conditions_of_other_types_stay_where_they_are() {
    let other = DesiredCondition { type_: "Other", ..desired(true, "A") }.updating(None, at(1));
    let mut conditions = vec![desired(true, "A").updating(None, at(1)), other.clone()];
    desired(false, "B").set_in(&mut conditions, at(2));
    let types: Vec<_> = conditions.iter().map(|one| (one.type_.as_str(), one.status.as_str())).collect();
    assert_eq!(types, [("Ready", "False"), ("Other", "True")]);
    assert_eq!(find(&conditions, "Other"), Some(&other));
}

use super::*;

fn about(name: &str) -> ObjectReference {
    ObjectReference { name: Some(name.to_owned()), ..ObjectReference::default() }
}

#[test]
fn everything_but_the_time_tells_series_apart() {
    let series = Series::default();
    let key = |object, kind, reason, message| series.key(&about(object), kind, reason, message);
    let one = key("web", EventType::Normal, "Ensured", "all is well");
    assert_eq!(one, key("web", EventType::Normal, "Ensured", "all is well"));
    let others = [
        key("api", EventType::Normal, "Ensured", "all is well"),
        key("web", EventType::Warning, "Ensured", "all is well"),
        key("web", EventType::Normal, "Ensuring", "all is well"),
        key("web", EventType::Normal, "Ensured", "all is not well"),
    ];
    assert!(!others.contains(&one));
}

#[tokio::test(start_paused = true)]
async fn a_series_is_over_after_its_time_and_then_takes_no_room() {
    let mut series = Series::default();
    let begin = Instant::now();
    for key in 0..10_000 {
        series.written(key, Written { stamp: 1, count: 1, at: begin });
    }
    assert!(series.last(7, begin + SERIES - Duration::from_secs(1)).is_some());
    assert_eq!(series.last(7, begin + SERIES), None);
    let later = begin + SERIES;
    for key in 10_000..30_000 {
        series.written(key, Written { stamp: 2, count: 1, at: later });
    }
    assert_eq!(series.written.len(), 20_000, "what is over was forgotten");
}

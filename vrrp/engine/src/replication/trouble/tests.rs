use super::*;

#[test]
fn trouble_lasts_until_the_kernel_does_what_is_asked() {
    let at = |seconds| Time::default() + Duration::from_secs(seconds);
    let mut trouble = Trouble::default();
    assert!(trouble.is_due(at(0)) && trouble.error().is_none());
    trouble.note(&Err(TrackingError::EventsOff), "nothing follows", at(10));
    for (seconds, is_due) in [(10, false), (14, false), (15, true), (100, true)] {
        assert_eq!(trouble.is_due(at(seconds)), is_due, "{seconds}");
        assert!(trouble.error().is_some_and(|error| error.contains("nf_conntrack_events")), "{seconds}");
    }
    trouble.note(&Err(TrackingError::Unsteady { tries: 5 }), "nothing follows", at(15));
    assert!(trouble.error().is_some_and(|error| error.contains("5 attempts")), "the last word");
    assert_eq!(trouble.retry(), Some(at(20)));
    trouble.note(&Ok(()), "nothing follows", at(20));
    assert!(trouble.is_due(at(20)) && trouble.error().is_none());
}

use super::*;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn the_longest_gap_is_between_two_answers() {
    let mut outcome = Outcome::default();
    for (at, server) in [(100, "web-n1\n"), (101, "web-n1"), (141, "web-n2"), (142, "web-n2")] {
        outcome.answer(ms(at), server.as_bytes());
    }
    outcome.close_gap(ms(150));
    assert_eq!((outcome.longest_gap, outcome.gap_began), (ms(40), ms(101)));
    assert_eq!(outcome.answered, 4);
    assert_eq!(outcome.by_server, BTreeMap::from([("web-n1".into(), 2), ("web-n2".into(), 2)]));
    assert_eq!(outcome.last_server.as_deref(), Some("web-n2"));
}

#[test]
fn silence_until_the_end_is_a_gap_and_silence_before_the_first_answer_is_none() {
    let mut outcome = Outcome::default();
    outcome.close_gap(ms(50));
    assert_eq!(outcome.longest_gap, Duration::ZERO);
    outcome.answer(ms(90), b"web-n1");
    outcome.close_gap(ms(500));
    assert_eq!((outcome.longest_gap, outcome.gap_began), (ms(410), ms(90)));
}

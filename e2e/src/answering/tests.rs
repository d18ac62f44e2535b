use super::*;

const VIP: std::net::Ipv4Addr = std::net::Ipv4Addr::new(192, 0, 2, 200);

fn noted(questions: &[(u64, &[&str])]) -> Answers {
    let begin = Instant::now();
    let mut seen = Answers::default();
    for (ms, nodes) in questions {
        let nodes = nodes.iter().map(|&node| node.to_owned()).collect();
        seen.note(begin + Duration::from_millis(*ms), &[VIP.into()], [(VIP.into(), nodes)].into());
    }
    seen
}

#[test]
fn several_answers_are_one_time_of_several_unless_they_pause() {
    let seen = noted(&[
        (0, &["n1"]),
        (10, &["n1", "n2"]),
        (20, &[]),
        (30, &["n1", "n3"]),
        (40, &["n3"]),
        (500, &["n1", "n2", "n3"]),
        (510, &["n3"]),
    ]);
    let lengths: Vec<u128> = seen.doubled.iter().map(|doubled| doubled.length().as_millis()).collect();
    assert_eq!(lengths, [30, 10]);
    assert_eq!(seen.doubled[0].nodes.len(), 3, "{:?}", seen.doubled);
    assert_eq!((seen.most[&VIP.into()], seen.last[&VIP.into()].len()), (3, 1));
    assert_eq!(seen.longest_doubled(), Duration::from_millis(30));
    assert_eq!(seen.lasting_doubled().len(), 1, "of the other a late answer may be a part");
}

#[test]
fn who_alone_answers_does_so_in_spite_of_a_lost_answer_but_not_of_anothers_or_of_silence() {
    let since = |questions: &[(u64, &[&str])]| {
        let seen = noted(questions);
        let alone = seen.alone.get(&VIP.into())?;
        Some((alone.node.clone(), alone.last.saturating_duration_since(alone.since).as_millis()))
    };
    assert_eq!(since(&[(0, &["n1"]), (10, &[]), (100, &["n1"])]), Some(("n1".to_owned(), 100)));
    assert_eq!(since(&[(0, &["n1"]), (10, &["n1", "n2"]), (20, &["n1"])]), Some(("n1".to_owned(), 0)));
    assert_eq!(since(&[(0, &["n1"]), (10, &["n2"]), (20, &["n2"])]), Some(("n2".to_owned(), 10)));
    assert_eq!(since(&[(0, &["n1"]), (50, &[]), (110, &[])]), None);
}

#[test]
fn an_address_moves_when_another_alone_answers_than_the_last_that_did() {
    for (questions, expected) in [
        (&[(0, &["n1"][..]), (10, &["n1"])][..], 0),
        (&[(0, &["n1"]), (10, &["n1", "n2"]), (20, &["n2"])], 1),
        (&[(0, &["n1"]), (10, &[]), (500, &["n1"])], 0),
        (&[(0, &["n1"]), (10, &[]), (500, &["n2"]), (900, &["n1"])], 2),
    ] {
        assert_eq!(noted(questions).moves[&VIP.into()], expected, "{questions:?}");
    }
}

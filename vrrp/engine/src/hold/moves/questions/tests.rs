use super::*;

fn hop(number: u8) -> NextHop {
    NextHop { interface: 2, address: [192, 0, 2, number].into() }
}

fn at(milliseconds: u64) -> Time {
    Time::from_nanos(milliseconds * 1_000_000)
}

/// Asks when it is due, from `begin` until `end`; the node answers from `answers` on. When it was asked, and whether it lives then.
fn ask(begin: u64, end: u64, answers: Option<u64>) -> (Vec<u64>, Option<bool>) {
    let mut questions = Questions::default();
    let mut asked = Vec::new();
    for now in begin..=end {
        questions.ask_only([hop(1)].into(), at(now));
        for hop in questions.open(at(now)) {
            let answered = questions.is_asked(hop) && answers.is_some_and(|from| from <= now);
            if !answered {
                asked.push(now);
            }
            questions.note(hop, answered, at(now));
        }
    }
    (asked, questions.lives(hop(1), at(end)))
}

#[test]
fn who_does_not_answer_is_dead_when_a_takeover_comes_an_interval_after_the_first_question() {
    for (interval, expected) in [(1000, Some(false)), (100, Some(false)), (30, None)] {
        assert_eq!(ask(500, 500 + interval, None).1, expected, "{interval}");
    }
    assert_eq!(ask(500, 580, None).1, Some(false), "with fast adverts a moment after it");
}

#[test]
fn who_answers_one_of_several_questions_lives() {
    assert_eq!(ask(500, 600, Some(550)), (vec![500, 520, 540], Some(true)));
    assert_eq!(ask(500, 1500, Some(900)).1, Some(true), "late, with slow adverts");
    assert_eq!(ask(500, 510, Some(500)), (vec![500], None), "nobody has looked yet");
}

#[test]
fn who_is_silent_for_long_is_asked_ever_less_often() {
    let (asked, lives) = ask(0, 40_000, None);
    assert_eq!(asked[..5], [0, 20, 40, 60, 80]);
    assert!(asked.len() < 40, "{asked:?}");
    assert_eq!(lives, Some(false));
}

#[test]
fn what_was_known_is_forgotten_when_it_is_asked_no_more() {
    let mut questions = Questions::default();
    questions.ask_only([hop(1), hop(2)].into(), at(0));
    questions.note(hop(1), true, at(1));
    assert_eq!((questions.lives(hop(1), at(1)), questions.lives(hop(2), at(1))), (Some(true), None));
    questions.ask_only([hop(2)].into(), at(90));
    assert_eq!((questions.lives(hop(1), at(90)), questions.lives(hop(2), at(90))), (None, Some(false)));
    questions.ask_only([hop(1)].into(), at(91));
    assert_eq!((questions.lives(hop(1), at(91)), questions.due(at(91))), (None, Some(at(91))));
}

use std::time::Duration;

use super::*;

/// The verdicts after each result: `+` a success, `-` a failure, `|` the process stood still. `?`, `P`, `F`: unknown, passing, failing.
fn verdicts(rise: u32, fall: u32, results: &str) -> String {
    let start = Instant::now();
    let mut judge = RiseAndFall::new(rise, fall, start);
    let letter = |judge: &RiseAndFall| match judge.state().verdict {
        Verdict::Unknown => '?',
        Verdict::Passing => 'P',
        Verdict::Failing => 'F',
    };
    let mut verdicts = Vec::new();
    for (second, result) in (1..).zip(results.chars()) {
        let now = start + Duration::from_secs(second);
        let before = judge.state().clone();
        match result {
            '+' => judge.note(Ok(()), now),
            '-' => judge.note(Err(format!("at {second}")), now),
            _ => judge.note_stall(),
        }
        let after = judge.state();
        let expected = if after.verdict == before.verdict { before.since } else { now };
        assert_eq!(after.since, expected, "{results} at {second}");
        let error = if result == '-' { Some(format!("at {second}")) } else { before.error };
        assert_eq!(after.error, error, "{results} at {second}");
        verdicts.push(letter(&judge));
    }
    verdicts.into_iter().collect()
}

#[test]
fn so_many_results_in_a_row_change_the_verdict() {
    for (rise, fall, results, expected) in [
        // The first result counts at once, whatever rise and fall are.
        (2, 3, "+", "P"),
        (2, 3, "-", "F"),
        (9, 9, "+", "P"),
        (9, 9, "-", "F"),
        (2, 3, "|+", "?P"),
        // Three failures in a row are one.
        (2, 3, "+---", "PPPF"),
        (2, 3, "+--+--+---", "PPPPPPPPPF"),
        (2, 1, "+-", "PF"),
        // Two successes in a row end it.
        (2, 3, "-++", "FFP"),
        (2, 3, "-+-+-++", "FFFFFFP"),
        (1, 3, "-+", "FP"),
        // After a failure that is over as many count again.
        (2, 3, "+---++---", "PPPFFPPPF"),
        // Failures before the process stood still do not count, successes neither.
        (2, 3, "+--|-", "PPPPP"),
        (2, 3, "+--|---", "PPPPPPF"),
        (2, 3, "-+|+", "FFFF"),
        (2, 3, "-+|++", "FFFFP"),
        (1, 1, "+|-", "PPF"),
    ] {
        assert_eq!(verdicts(rise, fall, results), expected, "rise {rise}, fall {fall}, {results}");
    }
}

#[test]
fn results_that_are_alike_are_counted_and_only_passing_is_well() {
    let start = Instant::now();
    let mut judge = RiseAndFall::new(2, 3, start);
    assert!(!judge.state().is_passing(), "nobody knows yet");
    let mut counts = Vec::new();
    for result in "--++-+".chars() {
        judge.note(if result == '+' { Ok(()) } else { Err(String::new()) }, start);
        counts.push((judge.state().in_a_row, judge.state().is_passing()));
    }
    assert_eq!(counts, [(1, false), (2, false), (1, false), (2, true), (1, true), (1, true)]);
}

use super::*;

const TOOK: Duration = Duration::from_millis(10);

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
            '+' => judge.note(Ok(()), TOOK, now),
            '-' => judge.note(Err(format!("at {second}")), TOOK, now),
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
        judge.note(if result == '+' { Ok(()) } else { Err(String::new()) }, TOOK, start);
        counts.push((judge.state().in_a_row, judge.state().is_passing()));
    }
    assert_eq!(counts, [(1, false), (2, false), (1, false), (2, true), (1, true), (1, true)]);
}

#[test]
fn the_attempt_that_would_be_one_failure_too_many_is_waited_for_as_long_as_a_success_may_need() {
    let ms = Duration::from_millis;
    // (fall, how long successes take, results so far, how long the next attempt is waited for), in ms
    for (fall, took, results, expected) in [
        (3, 10, "", 500),
        (3, 10, "+", 500),
        (3, 10, "+-", 500),
        (3, 10, "+--", 50),
        (3, 10, "+---", 500),
        (3, 10, "---", 500),
        (3, 10, "+--|", 500),
        (2, 10, "+-", 50),
        // There is no other.
        (1, 10, "+", 500),
        // A slow server that is well has its time.
        (3, 100, "+--", 200),
        (3, 240, "+--", 480),
        (3, 300, "+--", 500),
    ] {
        let now = Instant::now();
        let mut judge = RiseAndFall::new(2, fall, now);
        for result in results.chars() {
            match result {
                '+' => judge.note(Ok(()), ms(took), now),
                '-' => judge.note(Err(String::new()), ms(500), now),
                _ => judge.note_stall(),
            }
        }
        assert_eq!(judge.patience(ms(500)), ms(expected), "fall {fall}, {took} ms, {results:?}");
    }
}

/// For how many seconds the check has to pass after each failure, where failures begin so many seconds apart.
fn proofs(apart: u64, failures: u32) -> Vec<u64> {
    let mut now = Instant::now();
    let mut judge = RiseAndFall::new(1, 1, now);
    judge.note(Ok(()), TOOK, now);
    let mut proofs = Vec::new();
    for _ in 0..failures {
        judge.note(Err(String::new()), TOOK, now);
        assert!(!judge.state().is_proving(now), "it fails");
        let back = now + Duration::from_secs(1);
        judge.note(Ok(()), TOOK, back);
        let until = judge.state().proves_until.unwrap_or(back);
        assert_eq!(judge.state().is_proving(back), until > back);
        assert!(!judge.state().is_proving(until), "it has proved itself");
        proofs.push(until.duration_since(back).as_secs());
        now += Duration::from_secs(apart);
    }
    proofs
}

#[test]
fn a_check_that_fails_again_and_again_has_to_pass_for_longer_each_time() {
    assert_eq!(proofs(60, 7), [0, 30, 60, 120, 240, 300, 300]);
    assert_eq!(proofs(2, 7), [0, 0, 0, 30, 30, 30, 60], "what comes within five seconds is one failure");
    assert_eq!(proofs(1000, 4), [0; 4], "a failure now and then costs nothing");
}

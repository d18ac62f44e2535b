use std::net::Ipv4Addr;

use super::*;

fn hop(n: u8) -> NextHop {
    NextHop { interface: 2, address: Ipv4Addr::new(192, 0, 2, n).into() }
}

/// Servers 1 and 2, of which the second always answers, and the clock.
struct Asked(Liveness, Time);

impl Asked {
    fn new() -> Self {
        let mut liveness = Liveness::default();
        liveness.ask_only(&[hop(1), hop(2)].into());
        let begun = Time::default() + Duration::from_secs(100);
        let mut asked = Self(liveness, begun);
        asked.questions(1, Some(true));
        asked
    }

    /// Asks so many times, and the first server answers or not.
    fn questions(&mut self, count: u64, answered: Option<bool>) {
        for _ in 0..count {
            for (one, is_due) in self.0.open(self.1) {
                let answered = if one == hop(1) { answered } else { Some(true) };
                self.0.note(one, answered.filter(|_| is_due), self.1);
            }
            self.1 = self.1 + QUESTION_INTERVAL;
        }
    }

    fn is_silent(&self) -> bool {
        self.0.silent() == [hop(1).address].into()
    }

    fn is_out(&self) -> bool {
        self.is_silent() || self.0.returning(self.1) == [hop(1).address].into()
    }

    /// Is silent, answers again; how many questions it takes until it is in.
    fn returns_after(&mut self) -> Duration {
        self.questions(3, Some(false));
        assert!(self.is_silent());
        self.questions(1, Some(true));
        let back = self.1;
        while self.is_out() {
            self.questions(1, Some(true));
        }
        self.1.since(back) + QUESTION_INTERVAL
    }
}

#[test]
fn a_server_is_out_when_three_questions_in_a_row_had_no_answer() {
    let mut asked = Asked::new();
    for (count, answered, is_silent) in [
        (2, Some(false), false),
        (1, Some(true), false),
        (2, Some(false), false),
        (5, None, false),
        (1, Some(false), true),
        (5, None, true),
    ] {
        asked.questions(count, answered);
        assert_eq!(asked.is_silent(), is_silent, "{count} {answered:?}");
    }
    assert!(!asked.0.is_cut_off(), "the other one answers");
}

#[test]
fn a_thread_that_is_late_judges_nothing_more_than_the_last_question() {
    let mut asked = Asked::new();
    asked.1 = asked.1 + Duration::from_mins(1);
    asked.questions(1, Some(false));
    assert!(!asked.is_silent());
}

#[test]
fn a_server_is_asked_once_in_each_interval() {
    let mut asked = Asked::new();
    let first = asked.1;
    assert_eq!(asked.0.due(), Some(first));
    asked.questions(1, Some(true));
    assert_eq!(asked.0.open(first), []);
    assert_eq!(asked.0.due(), Some(first + QUESTION_INTERVAL));
    assert_eq!(Liveness::default().due(), None);
}

#[test]
fn a_server_that_returns_waits_three_seconds_and_one_that_flaps_longer_each_time() {
    let mut asked = Asked::new();
    // To the next question.
    let is_about = |time: Duration, seconds| {
        let wanted = Duration::from_secs(seconds);
        (wanted..wanted + QUESTION_INTERVAL).contains(&time)
    };
    for seconds in [3, 30, 60, 120, 240, 300, 300] {
        let time = asked.returns_after();
        assert!(is_about(time, seconds), "{time:?}, {seconds} s");
    }
    let window = FLAP_WINDOW.as_millis() / QUESTION_INTERVAL.as_millis();
    asked.questions(u64::try_from(window).unwrap() + 1, Some(true));
    let time = asked.returns_after();
    assert!(is_about(time, 3), "a quarter of an hour later: {time:?}");
}

#[test]
fn servers_that_all_were_silent_are_in_when_one_answers_and_are_judged_anew_two_seconds_later() {
    let mut asked = Asked::new();
    for count in 1..4 {
        for one in [hop(1), hop(2)] {
            asked.0.note(one, Some(false), asked.1);
        }
        assert_eq!(asked.0.is_cut_off(), count == 3);
    }
    asked.0.note(hop(2), Some(true), asked.1);
    assert!(!asked.is_out() && !asked.0.is_cut_off());
    assert_eq!(asked.0.open(asked.1 + GRACE), []);
    asked.1 = asked.1 + GRACE + QUESTION_INTERVAL;
    asked.questions(3, Some(false));
    assert!(asked.is_silent());
}

#[test]
fn a_single_other_server_that_was_silent_waits_until_it_has_its_lots_again() {
    let mut asked = Asked::new();
    asked.0.ask_only(&[hop(1)].into());
    asked.questions(3, Some(false));
    assert!(asked.0.is_cut_off());
    asked.questions(1, Some(true));
    assert!(asked.is_out() && !asked.is_silent());
}

#[test]
fn what_is_known_of_a_server_ends_when_it_is_asked_no_more() {
    let mut asked = Asked::new();
    asked.questions(3, Some(false));
    asked.0.ask_only(&[hop(1)].into());
    assert!(asked.is_silent() && asked.0.is_cut_off());
    asked.0.ask_only(&BTreeSet::new());
    assert!(!asked.0.is_cut_off());
    asked.0.ask_only(&[hop(1), hop(2)].into());
    assert!(!asked.is_out());
}

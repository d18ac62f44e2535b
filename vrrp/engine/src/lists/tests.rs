use std::thread;

use super::*;

#[test]
fn who_asked_has_the_answer_once_and_rests_for_nine_times_as_long_as_it_took() {
    let (lists, jobs) = lists();
    let mut listing = Listing::new(lists);
    assert!(listing.has_rested(Time::default()));
    listing.ask(|| 7);
    assert!(listing.is_asked() && !listing.has_rested(Time::default()));
    assert_eq!(listing.rested(), None);
    assert_eq!(listing.answer(Time::default()), None, "the thread does not run yet");
    let (lists, _) = super::lists();
    listing.lists = lists;
    // Ends when all jobs are done: nobody can ask for another.
    thread::spawn(|| run(jobs)).join().unwrap();
    let now = Time::default() + Duration::from_secs(1);
    assert_eq!(listing.answer(now), Some(7));
    assert_eq!(listing.answer(now), None);
    let rest = listing.rested().expect("nothing is asked for").since(now);
    assert!(listing.has_rested(now + rest) && (rest.is_zero() || !listing.has_rested(now)));
    assert_eq!(rest.as_nanos() % u128::from(REST), 0);
}

#[test]
fn what_nobody_answers_any_more_is_asked_for_again() {
    let (lists, jobs) = lists();
    let mut listing = Listing::new(lists);
    listing.ask(|| ());
    drop(jobs);
    assert_eq!(listing.answer(Time::default()), None);
    assert!(!listing.is_asked());
}

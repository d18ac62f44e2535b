use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Time {
    Time::default() + SECOND * u32::try_from(seconds).unwrap()
}

/// Twice the number; panics for 0.
fn double(number: u32) -> u32 {
    assert_ne!(number, 0, "as the test wants it");
    number * 2
}

/// Waits until the hold thread would be woken, and polls.
fn outcome(background: &mut Background<u32, u32>, now: Time) -> Option<Result<u32, Lost>> {
    let waker = background.shared.hold_waker();
    let mut descriptors = [PollFd::new(waker.as_fd(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut descriptors, PollTimeout::from(10_000_u16)), Ok(1), "the hold thread is woken");
    background.shared.hold_waker().drain();
    background.poll(now)
}

#[test]
fn a_job_is_done_by_another_thread_which_wakes_the_hold_thread() {
    let shared = Arc::new(SharedState::new().unwrap());
    let mut background = Background::new("windlass-test", &shared, double);
    assert!(background.is_ready(at(1)) && background.poll(at(1)).is_none());
    assert!(background.submit(21, at(1)));
    assert!(!background.is_ready(at(1)), "one at a time");
    assert_eq!(outcome(&mut background, at(2)), Some(Ok(42)));
    assert!(background.is_ready(at(2)) && background.poll(at(2)).is_none());
}

#[test]
fn a_thread_that_panics_is_noticed_and_started_again_after_a_pause() {
    let shared = Arc::new(SharedState::new().unwrap());
    let mut background = Background::new("windlass-test", &shared, double);
    assert!(background.submit(0, at(1)));
    assert_eq!(outcome(&mut background, at(2)), Some(Err(Lost)));
    assert!(!background.is_ready(at(3)));
    assert_eq!(background.ready_at(at(3)), Some(at(7)));
    assert!(background.submit(4, at(7)));
    assert_eq!(outcome(&mut background, at(8)), Some(Ok(8)));
}

#[test]
fn the_end_waits_for_the_last_job_but_not_for_ever() {
    fn sleep(duration: Duration) {
        thread::sleep(duration);
    }
    let shared = Arc::new(SharedState::new().unwrap());
    let background = Background::new("windlass-test", &shared, double);
    background.finish(1, Duration::from_secs(10));
    let background = Background::new("windlass-test", &shared, sleep);
    let began = Instant::now();
    background.finish(Duration::from_mins(10), Duration::from_millis(1));
    assert!(began.elapsed() < Duration::from_mins(5), "it would sleep for 600 s");
}

use std::os::fd::AsFd;
use std::thread;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::*;
use crate::event_queue;
use crate::supervisor::{HelperThread, Supervisor};

/// A helper thread under supervision, and what a hold thread needs for it.
struct Scene {
    supervisor: Supervisor,
    thread: HelperThread,
    jobs: Sender<Job>,
    shared: Arc<SharedState>,
}

impl Scene {
    fn new() -> Self {
        let (mut supervisor, shared) =
            (Supervisor::new(event_queue::channel().0), SharedState::new().unwrap());
        let (shared, (jobs, received)) = (Arc::new(shared), mpsc::channel());
        let woken = Arc::clone(&shared);
        let body = move |helper: &Helper| {
            work(&received, helper);
            Ok(())
        };
        let thread = supervisor.spawn("windlass-sets", move |_| woken.wake_hold(), |_| false, body).unwrap();
        Self { supervisor, thread, jobs, shared }
    }

    fn background<J: Send + 'static, O: Send + 'static>(&self, perform: fn(J) -> O) -> Background<J, O> {
        Background::new(&self.jobs, &self.shared, perform)
    }
}

/// Twice the number; panics for 0.
fn double(number: u32) -> u32 {
    assert_ne!(number, 0, "as the test wants it");
    number * 2
}

/// Waits until the hold thread would be woken, and polls.
fn outcome(background: &mut Background<u32, u32>) -> Option<Result<u32, RecvError>> {
    let waker = background.shared.hold_waker();
    let mut descriptors = [PollFd::new(waker.as_fd(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut descriptors, PollTimeout::from(10_000_u16)), Ok(1), "the hold thread is woken");
    background.shared.hold_waker().drain();
    background.poll()
}

#[test]
fn a_job_is_done_by_the_helper_thread_which_wakes_the_hold_thread_and_ends_with_it() {
    let scene = Scene::new();
    let mut background = scene.background(double);
    assert!(background.is_idle() && background.poll().is_none());
    background.submit(21);
    assert!(!background.is_idle(), "one at a time");
    assert_eq!(outcome(&mut background), Some(Ok(42)));
    assert!(background.is_idle() && background.poll().is_none());
    drop((background, scene.jobs));
    scene.thread.join();
}

// shows: threats T-33
#[test]
fn a_job_in_which_the_thread_panics_is_lost_which_wakes_the_hold_thread_and_the_next_is_done() {
    let scene = Scene::new();
    let mut background = scene.background(double);
    background.submit(0);
    assert_eq!(outcome(&mut background), Some(Err(RecvError)));
    assert_eq!(scene.supervisor.status()[0].faults, 1);
    background.submit(4);
    assert_eq!(outcome(&mut background), Some(Ok(8)));
}

#[test]
fn a_hold_thread_that_was_started_again_gets_no_outcome_of_a_job_before() {
    let scene = Scene::new();
    let mut before = scene.background(double);
    before.submit(21);
    let mut background = scene.background(double);
    background.submit(4);
    drop(before);
    let found = (0..2).find_map(|_| outcome(&mut background));
    assert_eq!(found, Some(Ok(8)));
}

#[test]
fn the_end_waits_for_the_last_job_but_not_for_ever() {
    fn sleep(duration: Duration) {
        thread::sleep(duration);
    }
    let scene = Scene::new();
    scene.background(double).finish(1, Duration::from_secs(10));
    let began = Instant::now();
    scene.background(sleep).finish(Duration::from_mins(10), Duration::from_millis(1));
    assert!(began.elapsed() < Duration::from_mins(5), "it would sleep for 600 s");
}

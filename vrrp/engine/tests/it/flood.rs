//! Tens of thousands of adverts a second from somebody who is none of ours.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use windlass_engine::{Interval, RouterConfig, RouterStatus, State, TransitionReason};

use crate::flooder::Flooder;
use crate::lab::{Host, Lan, Node, VIP, address, await_some, require_root, router, source, take_all_turns};

/// Adverts in a row. More at once, to catch up, and the kernel's queues would lose the peers' own.
const BURST: usize = 50;
/// From one burst to the next.
const PAUSE: Duration = Duration::from_millis(1);

/// Sends until it is dropped.
pub(crate) struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    /// From this host.
    pub(crate) fn from(host: &Host, flooder: impl FnOnce() -> Flooder + Send + 'static) -> Self {
        let flooder = host.run(flooder);
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&sent));
        let thread = std::thread::spawn(move || {
            let mut next = Instant::now();
            while !stopped.load(Ordering::Relaxed) {
                flooder.send(BURST);
                counted.fetch_add(BURST as u64, Ordering::Relaxed);
                next = Instant::now().max(next + PAUSE);
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        });
        Self { stop, sent, thread: Some(thread) }
    }

    pub(crate) fn await_sent(&self, count: u64) {
        await_some("flood", || (self.sent.load(Ordering::Relaxed) >= count).then_some(()));
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// Address of the host that floods.
const STRANGER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 3);

/// An Active and a Backup, and a third host that floods; neither moves, and a failover happens all the same. Returns both, how often
/// at most the second may have told of the stranger (once a minute), and why it took over.
fn unmoved_by(
    flooder: impl FnOnce() -> Flooder + Send + 'static,
    heard: impl Fn(&RouterStatus) -> bool,
) -> ([Node; 2], usize, TransitionReason) {
    let _turn = take_all_turns();
    let lan = Lan::new(3);
    let (first, second) = (lan.hosts[0].engine(), lan.hosts[1].engine());
    let slow = |n| RouterConfig { interval: Interval::SECOND, ..router(n, 2) };
    first.engine.apply(vec![slow(0)]);
    second.engine.apply(vec![slow(1)]);
    first.await_status("Active", |status| status.state == State::Active);
    second.await_status("Backup", |status| status.active == Some(source(0)));
    second.forget_events();
    let takeovers = [&first, &second].map(|node| node.status().counters.became_active);

    let flood = Flood::from(&lan.hosts[2], flooder);
    let began = Instant::now();
    flood.await_sent(50_000);
    second.await_status("flood", heard);
    assert_eq!([&first, &second].map(|node| node.status().counters.became_active), takeovers);
    assert_eq!(second.status().active, Some(source(0)));
    lan.pull_cable(0);
    let reason = second.await_state(State::Active);
    drop(flood);
    let minutes = began.elapsed().as_secs().div_ceil(60);
    for node in [&first, &second] {
        println!("lateness under the flood: {:?}", node.engine.lateness());
    }
    ([first, second], usize::try_from(minutes).unwrap(), reason)
}

// shows: rfc9568 B3; threats T-18
#[test]
fn a_flood_of_our_vrid_from_a_stranger_moves_nobody_and_prevents_no_failover() {
    if !require_root() {
        return;
    }
    // The kernel may lose some of them.
    let ([_, second], minutes, reason) =
        unmoved_by(|| Flooder::new(STRANGER, 7, 255), |status| status.counters.foreign_adverts > 20_000);
    assert_eq!(reason, TransitionReason::ActiveSilent);
    assert!((1..=minutes).contains(&second.strangers_reported()), "told once a minute");
}

// shows: threats T-18
#[test]
fn a_flood_of_foreign_vrids_does_not_reach_the_timer_thread() {
    if !require_root() {
        return;
    }
    let ([_, second], minutes, reason) = unmoved_by(|| Flooder::new(STRANGER, 9, 255), |_| true);
    assert_eq!(reason, TransitionReason::ActiveSilent);
    assert_eq!(second.status().counters.foreign_adverts, 0);
    assert!(second.engine.links()[0].foreign_adverts > 0);
    assert!((1..=minutes).contains(&second.strangers_reported()), "told once a minute");
}

// shows: threats T-18
#[test]
fn a_flood_of_questions_for_the_vip_moves_nobody_and_prevents_no_failover() {
    if !require_root() {
        return;
    }
    let ([first, _second], _, reason) = unmoved_by(|| Flooder::questions(STRANGER, VIP), |_| true);
    assert_eq!(reason, TransitionReason::ActiveSilent);
    assert!(first.status().counters.replies > 1000, "{:?}", first.status().counters);
}

#[test]
fn a_flood_of_lower_priority_in_the_name_of_the_active_neither_hastens_nor_prevents_a_failover() {
    if !require_root() {
        return;
    }
    let ([first, second], _, reason) =
        unmoved_by(|| Flooder::new(address(0), 7, 100), |status| status.counters.adverts_received > 20_000);
    // The last that was heard was inferior.
    assert_eq!(reason, TransitionReason::Preempted);
    assert_eq!([&first, &second].map(Node::strangers_reported), [0, 0]);
}

// shows: threats T-18
/// The longest that adverts may be missed: three intervals and the skew of priority 180. From before the cable is pulled
/// until the event is here; one more interval is for pulling it and for the event. A busy machine may be late sometimes, an
/// engine that the flood holds up always is: the best of ten counts.
#[test]
fn under_a_flood_a_failover_takes_no_longer_than_the_active_down_interval() {
    if !require_root() {
        return;
    }
    let _turn = take_all_turns();
    let lan = Lan::new(3);
    let (first, second) = (lan.hosts[0].engine(), lan.hosts[1].engine());
    first.engine.apply(vec![router(0, 2)]);
    second.engine.apply(vec![router(1, 2)]);
    let flood = Flood::from(&lan.hosts[2], || Flooder::new(STRANGER, 7, 255));
    flood.await_sent(10_000);
    let interval = router(0, 2).interval.duration();
    let bound = interval * 3 + interval * (256 - 180) / 256;
    let mut taken = Vec::new();
    for _ in 0..10 {
        first.await_status("Active", |status| status.state == State::Active);
        second.await_status("Backup", |status| {
            status.state == State::Backup && status.active == Some(source(0))
        });
        second.forget_events();
        let began = Instant::now();
        lan.pull_cable(0);
        assert_eq!(second.await_state(State::Active), TransitionReason::ActiveSilent);
        taken.push(began.elapsed());
        if taken.iter().any(|taken| *taken <= bound + interval) {
            return;
        }
        lan.plug_cable(0);
    }
    panic!("{bound:?} and an interval, but always more: {taken:?}");
}

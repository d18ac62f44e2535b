use windlass_engine::{Family, RouterKey, Vrid};

use super::*;

#[tokio::test]
async fn an_event_that_finds_the_queue_full_is_lost_and_sets_the_flag() {
    let key = RouterKey { interface: "eth0".to_owned(), family: Family::V4, vrid: Vrid::new(7).unwrap() };
    let event = || Event::Recovered { key: key.clone() };
    let (on_event, mut events, lost) = queue();
    (0..EVENT_QUEUE).for_each(|_| on_event(event()));
    assert!(!lost.load(Ordering::Relaxed));
    on_event(event());
    assert!(lost.swap(false, Ordering::Relaxed));
    assert_eq!(events.recv().await, Some(event()));
    on_event(event());
    assert!(!lost.load(Ordering::Relaxed), "there was room");
}

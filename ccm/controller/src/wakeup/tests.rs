use super::*;

/// How long until a pass is due.
async fn waited(wakeup: &Wakeup, rested: Instant) -> Duration {
    let began = Instant::now();
    wakeup.due_after(rested).await;
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn what_is_urgent_is_due_at_once_and_the_rest_together_a_little_later() {
    let wakeup = Wakeup::default();
    let now = Instant::now();
    wakeup.request(Urgency::Now);
    assert_eq!(waited(&wakeup, now).await, Duration::ZERO);
    wakeup.request(Urgency::Soon);
    wakeup.request(Urgency::Soon);
    assert_eq!(waited(&wakeup, now).await.as_millis(), SOON.as_millis());
    let nothing = tokio::time::timeout(SOON * 10, wakeup.due_after(now)).await;
    assert!(nothing.is_err(), "one pass was for both");
}

#[tokio::test(start_paused = true)]
async fn an_urgent_change_does_not_wait_for_what_can_wait() {
    let wakeup = Wakeup::default();
    wakeup.request(Urgency::Soon);
    let (waited, ()) = tokio::join!(waited(&wakeup, Instant::now()), async {
        tokio::time::sleep(SOON / 5).await;
        wakeup.request(Urgency::Now);
    });
    assert_eq!(waited.as_millis(), (SOON / 5).as_millis());
}

#[tokio::test(start_paused = true)]
async fn a_change_that_does_not_concern_the_planner_brings_no_pass() {
    let wakeup = Wakeup::default();
    wakeup.request(Urgency::Never);
    assert!(tokio::time::timeout(SOON * 10, wakeup.due_after(Instant::now())).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn after_a_long_pass_the_planner_rests_however_urgent_the_next_is() {
    let wakeup = Wakeup::default();
    wakeup.request(Urgency::Now);
    let took = Duration::from_millis(40);
    assert_eq!(waited(&wakeup, rest(Instant::now(), took)).await, took * REST);
    let now = Instant::now();
    assert_eq!(rest(now, Duration::from_mins(1)), now + LONGEST_REST);
}

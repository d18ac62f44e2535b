use tokio::time::sleep;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_task_that_runs_is_well_however_long_it_takes() {
    let watchdog = Watchdog::new(Instant::now());
    let running = tokio::spawn(watchdog.clone().during(sleep(Duration::from_hours(2))));
    for _ in 0..100 {
        sleep(Duration::from_mins(1)).await;
        assert_eq!(watchdog.check(Instant::now()), Ok(()));
    }
    running.await.unwrap();
}

// shows: ccm-contract S-62
#[tokio::test(start_paused = true)]
async fn a_task_that_does_not_get_to_run_fails_its_check_and_recovers() {
    let start = Instant::now();
    let watchdog = Watchdog::new(start);
    assert_eq!(watchdog.check(start + Duration::from_secs(59)), Ok(()));
    let error = watchdog.check(start + Duration::from_secs(61)).unwrap_err();
    assert!(error.contains("did not get to run for 61 s"), "{error}");
    watchdog.record(start + Duration::from_secs(61));
    assert_eq!(watchdog.check(start + Duration::from_secs(62)), Ok(()));
}

use prometheus::TextEncoder;
use tokio::time::advance;

use super::*;

fn shown(registry: &Registry) -> String {
    TextEncoder::new().encode_to_string(&registry.gather()).expect("text")
}

// shows: ccm-contract S-50, S-51
#[tokio::test(start_paused = true)]
async fn work_under_way_is_shown_while_it_lasts_and_timed_when_it_is_done() {
    let registry = Registry::new();
    let metrics = QueueMetrics::register(&registry).expect("metrics");
    let queue = metrics.of("service");
    let due = Instant::now();
    advance(Duration::from_secs(2)).await;
    let first = queue.begin(due, Instant::now());
    advance(Duration::from_secs(3)).await;
    let second = queue.begin(Instant::now(), Instant::now());
    advance(Duration::from_secs(1)).await;
    let text = shown(&registry);
    for line in [
        "workqueue_queue_duration_seconds_sum{name=\"service\"} 2",
        "workqueue_queue_duration_seconds_count{name=\"service\"} 2",
        "workqueue_unfinished_work_seconds{name=\"service\"} 5",
        "workqueue_longest_running_processor_seconds{name=\"service\"} 4",
        "workqueue_work_duration_seconds_count{name=\"service\"} 0",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is missing in\n{text}");
    }
    first.end(Instant::now());
    drop(second);
    let text = shown(&registry);
    for line in [
        "workqueue_unfinished_work_seconds{name=\"service\"} 0",
        "workqueue_longest_running_processor_seconds{name=\"service\"} 0",
        "workqueue_work_duration_seconds_sum{name=\"service\"} 4",
        "workqueue_work_duration_seconds_count{name=\"service\"} 1",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is missing in\n{text}");
    }
}

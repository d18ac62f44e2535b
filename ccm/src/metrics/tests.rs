use jiff::Timestamp;
use prometheus::{Registry, TextEncoder};
use tokio::time::Instant;

use super::{Controller, Metrics, SyncResult};

// shows: ccm-contract S-50, S-51
#[test]
fn every_metric_is_shown_under_its_name() {
    let registry = Registry::new();
    let metrics = Metrics::register(&registry, "cloud-controller-manager").expect("metrics");
    let shown = || TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
    let queue = metrics.queues.of("service");
    queue.depth.set(3);
    queue.adds.inc();
    queue.retries.inc();
    let now = Instant::now();
    queue.begin(now, now).end(now);
    metrics.election.count_slow_path();
    metrics.service.node_sync_seconds.observe(0.5);
    metrics.service.node_driven_syncs.inc();
    metrics.service.node_sync_errors.inc();
    metrics.service.update_nodes_seconds.observe(0.5);
    metrics.count_sync(Controller::Service, SyncResult::Pending);
    metrics.count_sync(Controller::Node, SyncResult::Error);
    metrics.count_sync(Controller::NodeLifecycle, SyncResult::Success);
    let second = |second| Timestamp::from_second(second).expect("a time");
    metrics.node.initialized(Some(second(100)), second(103));
    metrics.node.initialized(Some(second(100)), second(99));
    metrics.node.initialized(None, second(99));
    let running = metrics.running.started("cloud-node");
    drop(metrics.running.started("service"));
    let text = shown();
    assert!(text.contains("leader_election_master_status{name=\"cloud-controller-manager\"} 0"), "{text}");
    metrics.election.set_master(true);
    let text = shown();
    for line in [
        "leader_election_master_status{name=\"cloud-controller-manager\"} 1",
        "leader_election_slowpath_total{name=\"cloud-controller-manager\"} 1",
        "service_controller_loadbalancer_sync_total 1",
        "service_controller_nodesync_latency_seconds_count 1",
        "service_controller_nodesync_error_total 1",
        "service_controller_update_loadbalancer_host_latency_seconds_count 1",
        "workqueue_depth{name=\"service\"} 3",
        "workqueue_adds_total{name=\"service\"} 1",
        "workqueue_retries_total{name=\"service\"} 1",
        "workqueue_queue_duration_seconds_count{name=\"service\"} 1",
        "workqueue_work_duration_seconds_count{name=\"service\"} 1",
        "workqueue_work_duration_seconds_bucket{name=\"service\",le=\"0.00001\"} 1",
        "workqueue_work_duration_seconds_bucket{name=\"service\",le=\"0.0001\"} 1",
        "workqueue_unfinished_work_seconds{name=\"service\"} 0",
        "workqueue_longest_running_processor_seconds{name=\"service\"} 0",
        "windlass_ccm_syncs_total{controller=\"service\",result=\"pending\"} 1",
        "windlass_ccm_syncs_total{controller=\"service\",result=\"error\"} 0",
        "windlass_ccm_syncs_total{controller=\"node\",result=\"error\"} 1",
        "windlass_ccm_syncs_total{controller=\"node-lifecycle\",result=\"success\"} 1",
        "running_managed_controllers{manager=\"cloud-controller-manager\",name=\"cloud-node\"} 1",
        "running_managed_controllers{manager=\"cloud-controller-manager\",name=\"service\"} 0",
        "node_controller_initial_node_sync_delay_seconds_sum 3",
        "node_controller_cloud_provider_taint_removal_delay_seconds_bucket{le=\"1\"} 1",
        "node_controller_cloud_provider_taint_removal_delay_seconds_bucket{le=\"4\"} 2",
        "node_controller_cloud_provider_taint_removal_delay_seconds_bucket{le=\"1024\"} 2",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is missing in\n{text}");
    }
    drop(running);
}

//! One sync against what others do to the node meanwhile.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::{fresh, machine};
use crate::fake::FakeProvider;
use crate::node::decide::addresses_patch;
use crate::node::sync::{SyncError, SyncOutcome, SyncedNode, sync};
use crate::testing::apiserver::ApiServer;
use crate::testing::{node_object, with};

/// Synchronises n1 as it was shown with version 1.
async fn synced(api: &ApiServer) -> Result<SyncedNode, SyncError> {
    let provider = FakeProvider::default();
    provider.set_metadata("n1", machine(&[("InternalIP", "192.0.2.11")]));
    let node = with(fresh("n1"), &json!({ "metadata": { "resourceVersion": "1" } }));
    sync(&api.client(), &provider, Arc::new(node_object(node)), Duration::from_secs(1)).await
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_gone_needs_nothing() {
    let synced = synced(&ApiServer::default()).await.expect("no error");
    assert_eq!(synced.outcome, SyncOutcome::Gone);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_made_again_is_another() {
    let api = ApiServer::default();
    api.put(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n0" } }));
    api.put(with(fresh("n1"), &json!({ "metadata": { "uid": "another" } })));
    assert_eq!(synced(&api).await.expect("no error").outcome, SyncOutcome::Gone);
    let stored = api.get("nodes//n1").expect("the node");
    assert!(stored["spec"]["providerID"].is_null(), "{stored}");
}

#[tokio::test(start_paused = true)]
async fn conflicts_without_end_are_given_back_to_the_queue() {
    let api = ApiServer::default();
    api.put(fresh("n1"));
    for _ in 0..100 {
        api.fail("patch", "nodes//n1/status", 409);
    }
    assert!(matches!(synced(&api).await, Err(SyncError::Write(error)) if error.is_conflict()));
    assert!(api.request_count() <= 12, "{:?}", api.requests());
}

// shows: ccm-contract N-12, N-13
#[test]
fn addresses_are_written_only_to_the_node_that_was_read_n_12() {
    let node = node_object(with(fresh("n1"), &json!({ "metadata": { "resourceVersion": "7" } })));
    assert_eq!(
        addresses_patch(&node, &machine(&[("InternalIP", "192.0.2.11")]).addresses),
        json!({
            "metadata": { "resourceVersion": "7" },
            "status": { "addresses": [{ "type": "InternalIP", "address": "192.0.2.11" }] }
        })
    );
}

use std::time::Duration;

use windlass_api::{NodeNetwork, VirtualIP, VirtualRouter};
use windlass_ccm::testing::apiserver::ApiServer;

use super::{follow, follow_own};

/// Requests of the agent of this node in the hour after its start, in which nothing changes. The API server sends a bookmark each minute,
/// as that of Kubernetes.
async fn requests_in_an_hour(node: &str) -> Vec<String> {
    let api = ApiServer::default();
    api.send_bookmarks(Some(Duration::from_mins(1)));
    let client = api.client();
    let (_, mut routers) = follow::<VirtualRouter>(&client, node, |_| ());
    let (_, mut vips) = follow::<VirtualIP>(&client, node, |_| ());
    let (_, mut network) = follow_own::<NodeNetwork>(&client, node);
    let watches = async { tokio::join!(routers.run(), vips.run(), network.run()) };
    drop(tokio::time::timeout(Duration::from_hours(1), watches).await);
    api.requests()
}

#[tokio::test(start_paused = true)]
async fn a_thousand_agents_at_rest_make_fewer_than_five_requests_a_second() {
    let nodes: Vec<String> = (1..=50).map(|number| format!("n{number}")).collect();
    let all = futures::future::join_all(nodes.iter().map(|node| requests_in_an_hour(node))).await;
    let lists = all.iter().flatten().filter(|call| !call.ends_with("(watch)")).count();
    assert_eq!(lists, 3 * nodes.len(), "each kind is listed once, at the start");
    let watches = all.iter().map(Vec::len).sum::<usize>() - lists;
    let thousandths = watches * 1_000_000 / nodes.len() / 3600;
    assert!(thousandths < 5_000, "{thousandths} requests in 1,000 s");
}

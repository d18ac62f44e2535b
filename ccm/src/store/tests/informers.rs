//! Informers: who is told of what, and how many watches there are.

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;

use super::*;
use crate::testing::apiserver::ApiServer;
use crate::testing::lb;

fn node_at(version: &str) -> Node {
    Arc::unwrap_or_clone(versioned("a", version))
}

fn next(changes: &mut Changes<Node>) -> Option<Vec<String>> {
    changes.try_next().map(told)
}

#[test]
fn each_subscriber_is_told_of_everything_known_and_every_change_but_of_its_own_writes() {
    let informer = Informer::<Node>::default();
    let (one, mut told_one) = informer.subscribe();
    assert_eq!(next(&mut told_one), None, "nothing is known yet");
    for event in [Event::Init, Event::InitApply(node_at("1")), Event::InitDone] {
        informer.handle(event);
    }
    assert_eq!(next(&mut told_one), Some(vec!["+a".to_owned()]));
    let (_two, mut told_two) = informer.subscribe();
    assert_eq!(next(&mut told_two), Some(vec!["+a".to_owned()]), "who comes later knows as much");
    assert!(one.learn(node_at("2")).is_some());
    assert_eq!((next(&mut told_one), next(&mut told_two)), (None, Some(vec!["~a".to_owned()])));
    assert!(informer.learn(node_at("3")).is_some());
    assert_eq!(
        (next(&mut told_one), next(&mut told_two)),
        (Some(vec!["~a".to_owned()]), Some(vec!["~a".to_owned()]))
    );
}

#[test]
fn the_end_of_an_empty_list_is_told_and_who_listens_no_more_is_forgotten() {
    let informer = Informer::<Node>::default();
    let (_handle, mut changes) = informer.subscribe();
    drop(informer.subscribe());
    for event in [Event::Init, Event::InitDone] {
        informer.handle(event);
    }
    assert_eq!(next(&mut changes), Some(vec![]));
    assert!(informer.is_synced());
    let (_later, mut changes) = informer.subscribe();
    assert_eq!(next(&mut changes), Some(vec![]), "who comes later hears of it as well");
}

#[test]
fn what_nobody_reads_is_not_kept() {
    let informer = Informer::<Node>::new(crate::slim::node);
    let image = json!({ "status": { "images": [{ "names": ["x"] }] } });
    informer.handle(Event::Apply(node_object(with(node("a"), &image))));
    let images = informer.get("a").and_then(|node| node.status.as_ref()?.images.clone());
    assert_eq!(images, None);
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_watched_once_however_many_ask_for_it_and_not_before() {
    let api = ApiServer::default();
    api.put(lb("web"));
    api.put(node("n1"));
    with_informers(api.client(), |informers| {
        let api = api.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(api.request_count(), 0, "nobody has asked");
            let (one, mut changes) = informers.services().subscribe();
            let other = informers.services();
            assert_eq!(changes.next().await.len(), 1);
            assert!(one.is_synced() && other.get("default/web").is_some());
            api.put(lb("more"));
            let news: Vec<Change<Service>> = changes.next().await;
            let new = news[0].new.as_ref().expect("a Service");
            let known = other.get("default/more").expect("the Service");
            assert!(Arc::ptr_eq(new, &known), "all read the same copy");
            assert_eq!(api.request_count(), 2, "a list and a watch: {:?}", api.requests());
            let (_nodes, mut changes) = informers.nodes().subscribe();
            assert_eq!(changes.next().await.len(), 1);
        }
    })
    .await
    .expect("watches");
}

#[tokio::test(start_paused = true)]
async fn the_watch_waits_for_a_subscriber_that_lags_and_not_for_one_that_is_gone() {
    let informer = Informer::<Node>::default();
    let (_handle, mut changes) = informer.subscribe();
    let (_other, mut prompt) = informer.subscribe();
    let has_room = || futures::FutureExt::now_or_never(informer.has_room()).is_some();
    let mut version = 0;
    while has_room() {
        version += 1;
        informer.handle(Event::Apply(node_at(&version.to_string())));
        assert_eq!(prompt.next().await.len(), 1);
        assert!(version < 1_000_000, "it would fill the memory");
    }
    let waits = tokio::spawn({
        let informer = informer.clone();
        async move { informer.has_room().await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!waits.is_finished());
    assert_eq!(changes.next().await.len(), 1);
    waits.await.expect("room");
    informer.handle(Event::Apply(node_at(&(version + 1).to_string())));
    assert!(!has_room());
    drop(changes);
    assert!(has_room());
}

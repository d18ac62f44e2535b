use k8s_openapi::api::core::v1::Node;
use kube::core::ObjectMeta;

use super::*;

fn node(name: &str, uid: &str, version: &str) -> Arc<Node> {
    Arc::new(Node {
        metadata: ObjectMeta {
            name: Some(name.into()),
            uid: Some(uid.into()),
            resource_version: Some(version.into()),
            ..ObjectMeta::default()
        },
        ..Node::default()
    })
}

fn known(cache: &Cache<Node>) -> Vec<(String, u64)> {
    cache.iter().map(|node| (node.name_any(), version(&**node))).collect()
}

#[test]
fn an_older_object_is_no_news() {
    let mut cache = Cache::default();
    assert!(cache.apply(node("n1", "a", "9")).is_some());
    assert!(cache.apply(node("n1", "a", "10")).is_some(), "versions are numbers, not text");
    assert!(cache.apply(node("n1", "a", "9")).is_none());
    assert!(cache.apply(node("n1", "a", "10")).is_none());
    assert_eq!(known(&cache), [("n1".into(), 10)]);
}

#[test]
fn a_late_deletion_does_not_take_away_the_successor_of_that_name() {
    let mut cache = Cache::default();
    cache.apply(node("n1", "b", "20"));
    assert!(cache.delete(&node("n1", "a", "15")).is_none());
    assert!(cache.delete(&node("n1", "b", "21")).is_some());
    assert!(cache.delete(&node("n1", "b", "21")).is_none());
}

#[test]
fn a_late_answer_to_a_write_does_not_bring_back_what_is_deleted() {
    let mut cache = Cache::default();
    cache.apply(node("n1", "a", "10"));
    assert!(cache.delete(&node("n1", "a", "12")).is_some());
    assert!(cache.apply(node("n1", "a", "11")).is_none());
    assert_eq!(known(&cache), []);
    assert!(cache.apply(node("n1", "b", "13")).is_some(), "another object of that name is another object");
}

#[test]
fn a_new_list_says_what_is_gone_and_keeps_what_is_newer() {
    let mut cache = Cache::default();
    assert!(!cache.is_ready());
    cache.apply(node("n1", "a", "9"));
    cache.apply(node("n2", "b", "30"));
    cache.list_begins();
    cache.list_item(node("n2", "b", "20"));
    cache.list_item(node("n3", "c", "5"));
    let news: Vec<_> = cache
        .list_ends()
        .into_iter()
        .map(|news| (news.old.map(|o| o.name_any()), news.new.map(|n| n.name_any())))
        .collect();
    assert_eq!(news, [(Some("n1".into()), None), (None, Some("n3".into()))]);
    assert_eq!(known(&cache), [("n2".into(), 30), ("n3".into(), 5)]);
    assert!(cache.is_ready());
}

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::{Change, Store};
use crate::slim;
use crate::testing::{node, node_object, with};
use crate::watch::Event;

fn store() -> Store<String, Node> {
    Store::new(|metadata| metadata.name.clone().unwrap_or_default(), slim::node)
}

fn versioned(name: &str, version: &str) -> Node {
    node_object(with(node(name), &json!({ "metadata": { "resourceVersion": version } })))
}

fn told(changes: &[Change<Node>]) -> Vec<String> {
    let name = |node: &Node| node.metadata.name.clone().unwrap_or_default();
    changes
        .iter()
        .map(|change| match change {
            Change::Applied { old: None, new } => format!("+{}", name(new)),
            Change::Applied { old: Some(_), new } => format!("~{}", name(new)),
            Change::Deleted(gone) => format!("-{}", name(gone)),
        })
        .collect()
}

#[test]
fn a_new_list_replaces_what_was_known_and_tells_what_is_gone() {
    let mut store = store();
    assert!(!store.is_synced());
    for event in [Event::Init, Event::InitApply(versioned("a", "1")), Event::InitApply(versioned("b", "2"))] {
        assert!(told(&store.apply(event)).is_empty());
    }
    assert!(!store.is_synced(), "half a list is no list");
    assert_eq!(told(&store.apply(Event::InitDone)), ["+a", "+b"]);
    assert!(store.is_synced());
    assert_eq!(told(&store.apply(Event::Apply(versioned("c", "3")))), ["+c"]);
    assert_eq!(told(&store.apply(Event::Apply(versioned("c", "4")))), ["~c"]);
    assert_eq!(told(&store.apply(Event::Delete(versioned("c", "5")))), ["-c"]);
    store.apply(Event::Init);
    store.apply(Event::InitApply(versioned("b", "6")));
    assert!(store.get(&"a".to_owned()).is_some(), "the old list counts until the new one is complete");
    assert_eq!(told(&store.apply(Event::InitDone)), ["~b", "-a"]);
    assert_eq!(store.values().count(), 1);
}

#[test]
fn an_answer_of_ours_is_learnt_only_if_it_is_newer() {
    let mut store = store();
    let key = "a".to_owned();
    let version =
        |store: &Store<String, Node>| store.get(&key).and_then(|n| n.metadata.resource_version.clone());
    assert!(store.learn(versioned("a", "9")).is_none());
    assert_eq!(version(&store), None, "an unknown object is the watch's business");
    store.apply(Event::Apply(versioned("a", "9")));
    assert!(matches!(store.learn(versioned("a", "10")), Some(Change::Applied { old: Some(_), .. })));
    assert_eq!(version(&store).as_deref(), Some("10"));
    assert!(store.learn(versioned("a", "9")).is_none());
    assert!(store.learn(versioned("a", "10")).is_none(), "the watch was faster");
    assert!(store.apply(Event::Apply(versioned("a", "9"))).is_empty(), "the watch lags behind");
    assert_eq!(version(&store).as_deref(), Some("10"));
    assert!(store.learn(versioned("a", "opaque")).is_none());
    assert_eq!(version(&store).as_deref(), Some("10"));
    let other = with(node("a"), &json!({ "metadata": { "resourceVersion": "11", "uid": "another" } }));
    assert!(store.learn(node_object(other.clone())).is_none());
    assert_eq!(version(&store).as_deref(), Some("10"), "another object of that name");
    assert_eq!(told(&store.apply(Event::Apply(node_object(other)))), ["~a"], "which the watch may show");
}

#[test]
fn an_object_of_a_list_that_cannot_be_read_stays_as_it_was_known() {
    let mut store = store();
    for event in [Event::Init, Event::InitApply(versioned("a", "1")), Event::InitDone] {
        store.apply(event);
    }
    let unreadable = |uid: &str| {
        let metadata =
            ObjectMeta { name: Some("a".to_owned()), uid: Some(uid.to_owned()), ..ObjectMeta::default() };
        Event::InitUnreadable(Box::new(metadata))
    };
    store.apply(Event::Init);
    store.apply(unreadable("uid-a"));
    assert_eq!(told(&store.apply(Event::InitDone)), ["~a"]);
    store.apply(Event::Init);
    store.apply(unreadable("another"));
    assert_eq!(
        told(&store.apply(Event::InitDone)),
        ["-a"],
        "another object of that name is not the one known"
    );
}

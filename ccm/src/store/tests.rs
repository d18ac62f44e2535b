use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::*;
use crate::testing::{node, node_object, with};

/// Node `name` with this UID, at this version.
fn made(name: &str, uid: &str, version: &str) -> Arc<Node> {
    let metadata = json!({ "metadata": { "uid": uid, "resourceVersion": version } });
    Arc::new(node_object(with(node(name), &metadata)))
}

fn versioned(name: &str, version: &str) -> Arc<Node> {
    made(name, &format!("uid-{name}"), version)
}

fn told(changes: impl IntoIterator<Item = Change<Node>>) -> Vec<String> {
    let name = |node: &Node| node.metadata.name.clone().unwrap_or_default();
    let word = |Change { old, new }: Change<Node>| match (old, new) {
        (None, Some(new)) => format!("+{}", name(&new)),
        (Some(_), Some(new)) => format!("~{}", name(&new)),
        (Some(gone), None) => format!("-{}", name(&gone)),
        (None, None) => "?".to_owned(),
    };
    changes.into_iter().map(word).collect()
}

fn known(store: &Store<Node>) -> Vec<(String, u64)> {
    store.iter().map(|node| (node.metadata.name.clone().unwrap_or_default(), version(&**node))).collect()
}

fn list(store: &mut Store<Node>, nodes: impl IntoIterator<Item = Arc<Node>>) -> Vec<String> {
    store.handle(Event::Init);
    nodes.into_iter().for_each(|node| drop(store.handle(Event::InitApply(node))));
    told(store.handle(Event::InitDone))
}

#[test]
fn a_new_list_replaces_what_was_known_and_tells_what_is_gone() {
    let mut store = Store::default();
    assert!(!store.is_synced());
    for event in [Event::Init, Event::InitApply(versioned("a", "1")), Event::InitApply(versioned("b", "2"))] {
        assert!(store.handle(event).is_empty());
    }
    assert!(!store.is_synced(), "half a list is no list");
    assert_eq!(told(store.handle(Event::InitDone)), ["+a", "+b"]);
    assert!(store.is_synced());
    assert_eq!(told(store.handle(Event::Apply(versioned("c", "3")))), ["+c"]);
    assert_eq!(told(store.handle(Event::Apply(versioned("c", "4")))), ["~c"]);
    assert_eq!(told(store.handle(Event::Delete(versioned("c", "5")))), ["-c"]);
    store.handle(Event::Init);
    store.handle(Event::InitApply(versioned("b", "6")));
    assert!(store.get("a").is_some(), "the old list counts until the new one is complete");
    assert_eq!(told(store.handle(Event::InitDone)), ["-a", "~b"]);
    assert_eq!(known(&store), [("b".to_owned(), 6)]);
}

#[test]
fn a_list_is_the_truth_also_if_it_goes_back_as_that_of_a_restored_database_does() {
    let mut store = Store::default();
    list(&mut store, [versioned("a", "1"), versioned("b", "30"), versioned("d", "3")]);
    store.handle(Event::Delete(versioned("d", "31")));
    let restored = [versioned("a", "1"), versioned("b", "20"), versioned("d", "3")];
    assert_eq!(list(&mut store, restored), ["~b", "+d"]);
    assert_eq!(known(&store), [("a".to_owned(), 1), ("b".to_owned(), 20), ("d".to_owned(), 3)]);
}

#[test]
fn what_was_learnt_while_a_list_was_under_way_outweighs_it() {
    let mut store = Store::default();
    let listed = || [versioned("a", "1"), versioned("c", "2"), versioned("d", "3")];
    list(&mut store, listed());
    store.handle(Event::Init);
    for node in listed() {
        store.handle(Event::InitApply(node));
    }
    assert_eq!(told(store.learn(versioned("b", "9"))), ["+b"]);
    assert_eq!(told(store.learn(versioned("c", "10"))), ["~c"]);
    assert_eq!(told(store.forget(&versioned("d", "3"))), ["-d"]);
    assert_eq!(told(store.handle(Event::InitDone)), [""; 0]);
    assert_eq!(known(&store), [("a".to_owned(), 1), ("b".to_owned(), 9), ("c".to_owned(), 10)]);
    assert_eq!(list(&mut store, [versioned("a", "1")]), ["-b", "-c"], "the next list knows");
}

#[test]
fn an_older_object_is_no_news() {
    let mut store = Store::default();
    assert_eq!(told(store.handle(Event::Apply(versioned("a", "9")))), ["+a"]);
    assert_eq!(told(store.handle(Event::Apply(versioned("a", "10")))), ["~a"], "versions are numbers");
    assert!(store.handle(Event::Apply(versioned("a", "9"))).is_empty());
    assert!(store.handle(Event::Apply(versioned("a", "10"))).is_empty());
    assert_eq!(known(&store), [("a".to_owned(), 10)]);
}

#[test]
fn a_list_with_other_fields_of_the_same_version_as_after_a_change_of_the_definition_is_a_change() {
    let mut store = Store::default();
    let shown = |label: &str| {
        let metadata = json!({ "metadata": { "uid": "a", "resourceVersion": "5", "labels": { label: "" } } });
        Arc::new(node_object(with(node("n"), &metadata)))
    };
    assert_eq!(list(&mut store, [shown("before")]), ["+n"]);
    assert_eq!(list(&mut store, [shown("before")]), [""; 0]);
    assert_eq!(list(&mut store, [shown("after")]), ["~n"]);
    assert_eq!(store.get("n"), Some(&shown("after")));
}

#[test]
fn an_answer_of_ours_is_learnt_only_if_it_is_newer() {
    let mut store = Store::default();
    assert_eq!(told(store.learn(versioned("a", "9"))), ["+a"], "it may be faster than the watch");
    assert_eq!(told(store.learn(versioned("a", "10"))), ["~a"]);
    for old in ["9", "10", "opaque"] {
        assert_eq!(told(store.learn(versioned("a", old))), [""; 0], "{old}");
    }
    assert_eq!(known(&store), [("a".to_owned(), 10)]);
    assert_eq!(told(store.handle(Event::Apply(versioned("a", "opaque")))), ["~a"], "the watch decides");
}

#[test]
fn a_late_answer_does_not_bring_back_what_is_gone() {
    let mut store = Store::default();
    store.handle(Event::Apply(made("n", "a", "10")));
    assert_eq!(told(store.handle(Event::Delete(made("n", "a", "12")))), ["-n"]);
    assert_eq!(told(store.learn(made("n", "a", "11"))), [""; 0]);
    assert_eq!(
        told(store.learn(made("n", "b", "13"))),
        ["+n"],
        "another object of that name is another object"
    );
}

#[test]
fn a_late_deletion_does_not_take_away_the_successor_of_that_name() {
    let mut store = Store::default();
    store.handle(Event::Apply(made("n", "b", "20")));
    assert_eq!(told(store.forget(&made("n", "a", "15"))), [""; 0]);
    assert_eq!(told(store.forget(&made("n", "b", "21"))), ["-n"]);
    assert_eq!(told(store.forget(&made("n", "b", "21"))), [""; 0]);
}

#[test]
fn the_answer_that_ends_an_object_is_news_at_the_same_version_once() {
    let going = |finalizers: &[&str]| {
        let metadata = json!({ "metadata": {
            "resourceVersion": "7", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers,
        } });
        Arc::new(node_object(with(node("a"), &metadata)))
    };
    let mut store = Store::default();
    store.handle(Event::Apply(going(&["example.com/hold"])));
    assert_eq!(told(store.learn(going(&[]))), ["~a"]);
    assert_eq!(told(store.learn(going(&[]))), [""; 0]);
    assert!(store.handle(Event::Apply(going(&["example.com/hold"]))).is_empty(), "the watch lags behind");
}

#[test]
fn an_object_of_a_list_that_cannot_be_read_stays_as_it_was_known() {
    let mut store = Store::default();
    list(&mut store, [versioned("a", "1")]);
    let unreadable = |uid: &str| {
        let metadata =
            ObjectMeta { name: Some("a".to_owned()), uid: Some(uid.to_owned()), ..ObjectMeta::default() };
        Event::InitUnreadable(Box::new(metadata))
    };
    for (uid, gone) in [("uid-a", &[][..]), ("another", &["-a"])] {
        store.handle(Event::Init);
        store.handle(unreadable(uid));
        assert_eq!(told(store.handle(Event::InitDone)), gone, "{uid}");
    }
}

#[test]
fn the_revision_is_another_one_after_every_change_and_only_then() {
    let mut store = Store::default();
    let mut last = store.revision();
    let mut moved = |store: &Store<Node>| std::mem::replace(&mut last, store.revision()) != store.revision();
    store.handle(Event::Apply(versioned("a", "1")));
    assert!(moved(&store));
    store.handle(Event::Apply(versioned("a", "1")));
    assert!(!moved(&store));
    store.learn(versioned("a", "2"));
    assert!(moved(&store));
    store.forget(&versioned("a", "2"));
    assert!(moved(&store));
}

mod informers;

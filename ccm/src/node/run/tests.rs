use serde_json::{Value, json};

use super::*;
use crate::provider::ProviderError;
use crate::testing::{node, node_object, with};
use crate::watch::Event;

const N1: &str = "n1";

fn event(state: &mut NodeControllerState, event: Event<Node>) {
    let changes = state.nodes.handle(event);
    state.changed(&changes);
}

fn n1(uid: &str, uninitialized: bool) -> Node {
    let taint = json!({ "key": super::super::TAINT_UNINITIALIZED, "effect": "NoSchedule" });
    let taints: Vec<Value> = uninitialized.then_some(taint).into_iter().collect();
    node_object(with(node(N1), &json!({ "metadata": { "uid": uid }, "spec": { "taints": taints } })))
}

/// A state that has seen this node and no other, and works on it.
fn working_on(node: &Node, now: Instant) -> NodeControllerState {
    let mut state =
        NodeControllerState::new(Informer::default(), Metrics::unregistered("lease").queues.of("Nodes"));
    for shown in [Event::Init, Event::InitApply(node.clone()), Event::InitDone] {
        event(&mut state, shown);
    }
    assert!(state.next(now).is_some());
    state
}

fn failed(words: &str) -> Result<SyncedNode, SyncError> {
    Err(SyncError::Provider(ProviderError::Transient(words.to_owned())))
}

const IN_ORDER: Result<SyncedNode, SyncError> =
    Ok(SyncedNode { outcome: SyncOutcome::UpToDate, latest: None, node_ip_refused: None });

#[test]
fn a_failure_is_news_until_it_is_told_and_again_for_a_node_that_was_made_again() {
    let now = Instant::now();
    let (one, other) = (n1("a", false), n1("b", false));
    let mut state = working_on(&one, now);
    let last_failures = |state: &mut NodeControllerState, node: &Node, words: &str| {
        !state.finish(&N1.to_owned(), node, failed(words), now).is_empty()
    };
    assert!(last_failures(&mut state, &one, "x"));
    assert!(!last_failures(&mut state, &one, "x"), "told before");
    assert!(last_failures(&mut state, &one, "y"));
    event(&mut state, Event::Apply(other.clone()));
    assert!(last_failures(&mut state, &other, "y"), "of another node");
    assert!(!last_failures(&mut state, &one, "z"), "of one that is gone");
    event(&mut state, Event::Delete(other));
    let third = n1("c", false);
    event(&mut state, Event::Apply(third.clone()));
    assert!(last_failures(&mut state, &third, "y"), "of one that was made after it was gone for a while");
}

#[test]
fn a_node_that_is_gone_is_not_tried_again() {
    let now = Instant::now();
    let node = n1("a", false);
    let mut state = working_on(&node, now);
    event(&mut state, Event::Delete(node.clone()));
    let refused =
        SyncedNode { outcome: SyncOutcome::UpToDate, latest: None, node_ip_refused: Some("x".to_owned()) };
    assert_eq!(state.finish(&N1.to_owned(), &node, Ok(refused), now), []);
    assert_eq!(state.finish(&N1.to_owned(), &node, failed("x"), now), []);
    assert_eq!(state.queue.next_due(true), None);
    assert!(state.last_failures.is_empty() && state.refused.is_empty());
}

#[test]
fn the_delay_starts_over_after_a_success() {
    let now = Instant::now();
    let node = n1("a", false);
    let mut state = working_on(&node, now);
    let mut delay = |outcome| {
        state.finish(&N1.to_owned(), &node, outcome, now);
        let due = state.queue.next_due(true);
        assert!(due.is_none_or(|due| state.next(due).is_some()));
        due.map(|due| (due - now).as_millis())
    };
    assert_eq!(
        [failed("x"), failed("x"), IN_ORDER, failed("x")].map(&mut delay),
        [Some(100), Some(200), None, Some(100)]
    );
}

#[test]
fn an_initialization_whose_answer_was_lost_is_told_when_it_is_seen() {
    let lost = || Err(SyncError::Write(crate::apiserver::CallError::Timeout(Duration::ZERO)));
    let table = [
        ("the answer was lost", true, vec![lost()], vec![Notice::Initialized]),
        ("and then something else failed", true, vec![lost(), failed("x")], vec![Notice::Initialized]),
        ("nothing was written", true, vec![failed("x")], vec![]),
        ("there was nothing to initialize", false, vec![lost()], vec![]),
    ];
    for (what, uninitialized, failures, expected) in table {
        let now = Instant::now();
        let node = n1("a", uninitialized);
        let mut state = working_on(&node, now);
        for failure in failures {
            state.finish(&N1.to_owned(), &node, failure, now);
        }
        assert_eq!(state.finish(&N1.to_owned(), &node, IN_ORDER, now), expected, "{what}");
    }
}

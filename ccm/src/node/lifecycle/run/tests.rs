use serde_json::json;

use super::*;
use crate::apiserver::CallError;
use crate::provider::ProviderError;
use crate::testing::{node, node_object, with};
use crate::watch::Event;

const N1: &str = "n1";

fn event(state: &mut LifecycleControllerState, event: Event<Node>) {
    let changes = state.nodes.handle(event);
    state.changed(&changes);
}

/// A node that is not ready; a later one than those whose UID comes before.
fn n1(uid: &str) -> Node {
    let version: u32 = uid.bytes().map(u32::from).sum();
    let metadata = json!({ "uid": uid, "resourceVersion": version.to_string() });
    let change = json!({ "metadata": metadata, "status": { "conditions": [] } });
    node_object(with(node(N1), &change))
}

/// A state that has seen this node and no other.
fn knowing(node: &Node) -> LifecycleControllerState {
    let mut state = LifecycleControllerState::new(
        Informer::default(),
        Metrics::unregistered("lease").queues.of("node-lifecycle"),
    );
    for shown in [Event::Init, Event::InitApply(node.clone()), Event::InitDone] {
        event(&mut state, shown);
    }
    state
}

/// Looks, works on what is due, and takes in how it went.
fn turn(state: &mut LifecycleControllerState, outcome: LifecycleOutcome, now: Instant) -> Option<String> {
    state.check_nodes();
    let (name, node) = state.next(now).expect("a node to look at");
    state.finish(&name, &node, outcome, now)
}

fn refused() -> LifecycleOutcome {
    LifecycleOutcome::DeleteFailed(CallError::Timeout(Duration::ZERO))
}

/// Whether there is something to do at `now`, after a look.
fn is_due(state: &mut LifecycleControllerState, now: Instant) -> bool {
    state.check_nodes();
    state.next(now).is_some()
}

#[test]
fn a_node_that_was_deleted_is_let_be_until_the_watch_had_time_to_show_it() {
    for outcome in [LifecycleOutcome::Deleted, LifecycleOutcome::Gone] {
        let (mut state, now) = (knowing(&n1("a")), Instant::now());
        assert_eq!(turn(&mut state, outcome, now), None);
        assert!(!is_due(&mut state, now + UNSEEN / 2));
        assert!(is_due(&mut state, now + UNSEEN));
    }
}

#[test]
fn a_node_that_was_made_again_does_not_wait_for_the_one_before() {
    let (mut state, now) = (knowing(&n1("a")), Instant::now());
    assert!(turn(&mut state, refused(), now).is_some());
    assert!(!is_due(&mut state, now));
    event(&mut state, Event::Apply(n1("b")));
    assert!(is_due(&mut state, now));
    // What became of the one before is nothing to it.
    let name = N1.to_owned();
    assert_eq!(state.finish(&name, &Arc::new(n1("a")), refused(), now), None);
    assert!(is_due(&mut state, now));
}

#[test]
fn the_same_trouble_is_told_once() {
    let (mut state, now) = (knowing(&n1("a")), Instant::now());
    let unknown = |words: &str| LifecycleOutcome::Unknown(ProviderError::Transient(words.to_owned()));
    let told = ["x", "x", "y"].map(|words| turn(&mut state, unknown(words), now).is_some());
    assert_eq!(told, [true, false, true]);
    assert_eq!(turn(&mut state, LifecycleOutcome::Kept, now), None);
    assert!(turn(&mut state, unknown("y"), now).is_some(), "it was well in between");
}

#[test]
fn what_was_written_is_known_before_the_watch_shows_it() {
    let (mut state, now) = (knowing(&n1("a")), Instant::now());
    let change = json!({ "metadata": { "uid": "a", "resourceVersion": "1000" } });
    let ready = node_object(with(node(N1), &change));
    assert_eq!(turn(&mut state, LifecycleOutcome::Written(Box::new(ready)), now), None);
    assert!(!is_due(&mut state, now), "it is ready");
}

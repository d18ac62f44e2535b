use serde_json::{Value, json};

use super::*;

const CONFIG: &str = "apiVersion: windlass.dev/v1alpha1\nkind: CloudConfig\n\
                      nodeLifecycle: {deleteNodes: [n1], deleteAfter: 10m, shutdownNodes: [n2]}\n";

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + minute * 60).expect("a time")
}

fn node(name: &str, uid: &str, ready: Option<(&str, i64)>) -> Node {
    let conditions: Vec<Value> = ready
        .iter()
        .map(|(status, since)| {
            json!({ "type": "Ready", "status": status, "lastTransitionTime": at(*since).to_string() })
        })
        .collect();
    let node = json!({ "metadata": { "name": name, "uid": uid }, "status": { "conditions": conditions } });
    serde_json::from_value(node).expect("a Node")
}

struct Watch {
    inventory: MachineInventory,
    begin: Instant,
}

impl Watch {
    fn new() -> Self {
        let inventory = MachineInventory::default();
        inventory.set(Arc::new(CloudConfig::read(CONFIG).expect("good")));
        Self { inventory, begin: Instant::now() }
    }

    /// Asks at this minute of the wall clock and of our own.
    fn base_request(&self, node: &Node, wall: i64, own: u64) -> bool {
        self.inventory.is_gone(node, at(wall), self.begin + Duration::from_mins(own))
    }
}

#[test]
fn a_listed_node_is_gone_when_both_clocks_say_that_it_was_not_ready_for_long() {
    let watch = Watch::new();
    let lost = node("n1", "a", Some(("Unknown", 0)));
    assert!(!watch.base_request(&lost, 600, 0), "it may have been so for hours, but we saw it only now");
    assert!(!watch.base_request(&lost, 609, 9));
    assert!(watch.base_request(&lost, 610, 10));
    let ahead = node("n1", "a", Some(("Unknown", 700)));
    assert!(!watch.base_request(&ahead, 610, 20));
    assert!(!watch.base_request(&ahead, 620, 60), "by a clock that is ahead it has just begun");
}

#[test]
fn a_node_that_was_ready_in_between_or_made_again_counts_from_the_beginning() {
    let watch = Watch::new();
    assert!(!watch.base_request(&node("n1", "a", Some(("False", 0))), 0, 0));
    assert!(!watch.base_request(&node("n1", "a", Some(("True", 5))), 5, 5));
    assert!(!watch.base_request(&node("n1", "a", Some(("False", 6))), 15, 15));
    assert!(!watch.base_request(&node("n1", "a", Some(("False", 6))), 24, 24));
    assert!(watch.base_request(&node("n1", "a", Some(("False", 6))), 25, 25));
    // We did not see that it was ready, only that it is not ready since another time.
    assert!(!watch.base_request(&node("n1", "a", Some(("False", 12))), 30, 30));
    assert!(!watch.base_request(&node("n1", "b", Some(("False", 12))), 41, 41), "another Node of the name");
    assert!(watch.base_request(&node("n1", "b", Some(("False", 12))), 51, 51));
}

#[test]
fn what_is_not_certain_is_not_gone() {
    let watch = Watch::new();
    let rows = [
        ("not listed", node("n3", "a", Some(("Unknown", 0)))),
        ("ready", node("n1", "a", Some(("True", 0)))),
        ("no condition", node("n1", "a", None)),
    ];
    for (what, node) in rows {
        assert!(!watch.base_request(&node, 0, 0) && !watch.base_request(&node, 6000, 6000), "{what}");
    }
    let lost = node("n1", "a", Some(("Unknown", 0)));
    assert!(!watch.base_request(&lost, 0, 0) && watch.base_request(&lost, 10, 10));
    watch.inventory.set(Arc::default());
    assert!(!watch.base_request(&lost, 20, 20), "the list is empty");
    watch.inventory.set(Arc::new(CloudConfig::read(CONFIG).expect("good")));
    assert!(!watch.base_request(&lost, 21, 21), "listed again, it is observed again");
}

#[test]
fn shut_down_is_who_is_listed() {
    let watch = Watch::new();
    assert!(watch.inventory.is_shut_down(&node("n2", "a", None)));
    assert!(!watch.inventory.is_shut_down(&node("n1", "a", None)));
}

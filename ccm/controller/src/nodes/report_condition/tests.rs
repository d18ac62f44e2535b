use serde_json::json;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("a time")
}

fn node(conditions: Vec<NodeCondition>) -> Node {
    let mut node: Node =
        serde_json::from_value(json!({ "metadata": { "name": "n1" }, "status": {} })).expect("a Node");
    node.status.get_or_insert_default().conditions = Some(conditions);
    node
}

fn written(due: Due) -> NodeCondition {
    match due {
        Due::Write(condition) => *condition,
        Due::Nothing | Due::After(_) => panic!("{due:?}"),
    }
}

#[test]
fn a_doubt_is_told_at_once_and_stays_until_nothing_is_doubted_any_more() {
    let ready = NodeCondition { type_: "Ready".into(), status: "True".into(), ..NodeCondition::default() };
    assert_eq!(due(&node(vec![ready.clone()]), None, at(0)), Due::Nothing, "nothing was ever doubted");
    let one: BTreeSet<Doubt> = [Doubt::Duplicates { ignored: 3 }].into();
    let told = written(due(&node(vec![ready.clone()]), Some(&one), at(0)));
    assert_eq!((&*told.status, told.reason.as_deref()), ("False", Some("ReportDoubted")));
    assert!(
        told.message.as_ref().is_some_and(|message| message.contains("and Windlass ignores 3 of them")),
        "{told:?}"
    );
    assert_eq!(
        (told.last_transition_time.clone(), told.last_heartbeat_time.clone()),
        (Some(Time(at(0))), Some(Time(at(0))))
    );
    let known = node(vec![ready, told]);
    assert_eq!(due(&known, Some(&one), at(10_000)), Due::Nothing, "it says so");
    let believed = written(due(&known, None, at(600)));
    assert_eq!((&*believed.status, believed.last_transition_time), ("True", Some(Time(at(600)))));
}

// shows: threats T-13
#[test]
fn whatever_a_node_reports_its_condition_is_written_every_ten_minutes_at_most() {
    let number = |ignored| -> BTreeSet<Doubt> { [Doubt::Duplicates { ignored }].into() };
    let known = written(due(&node(Vec::new()), Some(&number(1)), at(0)));
    for (second, rest) in [(0, 600), (1, 599), (599, 1)] {
        let rest = Due::After(Duration::from_secs(rest));
        assert_eq!(due(&node(vec![known.clone()]), Some(&number(2)), at(second)), rest, "another doubt");
        assert_eq!(due(&node(vec![known.clone()]), None, at(second)), rest, "none");
    }
    let next = written(due(&node(vec![known.clone()]), Some(&number(2)), at(600)));
    assert_eq!(
        (next.last_transition_time, next.last_heartbeat_time),
        (Some(Time(at(0))), Some(Time(at(600))))
    );
    // Somebody else's clock, or hand.
    let ahead = NodeCondition { last_heartbeat_time: Some(Time(at(5_000))), ..known };
    assert_eq!(written(due(&node(vec![ahead]), None, at(100))).status, "True");
}

use serde_json::json;

use super::*;

#[test]
fn a_node_waits_for_its_pod_network_while_the_condition_says_so_and_for_a_while_after_a_boot() {
    let node = |status: &str, reason: &str, written: &str| -> Node {
        let condition =
            json!({ "type": CONDITION, "status": status, "reason": reason, "lastHeartbeatTime": written });
        let ready = json!({ "type": "Ready", "status": "True" });
        serde_json::from_value(json!({ "status": { "conditions": [ready, condition] } })).expect("a Node")
    };
    let at: Timestamp = "2026-11-28T12:00:00Z".parse().expect("a time");
    let boot = |minutes| Some(Boot { at, ago: Duration::from_mins(minutes) });
    let (before, after) = ("2026-11-28T11:59:59Z", "2026-11-28T12:00:30Z");
    let rows = [
        ("no condition", Node::default(), boot(1), false),
        ("not available", node("True", "NodeInitialization", after), None, true),
        ("not available, long after the boot", node("True", "CalicoIsDown", before), boot(90), true),
        ("available", node("False", "FlannelIsUp", after), boot(1), false),
        ("flannel's word from before the boot", node("False", "FlannelIsUp", before), boot(1), true),
        ("Calico's", node("False", "CalicoIsUp", before), boot(4), true),
        ("waited for long enough", node("False", "CalicoIsUp", before), boot(5), false),
        ("a plugin that writes it once", node("False", "CiliumIsUp", before), boot(1), false),
        ("the boot's time is not known", node("False", "FlannelIsUp", before), None, false),
    ];
    for (what, node, boot, fails) in rows {
        assert_eq!(matches!(finding(&node, boot), Finding::Failed(_)), fails, "{what}");
    }
}

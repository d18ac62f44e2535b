use serde_json::json;

use super::*;

// shows: placement P-18
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

// shows: field-reports F-71; placement P-18
#[test]
fn a_node_waits_for_its_pod_network_while_the_kubelet_or_a_taint_says_that_there_is_none() {
    const NO_PLUGIN: &str = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady \
                             message:Network plugin returns error: cni plugin not initialized";
    let at: Timestamp = "2026-11-28T12:00:00Z".parse().expect("a time");
    let boot = |minutes| Some(Boot { at, ago: Duration::from_mins(minutes) });
    let (before, after) = ("2026-11-28T11:59:59Z", "2026-11-28T12:00:30Z");
    let ready = |status: &str, message: &str, written: &str| -> Node {
        let ready = json!({ "type": READY, "status": status, "reason": "KubeletNotReady", "message": message,
                            "lastHeartbeatTime": written });
        serde_json::from_value(json!({ "status": { "conditions": [ready] } })).expect("a Node")
    };
    let tainted = |key: &str| -> Node {
        let taint = json!({ "key": key, "effect": "NoExecute" });
        serde_json::from_value(json!({ "spec": { "taints": [taint] } })).expect("a Node")
    };
    let both = |mut node: Node| {
        let available = json!({ "type": CONDITION, "status": "False", "reason": "CiliumIsUp" });
        let available = serde_json::from_value(available).expect("a condition");
        node.status.get_or_insert_default().conditions.get_or_insert_default().push(available);
        node
    };
    let rows = vec![
        ("ready", ready("True", "kubelet is posting ready status", after), boot(1), None),
        (
            "no plugin",
            ready("False", NO_PLUGIN, after),
            boot(1),
            Some("the kubelet says that the CNI plugin"),
        ),
        (
            "no plugin, long after the boot",
            ready("False", NO_PLUGIN, after),
            boot(90),
            Some("the kubelet says"),
        ),
        (
            "no plugin, beside an old word",
            both(ready("False", NO_PLUGIN, after)),
            boot(1),
            Some("the kubelet says"),
        ),
        ("not ready for another reason", ready("False", "PLEG is not healthy", after), boot(1), None),
        (
            "the controller's word of a lost node",
            ready("Unknown", "Kubelet stopped posting", after),
            boot(90),
            None,
        ),
        (
            "ready before the boot",
            ready("True", "", before),
            boot(1),
            Some("the kubelet has not reported since"),
        ),
        (
            "lost before the boot",
            ready("Unknown", "", before),
            boot(4),
            Some("the kubelet has not reported since"),
        ),
        ("waited for long enough", ready("True", "", before), boot(5), None),
        ("the boot's time is not known", ready("True", "", before), None, None),
        (
            "Cilium's taint",
            tainted("node.cilium.io/agent-not-ready"),
            None,
            Some("the Node has the taint node.cilium.io"),
        ),
        ("another taint", tainted("node.kubernetes.io/not-ready"), boot(1), None),
    ];
    for (what, node, boot, expected) in rows {
        let found = match finding(&node, boot) {
            Finding::Failed(why) => Some(why),
            Finding::Passed | Finding::Silent(_) => None,
        };
        assert_eq!(found.is_some(), expected.is_some(), "{what}: {found:?}");
        assert!(found.is_none_or(|why| why.starts_with(expected.unwrap_or_default())), "{what}");
    }
}

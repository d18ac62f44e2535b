//! Dual-stack Services through the whole controller: both addresses on one node, whether the planner places them or they name their
//! virtual router as they are made.

use serde_json::{Value, json};

use super::rig::{Rig, pool, text};

/// The first node for the `VirtualIP`.
fn first(rig: &Rig, vip: &Value) -> String {
    let key = format!("virtualrouters//{}", text(&vip["spec"]["virtualRouter"]));
    let router = rig.api.get(&key).unwrap_or_default();
    text(&router["spec"]["nodes"][0]["name"])
}

#[tokio::test(start_paused = true)]
async fn both_addresses_of_a_dual_stack_service_are_on_one_node() {
    let mut rig = Rig::new(&[pool("p", &["192.0.2.16/28", "2001:db8::100-2001:db8::1ff"], &json!({}))]);
    let controller = rig.controller();
    let dual = json!({ "spec": { "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack",
                                 "clusterIPs": ["10.0.0.1", "fd00::1"] } });
    for number in 0..12 {
        rig.create(&format!("s{number}"), &dual);
        // Six at once, which the planner places, and then one by one.
        if number >= 5 {
            rig.settle().await;
        }
    }
    let vips = rig.api.list("virtualips");
    assert_eq!(vips.len(), 24);
    for number in 0..12 {
        let service = format!("s{number}");
        let owned = vips.iter().filter(|vip| text(&vip["spec"]["owners"][0]["name"]) == service);
        let nodes: Vec<_> = owned.map(|vip| first(&rig, vip)).collect();
        assert!(nodes.len() == 2 && nodes[0] == nodes[1], "{service}: {nodes:?}");
    }
    controller.kill().await;
}

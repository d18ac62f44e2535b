//! Virtual routers in whose place others come, through the whole controller, while some of the writes come to nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::rig::{Rig, custom, pool, text};

/// Services, each with one address: half as many again as there are virtual routers.
const SERVICES: usize = 9;

/// The virtual router of each `VirtualIP`, and the nodes of that, in order.
fn carriers(rig: &Rig) -> BTreeMap<String, (String, Vec<String>)> {
    let nodes = |router: &Value| -> Vec<String> {
        let nodes = router["spec"]["nodes"].as_array().cloned().unwrap_or_default();
        nodes.iter().map(|node| text(&node["name"])).collect()
    };
    let carrier = |vip: &Value| {
        let router = text(&vip["spec"]["virtualRouter"]);
        let nodes = nodes(&rig.api.get(&format!("virtualrouters//{router}")).expect("its virtual router"));
        (text(&vip["metadata"]["name"]), (router, nodes))
    };
    rig.api.list("virtualips").iter().map(carrier).collect()
}

#[tokio::test(start_paused = true)]
async fn addresses_go_on_at_their_nodes_as_many_virtual_routers_as_before_whichever_write_fails() {
    for (verb, path) in [("create", "virtualrouters"), ("patch", "virtualips"), ("delete", "virtualrouters")]
    {
        for (code, times) in [(409, 1), (409, 4), (500, 1), (500, 4)] {
            let what = format!("{verb} {path} fails {times} times with {code}");
            let mut rig = Rig::new(&[pool("p", &["192.0.2.16/28"], &json!({}))]);
            rig.api.put(custom("Announcement", "a", &json!({})));
            for number in 0..SERVICES {
                rig.create(&format!("s{number}"), &json!({}));
            }
            let controller = rig.controller();
            rig.settle().await;
            let before = carriers(&rig);
            let astray = Arc::<Mutex<BTreeSet<String>>>::default();
            let (api, seen) = (rig.api.clone(), Arc::clone(&astray));
            let observer = tokio::spawn(async move {
                loop {
                    for vip in api.list("virtualips") {
                        let router = text(&vip["spec"]["virtualRouter"]);
                        if api.get(&format!("virtualrouters//{router}")).is_none() {
                            seen.lock().expect("no panic").insert(text(&vip["metadata"]["name"]));
                        }
                    }
                    api.changed().await;
                }
            });
            (0..times).for_each(|_| rig.api.fail(verb, path, code));
            rig.api.edit("announcements//a", &json!({ "spec": { "vrrp": { "transport": "Unicast" } } }));
            rig.settle().await;
            observer.abort();
            let astray = std::mem::take(&mut *astray.lock().expect("no panic"));
            assert_eq!(astray, BTreeSet::new(), "{what}: they named virtual routers that were not there");
            let after = carriers(&rig);
            let mut places: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
            for (vip, (router, nodes)) in &after {
                let (old, were) = &before[vip];
                assert!(
                    router != old && nodes == were,
                    "{what}: {vip} was in {old} at {were:?}: {router} at {nodes:?}"
                );
                places.entry(old).or_default().insert(router);
            }
            assert!(places.values().all(|new| new.len() == 1), "{what}: {places:?}");
            let routers: BTreeSet<_> = places.into_values().flatten().collect();
            assert_eq!((routers.len(), rig.api.list("virtualrouters").len()), (6, 6), "{what}");
            controller.kill().await;
        }
    }
}

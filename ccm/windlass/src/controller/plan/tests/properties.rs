//! What holds after any history of nodes, networks and VIPs.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Vip(u8),
    RemoveVip(u8),
    Node { number: u8, healthy: bool },
    RemoveNode(u8),
    Network { number: u8, subnet: u8 },
    Stranger { number: u8, vrid: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (100..140u8).prop_map(Step::Vip),
        3 => (100..140u8).prop_map(Step::RemoveVip),
        2 => (1..7u8, any::<bool>()).prop_map(|(number, healthy)| Step::Node { number, healthy }),
        1 => (1..7u8).prop_map(Step::RemoveNode),
        3 => (1..7u8, 0..2u8).prop_map(|(number, subnet)| Step::Network { number, subnet }),
        1 => (1..7u8, 62..68u8).prop_map(|(number, vrid)| Step::Stranger { number, vrid }),
    ]
}

fn take(cluster: &mut Cluster, step: &Step) {
    let subnet = |subnet: u8, number: u8| format!("192.0.{}.{number}/24", 2 + subnet);
    match *step {
        Step::Vip(last) => {
            let address = format!("192.0.2.{last}");
            cluster.remove_vip(&address);
            cluster.vip(&address);
        }
        Step::RemoveVip(last) => cluster.remove_vip(&format!("192.0.2.{last}")),
        Step::Node { number, healthy } => cluster.node(&format!("n{number}"), healthy),
        Step::RemoveNode(number) => drop(cluster.input.nodes.remove(&format!("n{number}"))),
        Step::Network { number, subnet: at } => {
            cluster.network(&format!("n{number}"), "eth0", &[&subnet(at, number)]);
        }
        Step::Stranger { number, vrid } => {
            let address = subnet(0, number);
            cluster.networks(&format!("n{number}"), &[("eth0", &[&address])], &[("eth0", vrid)]);
        }
    }
}

proptest! {
    #[test]
    fn every_plan_is_sound_and_sticky(steps in prop::collection::vec(step(), 1..60)) {
        let mut cluster = Cluster::of(3);
        let mut before = cluster.plan();
        for step in steps {
            take(&mut cluster, &step);
            // `plan` itself checks that planning again changes nothing.
            let after = cluster.plan();
            for vip in &cluster.input.vips {
                let name = vip.name_any();
                prop_assert!(after.carriers.contains_key(&name) != after.unplaced.contains_key(&name), "{}", name);
            }
            let mut vrids = BTreeSet::new();
            for (name, router) in &after.routers {
                prop_assert!(after.carriers.values().any(|carrier| carrier == name), "{} carries nothing", name);
                prop_assert!(vrids.insert((router.segment.clone(), router.vrid)), "{} twice", name);
                prop_assert!(!router.nodes.is_empty());
                let mut priorities: Vec<_> = router.nodes.iter().map(|node| node.priority).collect();
                priorities.sort_unstable();
                priorities.dedup();
                prop_assert_eq!(priorities.len(), router.nodes.len(), "two nodes of one priority");
                prop_assert!(priorities.iter().all(|priority| (1..=254).contains(priority)));
                let worst = |healthy| {
                    let of_kind = router.nodes.iter().filter(|n| cluster.input.nodes.get(&n.name) == Some(&healthy));
                    (of_kind.clone().map(|n| n.priority).min(), of_kind.map(|n| n.priority).max())
                };
                if let ((Some(least_healthy), _), (_, Some(best_other))) = (worst(true), worst(false)) {
                    prop_assert!(least_healthy > best_other, "a drained node before a healthy one");
                }
                // Survivors keep their order.
                if let Some(old) = before.routers.get(name) {
                    let kept: Vec<_> =
                        router.nodes.iter().filter(|n| old.nodes.iter().any(|o| o.name == n.name)).collect();
                    let order: Vec<_> = old
                        .nodes
                        .iter()
                        .filter(|o| router.nodes.iter().any(|n| n.name == o.name))
                        .collect();
                    prop_assert!(kept.iter().zip(&order).all(|(n, o)| n.name == o.name), "order changed");
                }
            }
            for carrier in after.carriers.values() {
                prop_assert!(after.routers.contains_key(carrier));
            }
            before = after;
        }
    }
}

//! Rankings that a hand has edited.

use super::*;

const VIP: &str = "192.0.2.100";
const NODES: [&str; 3] = ["n1", "n2", "n3"];

impl Cluster {
    /// A hand has a router name these nodes only, which there are not.
    fn name_strangers(&mut self, router: &str, names: &[&str]) {
        for one in self.input.routers.iter_mut().filter(|one| one.name_any() == router) {
            let nodes = &mut Arc::make_mut(one).spec.nodes;
            let first = nodes.first().expect("a node").clone();
            *nodes =
                names.iter().map(|name| RankedNode { name: (*name).to_owned(), ..first.clone() }).collect();
        }
    }
}

#[test]
fn a_list_that_a_hand_replaced_is_made_anew_with_the_active_node_first() {
    for policy in [ExternalTrafficPolicy::Cluster, ExternalTrafficPolicy::Local] {
        for active in NODES {
            let mut cluster = Cluster::of(3);
            cluster.vip(VIP);
            if policy == ExternalTrafficPolicy::Local {
                cluster.endpoints(VIP, &NODES.map(|node| (node, EndpointState::Ready)));
            }
            let router = cluster.router(VIP).expect("a router");
            cluster.active.insert(router.clone(), active.to_owned());
            cluster.name_strangers(&router, &["nobody", "no-such-node"]);
            let plan = cluster.plan();
            assert_eq!(preferred(&plan, VIP), active, "{policy:?}");
            assert_eq!(ranking(&plan, &router).len(), 3, "{policy:?}: {:?}", ranking(&plan, &router));
        }
    }
}

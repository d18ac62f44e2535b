//! Nodes that say of themselves that something fails there.

use super::*;

const KUBE_PROXY: &str = "kube-proxy: it is not well";
const OF_A_SERVICE: &str = "the health check on node port 30000: 503";

impl Cluster {
    /// What the node's agent says from now on.
    pub(super) fn fails(&mut self, node: &str, sentences: &[&str]) {
        let network = self.networks.iter_mut().find(|network| network.name_any() == node).expect(node);
        Arc::make_mut(network).spec.failed_checks = sentences.iter().map(|&said| said.to_owned()).collect();
    }

    /// In how many routers each node is preferred.
    fn firsts(&mut self) -> BTreeMap<String, usize> {
        let mut firsts = BTreeMap::new();
        for router in self.plan().routers.values() {
            *firsts.entry(ranking::preferred(router).expect("a node").to_owned()).or_default() += 1;
        }
        firsts
    }
}

fn counts(of: &[(&str, usize)]) -> BTreeMap<String, usize> {
    of.iter().map(|(node, count)| ((*node).to_owned(), *count)).collect()
}

#[test]
fn a_node_on_which_something_fails_is_first_in_no_new_router() {
    type Preferences<'a> = &'a [(&'a str, usize)];
    let rows: [(&[&str], Preferences<'_>); 4] = [
        (&[], &[("n1", 2), ("n2", 2), ("n3", 2)]),
        (&[KUBE_PROXY], &[("n2", 3), ("n3", 3)]),
        (&["something else"], &[("n2", 3), ("n3", 3)]),
        // Each node without a pod says so.
        (&[OF_A_SERVICE], &[("n1", 2), ("n2", 2), ("n3", 2)]),
    ];
    for (sentences, expected) in rows {
        let mut cluster = Cluster::of(3);
        cluster.fails("n1", sentences);
        for last in 100..112 {
            cluster.vip(&format!("192.0.2.{last}"));
            cluster.plan();
        }
        assert_eq!(cluster.firsts(), counts(expected), "{sentences:?}");
        cluster.fails("n1", &[]);
        assert_eq!(cluster.firsts(), counts(expected), "what is placed stays");
    }
}

#[test]
fn what_fails_everywhere_decides_nothing() {
    let mut cluster = Cluster::of(3);
    for node in ["n1", "n2", "n3"] {
        cluster.fails(node, &[KUBE_PROXY]);
    }
    for last in 100..106 {
        cluster.vip(&format!("192.0.2.{last}"));
    }
    assert_eq!(cluster.firsts(), counts(&[("n1", 2), ("n2", 2), ("n3", 2)]));
}

#[test]
fn a_check_of_an_announcement_counts_for_its_addresses_only() {
    let mut cluster = Cluster::of(3);
    let check = serde_json::from_value(json!({ "tcpSocket": { "port": 179 } })).expect("a check");
    let spec =
        AnnouncementSpec { pools: vec!["p".into()], checks: vec![check], ..AnnouncementSpec::default() };
    cluster.announce("a", spec);
    cluster.fails("n1", &["the check tcpSocket localhost:179: refused"]);
    for last in 100..106 {
        cluster.vip_of("p", &format!("192.0.2.{last}"));
    }
    assert_eq!(cluster.firsts(), counts(&[("n2", 3), ("n3", 3)]));
    cluster.input.vips.clear();
    cluster.plan();
    for last in 100..106 {
        cluster.vip_of("q", &format!("192.0.2.{last}"));
    }
    assert_eq!(cluster.firsts(), counts(&[("n1", 2), ("n2", 2), ("n3", 2)]));
}

#[test]
fn a_preferred_node_on_which_something_fails_is_first_still() {
    let mut cluster = Cluster::of(3);
    cluster.label("n1", "edge", "yes");
    let selector = serde_json::from_value(json!({ "matchLabels": { "edge": "yes" } })).expect("a selector");
    let preferred_nodes = vec![windlass_api::PreferredNodes { weight: 10, selector }];
    cluster.announce("a", AnnouncementSpec { preferred_nodes, ..AnnouncementSpec::default() });
    cluster.fails("n1", &[KUBE_PROXY]);
    for last in 100..106 {
        cluster.vip(&format!("192.0.2.{last}"));
    }
    assert_eq!(
        cluster.firsts(),
        counts(&[("n1", 6)]),
        "it gives its addresses up by itself, as long as it fails"
    );
}

#[test]
fn the_second_address_of_a_service_makes_no_router_for_a_node_on_which_something_fails() {
    let mut cluster = Cluster::of(2);
    cluster.fails("n1", &[KUBE_PROXY]);
    for last in 96..102 {
        cluster.vip(&format!("192.0.2.{last}"));
    }
    cluster.plan();
    for last in 102..104 {
        cluster.vip_for("p", &format!("192.0.2.{last}"), &["web"]);
    }
    assert_eq!(cluster.firsts(), counts(&[("n2", 6)]));
}

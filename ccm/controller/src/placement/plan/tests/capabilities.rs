//! VIPs whose clients are restricted, among agents of which some do not obey that.

use super::*;

const RESTRICTED: &str = "192.0.2.100";
const OPEN: &str = "192.0.2.101";

/// Three nodes, and a VIP of either kind.
fn cluster(too_old: &[&str]) -> Cluster {
    let mut cluster = Cluster::of(3);
    for node in too_old {
        cluster.capabilities(node, &[]);
    }
    cluster.vip(RESTRICTED);
    cluster.restrict(RESTRICTED, true);
    cluster.vip(OPEN);
    cluster
}

/// The nodes that may announce a VIP.
fn may_announce(plan: &PlacementPlan<'_>, address: &str) -> BTreeSet<String> {
    plan.routers_by_vip.get(address).map(|router| names(plan, router)).into_iter().flatten().collect()
}

fn nodes(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_restricted_vip_is_announced_by_those_alone_whose_agents_obey_that_and_an_open_one_by_all() {
    let all = ["n1", "n2", "n3"];
    let rows: [(&[&str], &[&str]); 4] =
        [(&[], &all), (&["n1"], &["n2", "n3"]), (&["n1", "n3"], &["n2"]), (&all, &[])];
    for (too_old, expected) in rows {
        let plan = cluster(too_old).plan();
        assert_eq!(may_announce(&plan, RESTRICTED), nodes(expected), "{too_old:?} are too old");
        assert_eq!(may_announce(&plan, OPEN), nodes(&all), "{too_old:?} are too old");
        assert_eq!(plan.unplaced.contains_key(RESTRICTED), expected.is_empty(), "{too_old:?} are too old");
    }
}

#[test]
fn what_a_newer_agent_obeys_besides_is_no_obstacle() {
    let mut cluster = cluster(&["n1", "n2"]);
    cluster.capabilities("n3", &[Capability::Unknown, Capability::SourceRanges]);
    assert_eq!(may_announce(&cluster.plan(), RESTRICTED), nodes(&["n3"]));
}

#[test]
fn where_no_agent_obeys_that_it_is_said_with_the_nodes_their_versions_and_what_helps() {
    let plan = cluster(&["n1", "n2", "n3"]).plan();
    let why = &plan.unplaced[RESTRICTED];
    assert_eq!(
        format!("{}: {why}", why.reason()),
        "AgentTooOld: source ranges restrict 192.0.2.100, and no node that could announce it enforces them: \
         the NodeNetworks of n1 (agent t), n2 (agent t), n3 (agent t) do not have SourceRanges in \
         spec.capabilities. Apply the definitions (kubectl apply -f manifests/crds), then update the agents"
    );
}

#[test]
fn a_node_whose_agent_becomes_too_old_loses_a_restricted_vip_at_once_though_it_is_active_and_comes_back_later()
 {
    let mut cluster = cluster(&[]);
    let router = cluster.plan().routers_by_vip[RESTRICTED].clone();
    cluster.active.insert(router.clone(), "n2".into());
    cluster.capabilities("n2", &[]);
    let plan = cluster.plan();
    assert_eq!(plan.routers_by_vip[RESTRICTED], router, "the VIP stays where it is");
    assert_eq!(may_announce(&plan, RESTRICTED), nodes(&["n1", "n3"]));
    cluster.capabilities("n2", &Capability::ALL);
    assert_eq!(may_announce(&cluster.plan(), RESTRICTED), nodes(&["n1", "n2", "n3"]));
}

#[test]
fn when_the_last_agent_that_obeys_becomes_too_old_a_restricted_vip_goes_and_what_shares_its_router_stays() {
    let mut cluster = cluster(&[]);
    let router = cluster.plan().routers_by_vip[RESTRICTED].clone();
    cluster.vip("192.0.2.102");
    Arc::make_mut(&mut cluster.input.vips[2]).spec.virtual_router = Some(router.clone());
    for node in ["n1", "n2", "n3"] {
        cluster.capabilities(node, &[]);
    }
    let plan = cluster.plan();
    assert_eq!(plan.unplaced.keys().collect::<Vec<_>>(), [RESTRICTED]);
    assert_eq!(plan.routers_by_vip["192.0.2.102"], router);
    assert_eq!(names(&plan, &router).len(), 3);
}

#[test]
fn a_vip_that_becomes_restricted_leaves_the_nodes_whose_agents_do_not_obey_that() {
    let mut cluster = cluster(&["n1"]);
    let router = cluster.plan().routers_by_vip[OPEN].clone();
    cluster.restrict(OPEN, true);
    let plan = cluster.plan();
    assert_eq!(plan.routers_by_vip[OPEN], router);
    assert_eq!(may_announce(&plan, OPEN), nodes(&["n2", "n3"]));
    cluster.restrict(OPEN, false);
    assert_eq!(may_announce(&cluster.plan(), OPEN), nodes(&["n1", "n2", "n3"]));
}

#[test]
fn a_node_without_a_report_keeps_what_it_had() {
    let mut cluster = cluster(&[]);
    cluster.plan();
    cluster.networks.retain(|network| network.name_any() != "n2");
    assert_eq!(may_announce(&cluster.plan(), RESTRICTED), nodes(&["n1", "n2", "n3"]));
}

#[test]
fn what_only_kube_proxy_restricts_needs_no_agent_that_obeys() {
    let mut cluster = cluster(&["n1", "n2", "n3"]);
    let sources = &mut Arc::make_mut(&mut cluster.input.vips[0]).spec.sources;
    sources[0].by_kube_proxy = true;
    assert_eq!(may_announce(&cluster.plan(), RESTRICTED), nodes(&["n1", "n2", "n3"]));
}

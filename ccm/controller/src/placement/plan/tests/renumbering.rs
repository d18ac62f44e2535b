//! VRIDs that strangers take.

use super::*;

/// Node `n1` hears strangers with these VRIDs on its interface.
fn hear(cluster: &mut Cluster, vrids: &[u8]) {
    let foreign: Vec<_> = vrids.iter().map(|vrid| ("eth0", *vrid)).collect();
    cluster.networks("n1", &[("eth0", &["192.0.2.1/24"])], &foreign);
}

fn vrids(plan: &PlacementPlan<'_>) -> BTreeSet<u8> {
    plan.routers.values().map(|router| router.vrid).collect()
}

/// A cluster of this name with twelve VIPs on three nodes.
fn cluster(name: &str) -> Cluster {
    let mut cluster = Cluster::of(3);
    name.clone_into(&mut cluster.input.cluster);
    for last in 100..112 {
        cluster.vip(&format!("192.0.2.{last}"));
    }
    cluster
}

#[test]
fn a_router_whose_vrid_a_stranger_takes_is_replaced_by_its_like() {
    let mut cluster = cluster("a");
    let before = cluster.plan();
    assert_eq!(vrids(&before), (64..70).collect());
    hear(&mut cluster, &[65]);
    let after = cluster.plan();
    assert_eq!(after.routers.len(), 6);
    assert!(!vrids(&after).contains(&65));
    for (vip, old) in &before.routers_by_vip {
        let new = &after.routers_by_vip[vip];
        assert_eq!(new != old, before.routers[old].vrid == 65, "{vip}: {old}, {new}");
        let (is, was) = (&after.routers[new], &before.routers[old]);
        assert_eq!(is.replaces.is_some(), new != old, "{vip}: {old}, {new}");
        assert_eq!(
            VirtualRouterSpec { vrid: was.vrid, replaces: None, ..VirtualRouterSpec::clone(is) },
            **was
        );
    }
    hear(&mut cluster, &[]);
    assert_eq!(cluster.plan(), after, "it does not come back when the stranger is gone");
}

#[test]
fn a_stranger_elsewhere_is_none() {
    let mut cluster = cluster("a");
    let before = cluster.plan();
    cluster.networks("n1", &[("eth0", &["192.0.2.1/24"]), ("eth1", &["10.0.0.1/8"])], &[("eth1", 64)]);
    assert_eq!(cluster.plan(), before, "another link");
    let last = cluster.networks.last_mut().expect("that of n1");
    let mut network = NodeNetwork::clone(last);
    network.spec.foreign_routers[0].interface = "eth0".into();
    network.spec.foreign_routers[0].source = "fe80::1".parse().expect("an address");
    *last = Arc::new(network);
    assert_eq!(cluster.plan(), before, "the other family");
}

#[test]
fn without_a_free_vrid_it_stays() {
    let mut cluster = cluster("a");
    let vrid_range = Some(windlass_api::VridRange { first: 64, last: 69 });
    let vrrp = windlass_api::VrrpSettings { vrid_range, ..windlass_api::VrrpSettings::default() };
    cluster.announce("a", AnnouncementSpec { vrrp, ..AnnouncementSpec::default() });
    let before = cluster.plan();
    hear(&mut cluster, &(1..=255).collect::<Vec<_>>());
    assert_eq!(cluster.plan(), before);
}

#[test]
fn vips_that_were_not_moved_in_time_follow_the_others() {
    let mut cluster = cluster("a");
    let before = cluster.plan();
    let known = cluster.input.routers.clone();
    hear(&mut cluster, &[64]);
    let after = cluster.plan();
    let moved: Vec<_> =
        before.routers_by_vip.iter().filter(|(vip, old)| after.routers_by_vip[*vip] != **old).collect();
    assert_eq!(moved.len(), 2);
    // One of the two writes came to nothing, and neither did the deletion.
    let (vip, old) = moved[0];
    let known = known.iter().find(|router| router.name_any() == *old).expect("it was there");
    cluster.input.routers.push(Arc::clone(known));
    for known in cluster.input.vips.iter_mut().filter(|known| known.name_any() == *vip) {
        Arc::make_mut(known).spec.virtual_router = Some(old.clone());
    }
    assert_eq!(cluster.plan(), after);
}

#[test]
fn routers_that_came_to_have_the_same_nodes_are_replaced_by_one_each() {
    let mut cluster = cluster("a");
    cluster.plan();
    for number in [3, 2] {
        let name = format!("n{number}");
        let known =
            cluster.networks.iter().position(|network| network.name_any() == name).expect("its report");
        let network = cluster.networks.remove(known);
        let traits = cluster.nodes.remove(&name).expect("the node");
        // Nobody is Active there any more.
        cluster.active =
            cluster.input.routers.iter().map(|router| (router.name_any(), "n1".to_owned())).collect();
        cluster.plan();
        cluster.networks.push(network);
        cluster.nodes.insert(name, traits);
        cluster.active.clear();
        cluster.plan();
    }
    let before = cluster.plan();
    let lists: BTreeSet<_> = before.routers.keys().map(|router| names(&before, router)).collect();
    assert_eq!((before.routers.len(), lists.len()), (6, 1), "{lists:?}");
    // All of them, and then one beside another that stays.
    for count in [6, 1] {
        let before = cluster.plan();
        let heard: Vec<u8> = vrids(&before).into_iter().take(count).collect();
        hear(&mut cluster, &heard);
        let after = cluster.plan();
        assert!(vrids(&after).is_disjoint(&heard.iter().copied().collect()));
        let pairs: BTreeSet<_> =
            before.routers_by_vip.iter().map(|(vip, old)| (old, &after.routers_by_vip[vip])).collect();
        assert_eq!((after.routers.len(), pairs.len()), (6, 6), "{pairs:?}");
    }
}

// shows: field-reports F-27
#[test]
fn clusters_that_begin_alike_on_one_lan_part_for_good() {
    let mut clusters = ["a", "b", "c"].map(cluster);
    for one in &mut clusters {
        one.plan();
    }
    let mut rounds = 0;
    loop {
        let all: Vec<BTreeSet<u8>> = clusters.iter_mut().map(|one| vrids(&one.plan())).collect();
        let distinct: BTreeSet<u8> = all.iter().flatten().copied().collect();
        if all.iter().map(BTreeSet::len).sum::<usize>() == distinct.len() {
            break;
        }
        rounds += 1;
        assert!(rounds < 5, "{all:?}");
        for (index, one) in clusters.iter_mut().enumerate() {
            let others = all.iter().enumerate().filter(|(other, _)| *other != index);
            hear(one, &others.flat_map(|(_, vrids)| vrids.iter().copied()).collect::<Vec<_>>());
        }
    }
    assert!(rounds >= 1, "all began with the same VRIDs");
}

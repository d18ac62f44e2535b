//! Foreign routers that use VRIDs as an attacker would.

use windlass_api::{Authentication, VrrpSettings};

use super::super::strangers::{LONGEST_PAUSE, MAX_FOREIGN_VRIDS, MAX_VRIDS_OF_A_SOURCE, PAUSE};
use super::*;

/// Node `n1` hears these sources with VRIDs.
fn hear(cluster: &mut Cluster, heard: impl IntoIterator<Item = (String, u8)>) {
    let network = cluster.networks.iter_mut().find(|network| network.name_any() == "n1").expect("n1");
    let router = |(source, vrid): (String, u8)| ForeignRouter {
        interface: "eth0".into(),
        vrid,
        source: source.parse().expect("an address"),
        version: 3,
    };
    Arc::make_mut(network).spec.foreign_routers = heard.into_iter().map(router).collect();
}

const ATTACKER: &str = "192.0.2.253";

fn attacker(vrid: u8) -> (String, u8) {
    (ATTACKER.to_owned(), vrid)
}

fn vrids(plan: &PlacementPlan<'_>) -> BTreeSet<u8> {
    plan.routers.values().map(|router| router.vrid).collect()
}

/// Twelve VIPs on three nodes, at a time.
fn cluster() -> Cluster {
    let mut cluster = Cluster::of(3);
    cluster.has_clock = true;
    cluster.input.now = "2026-01-01T00:00:00Z".parse().expect("a time");
    for last in 100..112 {
        cluster.vip(&format!("192.0.2.{last}"));
    }
    cluster.plan();
    cluster
}

// shows: threats T-15
#[test]
fn one_host_that_sends_every_vrid_takes_few_and_many_take_half() {
    let all = || 1..=255u8;
    let forged: Vec<_> = all().map(|vrid| (format!("192.0.3.{vrid}"), vrid)).collect();
    for (heard, most) in
        [(all().map(attacker).collect::<Vec<_>>(), MAX_VRIDS_OF_A_SOURCE), (forged, MAX_FOREIGN_VRIDS)]
    {
        let mut cluster = cluster();
        hear(&mut cluster, heard);
        cluster.plan();
        // Each `Local` Service needs a VRID of its own.
        for last in 112..212 {
            let address = format!("192.0.2.{last}");
            cluster.vip(&address);
            cluster.endpoints(&address, &[("n1", EndpointState::Ready)]);
        }
        let plan = cluster.plan();
        assert_eq!((plan.unplaced.len(), plan.routers_by_vip.len()), (0, 112), "{most} of 255 are in use");
    }
}

// shows: threats T-15
#[test]
fn who_chases_the_vrids_in_use_has_them_changed_ever_more_rarely() {
    let mut cluster = cluster();
    let start = cluster.input.now;
    let mut last = vrids(&cluster.plan());
    let mut changes = Vec::new();
    for minute in (0..36 * 60).step_by(5) {
        cluster.input.now = start + Duration::from_mins(minute);
        hear(&mut cluster, last.iter().copied().map(attacker));
        let next = plan(&cluster.input()).look_again;
        let now = vrids(&cluster.plan());
        if now == last {
            assert!(next.is_some_and(|next| next > cluster.input.now), "it looks again by itself");
        } else {
            assert!(now.is_disjoint(&last), "all of them at once: {last:?}, {now:?}");
            changes.push(minute);
        }
        last = now;
    }
    let gaps: Vec<u64> = changes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(changes[0], 0, "the first at once");
    let expected = [10, 20, 40, 80, 160, 320, 360, 360, 360, 360];
    assert_eq!(gaps, expected);
    assert_eq!((PAUSE.as_secs(), LONGEST_PAUSE.as_secs()), (600, 360 * 60));
    // After a day of calm the next change is the first again.
    hear(&mut cluster, []);
    cluster.input.now = start + Duration::from_hours(72);
    cluster.plan();
    hear(&mut cluster, last.iter().copied().map(attacker));
    let plan = cluster.plan();
    assert!(vrids(&plan).is_disjoint(&last));
    assert_eq!(plan.vrid_changes.values().copied().collect::<BTreeSet<_>>(), [1].into());
}

#[test]
fn a_change_that_was_begun_is_finished_and_other_segments_do_not_wait() {
    let mut cluster = cluster();
    let before = cluster.plan();
    let heard: Vec<u8> = vrids(&before).into_iter().collect();
    hear(&mut cluster, heard.iter().copied().map(attacker));
    // No VIP followed.
    let vips = cluster.input.vips.clone();
    let old = cluster.input.routers.clone();
    let after = cluster.carry_out();
    cluster.input.vips = vips;
    cluster.input.routers.extend(old);
    cluster.input.now += Duration::from_mins(1);
    assert_eq!(cluster.plan().routers_by_vip, after.routers_by_vip);

    cluster.networks("n1", &[("eth0", &["192.0.2.1/24"]), ("eth1", &["203.0.113.1/24"])], &[]);
    cluster.vip("203.0.113.9");
    let router = cluster.router("203.0.113.9").expect("a router");
    let vrid = cluster.plan().routers[&router].vrid;
    let heard = vrids(&cluster.plan());
    hear(&mut cluster, heard.into_iter().map(attacker));
    let network = cluster.networks.iter_mut().find(|network| network.name_any() == "n1").expect("n1");
    let other =
        ForeignRouter { interface: "eth1".into(), ..Arc::make_mut(network).spec.foreign_routers[0].clone() };
    Arc::make_mut(network).spec.foreign_routers.push(ForeignRouter { vrid, ..other });
    let last = cluster.plan();
    assert_ne!(last.routers_by_vip["203.0.113.9"], router);
    assert_eq!(last.routers_by_vip["192.0.2.100"], after.routers_by_vip["192.0.2.100"]);
}

#[test]
fn a_real_router_is_made_way_for_while_another_host_sends_every_vrid() {
    let mut cluster = cluster();
    let before = cluster.plan();
    let flood: Vec<_> = (1..=255).map(attacker).collect();
    hear(&mut cluster, flood.clone());
    assert_eq!(cluster.plan(), before, "its VRIDs beyond the first ones count for nothing");
    hear(&mut cluster, flood.into_iter().chain([("192.0.2.254".to_owned(), 65)]));
    let after = vrids(&cluster.plan());
    assert!(!after.contains(&65) && after.len() == 6, "{after:?}");
}

#[test]
fn routers_that_sign_leave_their_vrids_to_nobody() {
    let mut cluster = cluster();
    for node in ["n1", "n2", "n3"] {
        cluster.give_key(node, 7);
    }
    let vrrp = VrrpSettings { authentication: Some(Authentication { key_id: 7 }), ..VrrpSettings::default() };
    cluster.announce("a", AnnouncementSpec { vrrp, ..AnnouncementSpec::default() });
    let before = cluster.plan();
    let used = vrids(&before);
    hear(&mut cluster, used.into_iter().map(attacker));
    assert_eq!(cluster.plan(), before);
}

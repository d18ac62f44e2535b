use windlass_vrrp::{Family, Vrid};

use super::*;

fn id(vrid: u8) -> RouterId {
    (Family::V4, Vrid::new(vrid).unwrap())
}

fn router(vrid: u8, vips: &[u8]) -> (RouterId, RouterConfig) {
    let addresses = vips.iter().map(|last| IpAddr::from([192, 0, 2, *last])).collect();
    let config = RouterConfig::new("eth0", Vrid::new(vrid).unwrap(), [192, 0, 2, 1].into());
    (id(vrid), RouterConfig { addresses, ..config })
}

fn routers(all: &[(u8, &[u8])]) -> BTreeMap<RouterId, RouterConfig> {
    all.iter().map(|(vrid, vips)| router(*vrid, vips)).collect()
}

/// VRIDs and VIPs.
type Routers<'a> = &'a [(u8, &'a [u8])];

#[test]
fn a_vip_stays_in_its_router_while_another_node_has_it_there() {
    let rows: &[(&str, Routers<'_>, Routers<'_>, Option<Routers<'_>>)] = &[
        ("another VRID", &[(1, &[50, 51])], &[(2, &[50, 51])], Some(&[(1, &[50, 51])])),
        ("with a new one", &[(1, &[50])], &[(2, &[50, 51])], Some(&[(1, &[50]), (2, &[51])])),
        ("two", &[(1, &[50, 51])], &[(2, &[50]), (3, &[51])], Some(&[(1, &[50, 51])])),
        (
            "beside others",
            &[(1, &[50]), (9, &[60])],
            &[(2, &[50]), (9, &[60])],
            Some(&[(1, &[50]), (9, &[60])]),
        ),
        ("one goes, the other is gone", &[(1, &[50, 51])], &[(2, &[50])], Some(&[(1, &[50])])),
        ("one is split off", &[(1, &[50, 51])], &[(1, &[50]), (2, &[51])], Some(&[(1, &[50, 51])])),
        (
            "to one that runs",
            &[(1, &[50, 51]), (2, &[52])],
            &[(1, &[50]), (2, &[51, 52])],
            Some(&[(1, &[50, 51]), (2, &[52])]),
        ),
        (
            "all to one that runs",
            &[(1, &[50]), (2, &[51])],
            &[(2, &[50, 51])],
            Some(&[(1, &[50]), (2, &[51])]),
        ),
        (
            "to one that runs and has none",
            &[(1, &[50, 51]), (2, &[])],
            &[(1, &[50]), (2, &[51])],
            Some(&[(1, &[50, 51]), (2, &[])]),
        ),
        (
            "two change places",
            &[(1, &[50]), (2, &[51])],
            &[(1, &[51]), (2, &[50])],
            Some(&[(1, &[50]), (2, &[51])]),
        ),
        ("all are gone", &[(1, &[50])], &[], None),
        ("nothing changes", &[(1, &[50])], &[(1, &[50])], None),
        ("one is new", &[(1, &[50])], &[(1, &[50, 51]), (2, &[])], None),
    ];
    for (what, running, desired, expected) in rows {
        let (running, desired) = (routers(running), routers(desired));
        let running: BTreeMap<_, _> = running.iter().map(|(id, config)| (*id, config)).collect();
        let found = interim(&desired, &running, |_, _| true);
        assert_eq!(found.map(|found| found.routers), expected.map(routers), "{what}");
        let nobody = interim(&desired, &running, |_, _| false);
        assert_eq!(nobody, None, "{what}, where this node has them or nobody has");
    }
}

#[test]
fn only_what_another_node_has_stays_and_it_is_proven_no_more_than_before() {
    let (before, mut desired) = (routers(&[(1, &[50, 51, 52])]), routers(&[(1, &[50]), (2, &[51, 52])]));
    desired.entry(id(2)).and_modify(|config| config.unproven = config.addresses.clone());
    let running = before.iter().map(|(id, config)| (*id, config)).collect();
    let moves = IpAddr::from([192, 0, 2, 52]);
    let found = interim(&desired, &running, |_, address| address == moves).unwrap();
    let unproven = |vrid| found.routers[&id(vrid)].unproven.clone();
    let addresses = |vrid| found.routers[&id(vrid)].addresses.clone();
    assert_eq!(found.kept, [id(1)]);
    assert_eq!(addresses(1), router(1, &[50, 52]).1.addresses);
    assert_eq!(addresses(2), router(2, &[51]).1.addresses);
    assert_eq!((unproven(1), unproven(2)), ([moves].into(), addresses(2)));
}

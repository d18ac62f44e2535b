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
fn a_router_is_kept_whose_vips_all_go_to_new_ones_while_another_node_has_them() {
    let rows: &[(&str, Routers<'_>, Routers<'_>, Option<Routers<'_>>)] = &[
        ("another VRID", &[(1, &[50, 51])], &[(2, &[50, 51])], Some(&[(1, &[50, 51])])),
        ("with one more", &[(1, &[50])], &[(2, &[50, 51])], Some(&[(1, &[50])])),
        ("two", &[(1, &[50, 51])], &[(2, &[50]), (3, &[51])], Some(&[(1, &[50, 51])])),
        (
            "beside others",
            &[(1, &[50]), (9, &[60])],
            &[(2, &[50]), (9, &[60])],
            Some(&[(1, &[50]), (9, &[60])]),
        ),
        ("one VIP goes", &[(1, &[50, 51])], &[(2, &[50])], None),
        ("to one that runs", &[(1, &[50]), (2, &[51])], &[(2, &[50, 51])], None),
        ("all go", &[(1, &[50])], &[], None),
        ("nothing changes", &[(1, &[50])], &[(1, &[50])], None),
    ];
    for (what, running, desired, expected) in rows {
        let (running, desired) = (routers(running), routers(desired));
        let followed = running.iter().map(|(id, config)| (*id, config));
        let found = interim(&desired, followed, |id| running.contains_key(id));
        assert_eq!(found.map(|found| found.routers), expected.map(routers), "{what}");
        let nobody = interim(&desired, std::iter::empty(), |id| running.contains_key(id));
        assert_eq!(nobody, None, "{what}, where this node has them or nobody has");
    }
}

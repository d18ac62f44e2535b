use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))] // 0.9 ms each

    /// Against a map: content, order of the walk, count and digest.
    #[test]
    fn a_table_is_a_map_with_a_digest(
        steps in proptest::collection::vec((0..6_u8, 0..40_u32, 0..3_u8, any::<bool>()), 0..200),
        from in 0..40_u32,
    ) {
        let (mut table, mut map) = (Connections::default(), BTreeMap::new());
        for (vip_number, number, backend, put) in steps {
            let connection = connection(vip_number, number, backend);
            if put {
                let placed = match map.insert(connection.key, connection) {
                    None => Placed::New,
                    Some(former) if former == connection => Placed::Same,
                    Some(_) => Placed::Changed,
                };
                prop_assert_eq!(table.put(connection), Ok(placed));
            } else {
                prop_assert_eq!(table.remove(&connection.key), map.remove(&connection.key));
            }
        }
        prop_assert_eq!(table.len(), map.len());
        prop_assert_eq!(table.iter().map(|c| (c.key, c)).collect::<BTreeMap<_, _>>(), map.clone());
        for wanted in [vips(6), vips(3), vips(0)] {
            let of = |c: &&Connection| wanted.contains(&c.key.vip.ip());
            let sum = map.values().filter(of).fold(0, |sum: u64, c| sum.wrapping_add(digest(c)));
            let count = u32::try_from(map.values().filter(of).count()).unwrap();
            prop_assert_eq!(table.summary(&wanted), Summary { count, digest: sum });
            // A walk from anything goes on with what comes after it, whether that is there or not.
            let all: Vec<_> = table.after(None, &wanted).collect();
            prop_assert_eq!(all.len(), map.values().filter(of).count());
            for (at, connection) in all.iter().enumerate() {
                let rest: Vec<_> = table.after(Some(&connection.key), &wanted).collect();
                prop_assert_eq!(&rest[..], &all[at + 1..]);
            }
            let cursor = connection(2, from, 0).key;
            let mut without = table.clone();
            without.remove(&cursor);
            prop_assert!(table.after(Some(&cursor), &wanted).eq(without.after(Some(&cursor), &wanted)));
        }
    }

    #[test]
    fn what_a_generation_does_not_name_goes(
        old in proptest::collection::vec((0..6_u8, 0..40_u32), 0..50),
        new in proptest::collection::vec((0..6_u8, 0..40_u32), 0..50),
    ) {
        let (mut table, mut expected) = (Connections::default(), Connections::default());
        for (vip_number, number) in &old {
            table.put_as_of(connection(*vip_number, *number, 0), 1, 0).unwrap();
        }
        for (vip_number, number) in &new {
            table.put_as_of(connection(*vip_number, *number, 0), 2, 0).unwrap();
            expected.put(connection(*vip_number, *number, 0)).unwrap();
        }
        let before = table.len();
        let gone = table.remove_others(2);
        prop_assert_eq!(gone.len(), before - expected.len());
        prop_assert!(table.iter().eq(expected.iter()));
        prop_assert_eq!(table.summary(&vips(6)), expected.summary(&vips(6)));
        prop_assert!(table.vips().eq(expected.vips()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))] // 0.45 ms each

    /// Against a map of the seconds in which they came: what is there already, and is put again, does not become younger.
    #[test]
    fn the_oldest_go_first_but_for_those_of_vips_that_are_kept(
        steps in proptest::collection::vec((0..6_u8, 0..40_u32, 0..2_u8, 0..9_u32), 0..120),
        count in 0..130_usize,
        kept in 0..6_u8,
    ) {
        let (mut table, mut came) = (Connections::default(), BTreeMap::new());
        for (vip_number, number, backend, second) in steps {
            let connection = connection(vip_number, number, backend);
            if table.get(&connection.key) != Some(connection) {
                came.insert(connection.key, second);
            }
            table.put_as_of(connection, 1, second).unwrap();
        }
        let kept: BTreeSet<IpAddr> = [vip(kept)].into();
        let is_kept = |key: &ConnectionKey| kept.contains(&key.vip.ip());
        let mut expected = table.clone();
        let gone = table.remove_oldest(count, &kept);
        prop_assert_eq!(gone.len(), count.min(came.keys().filter(|key| !is_kept(key)).count()));
        prop_assert!(!gone.iter().any(|connection| is_kept(&connection.key)));
        let youngest_gone = gone.iter().map(|connection| came[&connection.key]).max();
        let left = table.iter().filter(|connection| !is_kept(&connection.key));
        let oldest_left = left.map(|connection| came[&connection.key]).min();
        prop_assert!(gone.is_empty() || oldest_left.is_none() || youngest_gone <= oldest_left);
        for connection in &gone {
            prop_assert_eq!(expected.remove(&connection.key), Some(*connection));
        }
        prop_assert!(table.iter().eq(expected.iter()));
        prop_assert_eq!(table.len(), expected.len());
        prop_assert_eq!(table.summary(&vips(6)), expected.summary(&vips(6)));
        prop_assert!(table.vips().eq(expected.vips()));
    }
}

#[test]
fn a_connection_between_families_is_refused() {
    let (v4, v6) = (connection(0, 1, 1), connection(1, 1, 1));
    let mut table = Connections::default();
    for mixed in [
        Connection { backend: v6.backend, ..v4 },
        Connection { source: v4.source, ..v6 },
        Connection { key: ConnectionKey { client: v6.key.client, ..v4.key }, ..v4 },
        Connection { key: ConnectionKey { vip: v4.key.vip, ..v6.key }, ..v6 },
    ] {
        assert_eq!(table.put(mixed), Err(MixedFamilies(Box::new(mixed))));
        assert_eq!(table.remove(&mixed.key), None);
    }
    assert!(table.is_empty());
    assert_eq!(table.vips().count(), 0);
}

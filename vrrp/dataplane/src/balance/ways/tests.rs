use super::*;

fn peers(all: &[&str]) -> BTreeSet<IpAddr> {
    all.iter().map(|peer| peer.parse().unwrap()).collect()
}

#[test]
fn each_peer_of_a_family_has_a_number_of_its_own_that_another_seldom_changes() {
    let table: [(&[&str], &[u32]); 5] = [
        (&["192.0.2.11", "192.0.2.12"], &[12, 13]),
        (&["192.0.2.12", "192.0.2.13", "192.0.2.14"], &[13, 14, 15]),
        // The last of them comes round again.
        (&["192.0.2.14", "192.0.2.15", "192.0.2.29"], &[15, 1, 2]),
        (&["10.0.1.5", "10.0.2.5"], &[6, 7]),
        // Families have their own.
        (&["192.0.2.11", "2001:db8::b"], &[12, 12]),
    ];
    for (all, expected) in table {
        let found: Vec<u32> = numbers(&peers(all), 15).unwrap().into_values().collect();
        assert_eq!(found, expected, "{all:?}");
    }
    let many: BTreeSet<IpAddr> = (1..=15).map(|n| IpAddr::from([192, 0, 2, n])).collect();
    let found: BTreeSet<u32> = numbers(&many, 15).unwrap().into_values().collect();
    assert_eq!(found, (1..=15).collect());
    assert_eq!(numbers(&many, 7), None);
}
